"""Declared context variables: reading them, and checking a context against them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.expressions import (
    ContextVariable,
    context_problems,
    parse_expression,
    parse_variables,
)
from agents.expressions.limits import MAX_VALUES, MAX_VARIABLES
from registry.errors import Invalid


def test_declarations__that_are_complete__are_read_and_written_alike() -> None:
    items = [
        {
            "name": "region",
            "type": "string",
            "values": ["EU", "UK", "US"],
            "required": True,
            "sensitive": False,
            "example": "EU",
            "description": "Where the customer lives",
        },
        {"name": "customer.email", "type": "string", "sensitive": True},
    ]

    region, email = parse_variables(items)

    assert region == ContextVariable(
        name="region",
        type="string",
        values=("EU", "UK", "US"),
        required=True,
        example="EU",
        description="Where the customer lives",
    )
    assert region.as_json() == items[0]
    assert email == ContextVariable(name="customer.email", type="string", sensitive=True)
    assert parse_variables([region.as_json(), email.as_json()]) == (region, email)


@pytest.mark.parametrize("value", [None, []])
def test_declarations__that_are_absent__declare_nothing(value: Any) -> None:
    assert parse_variables(value) == ()


@pytest.mark.parametrize(
    ("items", "field", "told"),
    [
        ({"region": "string"}, "contextVariables", "a list of objects"),
        ("region", "contextVariables", "a list of objects"),
        ([{"name": f"v{i}", "type": "string"} for i in range(MAX_VARIABLES + 1)],
         "contextVariables", str(MAX_VARIABLES)),
        (["region"], "contextVariables.0", "an object"),
        ([{}], "contextVariables.0.type", "must be one of string"),
        ([{"name": "x"}], "contextVariables.0.type", "must be one of string"),
        ([{"name": "x", "type": "text"}], "contextVariables.0.type", "must be one of string"),
        ([{"name": "x", "type": ["string"]}], "contextVariables.0.type", "must be one of"),
        ([{"type": "string"}], "contextVariables.0.name", "must be a name"),
        ([{"name": 5, "type": "string"}], "contextVariables.0.name", "must be a name"),
        ([{"name": "", "type": "string"}], "contextVariables.0.name", "must be a name"),
        ([{"name": "a b", "type": "string"}], "contextVariables.0.name", "not a name"),
        ([{"name": "a..b", "type": "string"}], "contextVariables.0.name", "not a name"),
        ([{"name": "1a", "type": "string"}], "contextVariables.0.name", "not a name"),
        ([{"name": "_a", "type": "string"}], "contextVariables.0.name", "begin with _"),
        ([{"name": "a.__b", "type": "string"}], "contextVariables.0.name", "begin with _"),
        ([{"name": "class", "type": "string"}], "contextVariables.0.name", "expression language"),
        ([{"name": "true", "type": "string"}], "contextVariables.0.name", "expression language"),
        ([{"name": "not", "type": "string"}], "contextVariables.0.name", "expression language"),
        ([{"name": "ﬁeld", "type": "string"}], "contextVariables.0.name", "look like letters"),
        ([{"name": "x" * 101, "type": "string"}], "contextVariables.0.name", "100 characters"),
        ([{"name": "x", "type": "string"}, {"name": "x", "type": "number"}],
         "contextVariables.1.name", "declared twice"),
        ([{"name": "e\u0301", "type": "string"}, {"name": "\u00e9", "type": "number"}],
         "contextVariables.1.name", "declared twice"),
        ([{"name": "x.y", "type": "string"}, {"name": "x", "type": "number"}],
         "contextVariables.0.name", "`x` is declared as number"),
        ([{"name": "x", "type": "string", "valeus": []}], "contextVariables.0.valeus", "not a known"),
        ([{"name": "x", "type": "string", "values": []}], "contextVariables.0.values", "1 to"),
        ([{"name": "x", "type": "string", "values": "EU"}], "contextVariables.0.values", "1 to"),
        ([{"name": "x", "type": "number", "values": list(range(MAX_VALUES + 1))}],
         "contextVariables.0.values", str(MAX_VALUES)),
        ([{"name": "x", "type": "object", "values": [{}]}], "contextVariables.0.values", "its keys"),
        ([{"name": "x", "type": "string", "values": ["a", 1]}],
         "contextVariables.0.values.1", "type string"),
        ([{"name": "x", "type": "number", "values": [1, True]}],
         "contextVariables.0.values.1", "type number"),
        ([{"name": "x", "type": "number", "values": [1, 1.0]}],
         "contextVariables.0.values.1", "twice"),
        ([{"name": "x", "type": "number", "values": [2**53 + 1]}],
         "contextVariables.0.values.0", "exactly"),
        ([{"name": "x", "type": "number", "values": [float("nan")]}],
         "contextVariables.0.values.0", "exactly"),
        ([{"name": "x", "type": "list", "values": [["a"]]}],
         "contextVariables.0.values.0", "string or number or boolean"),
        ([{"name": "x", "type": "string", "required": 1}], "contextVariables.0.required", "true or"),
        ([{"name": "x", "type": "string", "sensitive": "no"}],
         "contextVariables.0.sensitive", "true or false"),
        ([{"name": "x", "type": "string", "description": 5}],
         "contextVariables.0.description", "a text"),
        ([{"name": "x", "type": "string", "description": "x" * 2001}],
         "contextVariables.0.description", "2000"),
        ([{"name": "x", "type": "string", "example": 5}], "contextVariables.0.example", "number"),
        ([{"name": "x", "type": "string", "values": ["a"], "example": "b"}],
         "contextVariables.0.example", "not declared"),
    ],
)  # fmt: skip
def test_declaration__that_is_wrong__is_refused_by_its_field(
    items: Any, field: str, told: str
) -> None:
    with pytest.raises(Invalid) as caught:
        parse_variables(items)

    error = caught.value.errors[0]
    assert caught.value.code == "context_variables.invalid"
    assert error.field == field
    assert told in error.message
    json.dumps(error.as_json())


def test_declarations__with_several_faults__name_them_all() -> None:
    items = [{"name": "a b", "type": "text"}, 5, {"name": "ok", "type": "string", "required": 0}]

    with pytest.raises(Invalid) as caught:
        parse_variables(items)

    assert [error.field for error in caught.value.errors] == [
        "contextVariables.0.type",
        "contextVariables.0.name",
        "contextVariables.1",
        "contextVariables.2.required",
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
FIELDS = ["name", "type", "values", "required", "sensitive", "example", "description"]
ITEMS = st.dictionaries(
    st.sampled_from(FIELDS),
    JSON | st.sampled_from(["string", "number", "list", "a", "a.b", "a.b.c"]),
)


@settings(max_examples=60, deadline=None)
@given(items=JSON | st.lists(JSON | ITEMS, max_size=3), context=JSON)
def test_declarations__of_any_json__are_read_or_refused(items: Any, context: Any) -> None:
    try:
        variables = parse_variables(items)
    except Invalid as error:
        fields = [item.field for item in error.errors]
        json.dumps([item.as_json() for item in error.errors])
    else:
        fields = ["contextVariables"]
        context_problems(variables, context)
        for variable in variables:
            assert parse_expression(f"{variable.name} == 1", variables).names == (variable.name,)

    assert all(field.startswith("contextVariables") for field in fields)


REGION = ContextVariable(name="region", type="string", values=("EU", "UK"), required=True)
TIER = ContextVariable(name="customer.tier", type="string", required=True)
EMAIL = ContextVariable(name="email", type="string", values=("a",), sensitive=True)
TAGS = ContextVariable(name="tags", type="list", values=("a", None))


@pytest.mark.parametrize(
    "context",
    [
        {"region": "EU", "customer": {"tier": "gold"}},
        {"region": "EU", "customer": {"tier": None}, "email": "a", "tags": ["a", None], "more": 1},
        {"region": "UK", "customer": {"tier": ""}, "tags": []},
    ],
)
def test_context__that_is_as_declared__has_no_problems(context: Any) -> None:
    assert context_problems((REGION, TIER, EMAIL, TAGS), context) == []


def test_context__with_problems__lists_each_variable_with_what_is_allowed() -> None:
    context = {"region": "XX", "customer": "gold", "email": "secret", "tags": ["a", "b"]}

    problems = context_problems((REGION, TIER, EMAIL, TAGS), context)

    assert [(p["variable"], p["reason"], p["value"], p["allowed"]) for p in problems] == [
        ("region", "VALUE_NOT_ALLOWED", "XX", ["EU", "UK"]),
        ("customer.tier", "MISSING_VARIABLE", None, None),
        ("email", "VALUE_NOT_ALLOWED", None, ["a"]),
        ("tags", "VALUE_NOT_ALLOWED", "['a', 'b']", ["a", None]),
    ]
    assert problems[0]["message"] == ("`region` has a value that is not declared; allowed: EU, UK")
    assert "secret" not in json.dumps(problems)


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        ("string", 5, True),
        ("string", "5", False),
        ("string", None, False),
        ("number", "5", True),
        ("number", True, True),
        ("number", 1.5, False),
        ("boolean", 1, True),
        ("boolean", False, False),
        ("list", {}, True),
        ("list", [1, {}], False),
        ("object", [], True),
        ("object", {"a": 1}, False),
    ],
)
def test_context__with_a_value_of_a_type__is_a_problem_where_the_type_differs(
    kind: str, value: Any, problem: bool
) -> None:
    variable = ContextVariable(name="x", type=kind)

    found = context_problems([variable], {"x": value})

    assert [entry["reason"] for entry in found] == ["VALUE_NOT_ALLOWED"] * problem
    assert bool(found) == (
        parse_expression('has("x") and x == x', [variable]).evaluate({"x": value}).reason
        == "VALUE_NOT_ALLOWED"
    )


@pytest.mark.parametrize("context", [None, [], "x", 5])
def test_context__that_is_no_object__misses_what_is_required(context: Any) -> None:
    problems = context_problems((REGION, EMAIL), context)

    assert [problem["reason"] for problem in problems] == ["MISSING_VARIABLE"]


def test_context__with_a_list_beyond_the_limits__is_a_problem_and_no_error() -> None:
    (problem,) = context_problems([TAGS], {"tags": ["a"] * 1_000_000})

    assert problem["reason"] == "VALUE_NOT_ALLOWED"
    assert "too large" in problem["message"]
