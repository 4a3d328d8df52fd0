"""The rules of the expression language, one by one."""

from __future__ import annotations

import ast
import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest

import agents
from agents.expressions import (
    FALSE,
    MISSING_VARIABLE,
    TRUE,
    TYPE_MISMATCH,
    VALUE_NOT_ALLOWED,
    ContextVariable,
    Decision,
    Part,
    narrowed,
    parse_expression,
)

REGION = ContextVariable(name="region", type="string", values=("EU", "UK", "US"))
VIP = ContextVariable(name="vip", type="boolean")
CONTEXT: dict[str, Any] = {
    "region": "EU",
    "age": 30,
    "score": 2.0,
    "vip": True,
    "coupon": None,
    "tags": ["new", "vip"],
    "customer": {"tier": "gold", "items": 3, "first name": "Ann", "class": "A"},
    "app": "1.10.0",
    "since": "2026-01-30",
}


def decide(text: str, context: Any = CONTEXT, *variables: ContextVariable) -> Decision:
    return parse_expression(text, variables).evaluate(context)


@pytest.mark.parametrize(
    "text",
    [
        'region == "EU"',
        "region == 'EU' and age >= 18",
        'region != "UK"',
        'not region == "UK"',
        "1 < age < 31 <= 31",
        "age == 30.0",
        "score == 2",
        "age > -1 and +1 < age",
        'region in ["EU", "UK"]',
        'region in ("EU", "UK")',
        'region not in ["US"]',
        '"vip" in tags',
        '"E" in region',
        'tags == ["new", "vip"]',
        "coupon == None",
        "region != None",
        "coupon in [None, 1]",
        "vip == True",
        "(region == 'EU') == True",
        'customer.tier == "gold"',
        'customer["tier"] == "gold"',
        "customer.items == 3",
        'customer["first name"] == "Ann"',
        'customer["class"] == "A"',
        'has("customer.tier")',
        'has("coupon")',
        'not has("customer.plan")',
        'not has("region.x")',
        'lower(region) == "eu"',
        'upper(customer.tier) == "GOLD"',
        "len(region) == 2 and len(tags) == 2 and len(customer) == 4",
        'startswith(region, "E")',
        'endswith(region, "U")',
        'contains(tags, "new")',
        'contains(region, "U")',
        'version(app) >= version("1.9")',
        'version(app) == version("v1.10")',
        'date(since) < date("2026-01-31")',
        'region == "UK" or (age == 30 and not vip == False)',
        'region == "EU"\n  and age == 30',
        "True",
        "region in [\n  'EU',\n]",
        'region == "\\u0045U"',
    ],
)
def test_expression__that_holds__applies(text: str) -> None:
    decision = decide(text)

    assert (decision.applies, decision.reason, decision.detail) == (True, TRUE, None)


@pytest.mark.parametrize(
    "text",
    [
        'region == "UK"',
        "region == 'eu'",
        'region == "UK" or age < 18',
        'region in ["UK"]',
        "region in []",
        '"old" in tags',
        "coupon != None",
        "region == None",
        "coupon == 0",
        "coupon == False",
        "coupon == ''",
        'tags == ["vip", "new"]',
        'tags == ["new"]',
        "False",
        'has("customer.plan")',
        "40 < age < missing",
        'region == "UK" and missing == 1',
        'missing == 1 and region == "UK"',
        'version(app) < version("1.9.9")',
        'date(since) > date("2026-01-31")',
    ],
)
def test_expression__that_does_not_hold__is_false(text: str) -> None:
    decision = decide(text)

    assert (decision.applies, decision.reason, decision.detail) == (False, FALSE, None)


@pytest.mark.parametrize(
    ("text", "reason", "name"),
    [
        ('plan == "x"', MISSING_VARIABLE, "plan"),
        ('plan != "x"', MISSING_VARIABLE, "plan"),
        ('not plan == "x"', MISSING_VARIABLE, "plan"),
        ('plan in ["x"]', MISSING_VARIABLE, "plan"),
        ('plan not in ["x"]', MISSING_VARIABLE, "plan"),
        ("plan in []", MISSING_VARIABLE, "plan"),
        ("plan == None", MISSING_VARIABLE, "plan"),
        ("plan != None", MISSING_VARIABLE, "plan"),
        ('customer.plan == "x"', MISSING_VARIABLE, "customer.plan"),
        ('plan.tier == "x"', MISSING_VARIABLE, "plan.tier"),
        ('region.tier == "x"', MISSING_VARIABLE, "region.tier"),
        ("customer.keys == 1", MISSING_VARIABLE, "customer.keys"),
        ("region.upper == 1", MISSING_VARIABLE, "region.upper"),
        ("lower(plan) == 'x'", MISSING_VARIABLE, "plan"),
        ("plan == other", MISSING_VARIABLE, "plan"),
        ("other == plan", MISSING_VARIABLE, "other"),
        ("age == '30' and plan == 1", MISSING_VARIABLE, "plan"),
        ('plan == 1 or region == "UK"', MISSING_VARIABLE, "plan"),
        ("(plan == 1 and age == 1) or (other == 1 or plan == 2)", MISSING_VARIABLE, "other"),
        ('age == "30"', TYPE_MISMATCH, "age"),
        ('age != "30"', TYPE_MISMATCH, "age"),
        ('"30" == age', TYPE_MISMATCH, "age"),
        ("vip == 1", TYPE_MISMATCH, "vip"),
        ("age == True", TYPE_MISMATCH, "age"),
        ("1 == vip", TYPE_MISMATCH, "vip"),
        ("vip in [1]", TYPE_MISMATCH, "vip"),
        ('age in ["30", 31]', TYPE_MISMATCH, "age"),
        ("coupon < 1", TYPE_MISMATCH, "coupon"),
        ("coupon >= None", TYPE_MISMATCH, "coupon"),
        ("vip < True", TYPE_MISMATCH, "vip"),
        ("tags > ['a']", TYPE_MISMATCH, "tags"),
        ("tags == 'new'", TYPE_MISMATCH, "tags"),
        ("age in region", TYPE_MISMATCH, "age"),
        ('"tier" in customer', TYPE_MISMATCH, "customer"),
        ("lower(age) == 'x'", TYPE_MISMATCH, "age"),
        ("len(age) == 2", TYPE_MISMATCH, "age"),
        ("startswith(region, age)", TYPE_MISMATCH, "age"),
        ("contains(customer, 'tier')", TYPE_MISMATCH, "customer"),
        ('version(region) > version("1")', TYPE_MISMATCH, "region"),
        ('version(app) > "1.0.0"', TYPE_MISMATCH, "app"),
        ('date(app) > date("2026-01-01")', TYPE_MISMATCH, "app"),
        ("age == '1' and score == '1'", TYPE_MISMATCH, "age"),
        ("score == '1' and age == '1'", TYPE_MISMATCH, "score"),
        ("1 == '1'", TYPE_MISMATCH, "1"),
    ],
)
def test_expression__that_is_unknown__names_the_leftmost_cause(
    text: str, reason: str, name: str
) -> None:
    decision = decide(text)

    assert (decision.applies, decision.reason) == (False, reason)
    assert f"`{name}`" in str(decision.detail)


@pytest.mark.parametrize(
    ("text", "context", "reason", "name"),
    [
        ('region == "EU"', {"region": "XX"}, VALUE_NOT_ALLOWED, "region"),
        ('region != "EU"', {"region": "XX"}, VALUE_NOT_ALLOWED, "region"),
        ('region == "EU"', {"region": 5}, VALUE_NOT_ALLOWED, "region"),
        ("region == None", {"region": None}, VALUE_NOT_ALLOWED, "region"),
        ("vip", {"vip": 1}, VALUE_NOT_ALLOWED, "vip"),
        ("vip", {"vip": "yes"}, VALUE_NOT_ALLOWED, "vip"),
        ("vip", {"vip": None}, TYPE_MISMATCH, "vip"),
        ("vip == None", {"vip": None}, TRUE, None),
        ('has("region")', {"region": "XX"}, TRUE, None),
        ('region == "EU" or vip', {"region": "XX", "vip": True}, TRUE, None),
        ('region == "EU" and vip', {"region": "XX"}, MISSING_VARIABLE, "vip"),
        ("region == 5 and vip", {"region": "EU", "vip": 1}, VALUE_NOT_ALLOWED, "vip"),
    ],
)
def test_expression__on_a_declared_variable__decides_by_the_declaration(
    text: str, context: dict[str, Any], reason: str, name: str | None
) -> None:
    decision = decide(text, context, REGION, VIP)

    assert decision.reason == reason
    assert decision.applies is (reason == TRUE)
    assert name is None or f"`{name}`" in str(decision.detail)


def test_expression__with_a_declared_parent_of_another_type__names_the_parent() -> None:
    customer = ContextVariable(name="customer", type="object")
    tier = ContextVariable(name="customer.tier", type="string")

    decision = decide('customer.tier == "gold"', {"customer": "gold"}, customer, tier)

    assert (decision.reason, decision.read) == (VALUE_NOT_ALLOWED, ("customer",))
    assert "`customer`" in str(decision.detail)


def test_declared_list__with_an_element_outside_its_values__is_unknown() -> None:
    tags = ContextVariable(name="tags", type="list", values=("a", 1))
    text = '"a" in tags'

    assert decide(text, {"tags": ["a", 1]}, tags).reason == TRUE
    for value in (["a", "b"], ["a", True], ["a", ["a"]], ["a", {}]):
        assert decide(text, {"tags": value}, tags).reason == VALUE_NOT_ALLOWED


def test_false_decision__with_several_parts__shows_what_each_came_to() -> None:
    text = 'region == "UK" and (age > 18 or not has("plan")) and plan == 1 and 1 == "1"'

    decision = decide(text)

    assert decision.reason == FALSE
    assert decision.parts == (
        Part('region == "UK"', value=False, reason=FALSE),
        Part("age > 18", value=True, reason=TRUE),
        Part('has("plan")', value=False, reason=FALSE),
        Part("plan == 1", value=None, reason=MISSING_VARIABLE),
        Part('1 == "1"', value=None, reason=TYPE_MISMATCH),
    )


def test_decision__of_any_kind__names_what_was_found_in_the_context() -> None:
    text = 'region == "UK" and customer["first name"] == "x" and region != "" and plan == 1'

    assert decide(text).read == ("region", 'customer["first name"]')


def test_decision__on_a_sensitive_value__never_repeats_it() -> None:
    secret = "ann@example.org"
    context = {"email": secret, "age": secret}
    variables = (
        ContextVariable(name="email", type="string", values=("a",), sensitive=True),
        ContextVariable(name="age", type="number", sensitive=True),
    )
    texts = ["email == 'a'", "age > 3", "lower(email) == 'a'", "email in ['a'] or age == 1"]

    for text in texts:
        for declared in (variables, ()):
            assert secret not in repr(decide(text, context, *declared))


def test_narrowed_context__of_names_within_each_other__is_a_copy_of_what_they_name() -> None:
    names = ["customer.tier", 'customer["first name"]', "gone", "tags"]

    narrow = narrowed(CONTEXT, names)

    assert narrow == {
        "customer": {"tier": "gold", "first name": "Ann"},
        "tags": ["new", "vip"],
    }
    assert narrowed(CONTEXT, ["customer.tier", "customer"]) == {"customer": CONTEXT["customer"]}
    narrow["tags"].append("changed")
    assert CONTEXT["tags"] == ["new", "vip"]


def test_expression__shared_between_threads__decides_each_context_by_itself() -> None:
    expression = parse_expression('region == "EU" and lower(customer.tier) in ["gold", "silver"]')
    wrong: list[Decision] = []

    def evaluate(number: int) -> None:
        context = {"region": "EU" if number % 2 else "UK", "customer": {"tier": "Gold"}}
        for _ in range(500):
            decision = expression.evaluate(context)
            if decision.applies is not bool(number % 2) or len(decision.parts) != 2:
                wrong.append(decision)

    threads = [threading.Thread(target=evaluate, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_simpleeval__in_the_whole_source__has_one_importer() -> None:
    root = Path(agents.__file__).parents[1]
    importers = []
    for path in sorted(root.glob("[ar]*/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            if "simpleeval" in names:
                importers.append(path.relative_to(root).as_posix())

    assert importers == ["agents/expressions/evaluation.py"]


def test_documentation__with_examples__tells_what_they_come_to() -> None:
    page = (Path(agents.__file__).parents[1] / "docs" / "expressions.md").read_text("utf-8")
    context = json.loads(page.split("```json")[1].split("```")[0])
    first_table = page.split("## What can be written")[0]
    rows = re.findall(
        r"^\| `([^`]+)`(?: and also `([^`]+)`)? \| (true|false|unknown)\b", first_table, re.M
    )
    assert len(rows) >= 11

    for *texts, outcome in rows:
        for text in filter(None, texts):
            decision = decide(text, context)
            expected = {"true": [TRUE], "false": [FALSE]}.get(
                outcome, [MISSING_VARIABLE, TYPE_MISMATCH]
            )
            assert decision.reason in expected, text
    for code in set(re.findall(r"`(expression\.[a-z_]+)`", page)):
        assert any(code.removeprefix("expression.") in source for source in sources()), code


def sources() -> list[str]:
    folder = Path(agents.__file__).parent / "expressions"
    return [path.read_text("utf-8") for path in folder.glob("*.py")]
