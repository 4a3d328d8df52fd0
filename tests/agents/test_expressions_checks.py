"""Warnings: what an admin is told about a valid expression before accepting it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.expressions import ContextVariable, parse_expression

VARIABLES = (
    ContextVariable(name="region", type="string", values=("EU", "UK", "US"), required=True),
    ContextVariable(name="plan", type="string", values=("free", "paid")),
    ContextVariable(name="age", type="number"),
    ContextVariable(name="seats", type="number", values=(1, 5)),
    ContextVariable(name="vip", type="boolean"),
    ContextVariable(name="known", type="boolean", required=True),
    ContextVariable(name="tags", type="list", values=("new", "old")),
    ContextVariable(name="customer", type="object"),
    ContextVariable(name="customer.tier", type="string", values=("gold", "silver")),
    ContextVariable(name="app", type="string"),
)
NEVER = "expression.never_true"
ALWAYS = "expression.always_true"
VALUE = "expression.value_never_allowed"
UNLIKE = "expression.unlike_types"
LIST = "expression.text_not_list"


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ('region == "EU"', []),
        ('region != "EU" or vip', []),
        ('region in ["EU", "UK"] and age > 18', []),
        ("age > 5 and age < 6", []),
        ("age >= 5 and age <= 5", []),
        ('app > "a" and app < "b"', []),
        ('"new" in tags and "old" in tags', []),
        ('lower(app) == "eu" and app != "eu"', []),
        ('lower(region) == "eu"', []),
        ('upper(customer.tier) == "GOLD"', []),
        ('customer.other.name == "x"', []),
        ('has("plan")', []),
        ("vip or not vip", []),
        ("app == None or app != None", []),
        ('version(app) >= version("1.0") and version(app) < version("2.0")', []),
        ("len(app) > 3 and len(app) < 5", []),
        ('tags == ["new"]', []),
        ('region == "EUR"', [NEVER, VALUE]),
        ('region == "EUR" or vip', [VALUE]),
        ('region != "EUR" and vip', [VALUE]),
        ('region in ["EU", "EUR"]', [VALUE]),
        ('"EUR" == region and vip', [NEVER, VALUE]),
        ("region == None", [NEVER, VALUE]),
        ('lower(region) == "EU"', [NEVER, VALUE]),
        ('lower(app) == "EU"', [NEVER]),
        ('customer.tier == "bronze"', [NEVER, VALUE]),
        ('"vip" in tags', [VALUE]),
        ('contains(tags, "vip")', [VALUE]),
        ('seats == "5"', [NEVER, VALUE, UNLIKE]),
        ('region == "EU" and region == "UK"', [NEVER]),
        ("age > 5 and age < 5", [NEVER]),
        ("age == 1 and age == 2 or False", [NEVER]),
        ('app < "a" and app > "b"', [NEVER]),
        ("not (known or not known)", [NEVER]),
        ("region in []", [NEVER]),
        ('region == "EU" and plan == "x"', [NEVER, VALUE]),
        ("False", [NEVER]),
        ("True", [ALWAYS]),
        ("True or vip", [ALWAYS]),
        ("known or not known", [ALWAYS]),
        ('has("region")', [ALWAYS]),
        ('region in ["EU", "UK", "US"]', [ALWAYS]),
        ('region == "EU" or region == "UK" or region == "US"', [ALWAYS]),
        ('not region == "EU" or not region == "UK"', [ALWAYS]),
        ('has("plan") and not plan == "x" or not has("plan")', [ALWAYS, VALUE]),
        ('age == "5"', [UNLIKE, NEVER]),
        ("region < 3", [UNLIKE, NEVER]),
        ("vip < True", [UNLIKE, NEVER]),
        ("tags < 1 or vip", [UNLIKE]),
        ('age in ["5"]', [UNLIKE, NEVER]),
        ("1 in age", [UNLIKE, NEVER]),
        ('startswith(age, "1")', [UNLIKE, NEVER]),
        ("len(age) > 3", [UNLIKE, NEVER]),
        ('version(app) >= "1.2.0"', [UNLIKE, NEVER]),
        ('region in ("EU")', [LIST]),
    ],
)
def test_warnings__on_an_expression_with_declarations__are_these(
    text: str, codes: list[str]
) -> None:
    warnings = parse_expression(text, VARIABLES).warnings

    assert sorted(warning.code for warning in warnings) == sorted(codes)
    assert not any(warning.is_note for warning in warnings)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('region == "EUR"', "`region` is never `EUR`; allowed: EU, UK, US."),
        ('region in ["EUR", "USA"]', "`region` is never `EUR, USA`; allowed: EU, UK, US."),
        ('seats == "5"', "`seats` is never `'5'`; allowed: 1, 5."),
        ('lower(region) == "EU"', "`lower(region)` is never `EU`; allowed: eu, uk, us."),
        ('version(app) >= "1.2.0"', 'write version("1.2.0")'),
        ('date(app) < "2026-01-31"', 'write date("2026-01-31")'),
        ('region in ("EU")', 'for a list write brackets: ["EU"]'),
        ("known or not known", "use null"),
    ],
)
def test_warning__of_each_kind__says_what_is_meant(text: str, told: str) -> None:
    warnings = parse_expression(text, VARIABLES).warnings

    assert any(told in warning.message for warning in warnings), warnings


def test_warning__about_a_value__lists_what_is_allowed() -> None:
    (warning,) = parse_expression('region in ["EU", "EUR"]', VARIABLES).warnings

    assert warning.allowed == ("EU", "UK", "US")


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ('region == "EU"', []),
        ("x > 5 and x < 3", [NEVER]),
        ('x == "a" and x == 5', [NEVER]),
        ('x == "a" or x != "a"', []),
        ('has("x") or not has("x")', [ALWAYS]),
        ('1 == "a"', [UNLIKE, NEVER]),
    ],
)
def test_warnings__without_declarations__begin_with_a_note(text: str, codes: list[str]) -> None:
    note, *warnings = parse_expression(text).warnings

    assert (note.code, note.is_note) == ("expression.not_checked", True)
    assert [warning.code for warning in warnings] == codes


SMALL: dict[str, list[Any]] = {
    "region": ["EU", "UK", "US"],
    "plan": ["free", "paid", None],
    "age": [None, -1, 0, 1, 1.5, 2, 3, 4],
    "app": [None, "", "a", "aa", "b", "B", "c"],
    "known": [True, False],
}
PARTS = st.sampled_from(
    [
        'region == "EU"',
        'region in ["EU", "UK"]',
        'lower(region) == "us"',
        'plan == "free"',
        'has("plan")',
        "age == 1",
        "age < 3",
        "2 <= age < 4",
        "age in [0, 1.5]",
        'app == "a"',
        'app > "a"',
        'lower(app) == "b"',
        'app in ["b", "c"]',
        "known",
        "known == False",
        "len(app) > 1",
        "app == plan",
        "True",
    ]
)
RULES = st.recursive(
    PARTS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} and {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} or {pair[1]})"),
        inner.map(lambda part: f"(not {part})"),
    ),
    max_leaves=4,
)


@settings(max_examples=80, deadline=None)
@given(text=RULES, picks=st.lists(st.fixed_dictionaries({
    name: st.sampled_from(values) for name, values in SMALL.items()
}), min_size=10, max_size=10))  # fmt: skip
def test_warnings__never_and_always_true__hold_for_every_allowed_context(
    text: str, picks: list[dict[str, Any]]
) -> None:
    expression = parse_expression(text, VARIABLES)
    codes = {warning.code for warning in expression.warnings}

    for pick in picks:
        context = {name: value for name, value in pick.items() if value is not None}
        decision = expression.evaluate(context)
        assert not (NEVER in codes and decision.applies), (text, context)
        assert not (ALWAYS in codes and not decision.applies), (text, context)
