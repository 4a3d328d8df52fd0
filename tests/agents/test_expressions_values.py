"""Values and names in expressions: what is the same, what has an order, what cannot be used."""

from __future__ import annotations

from typing import Any

import pytest

from agents.expressions import (
    ERROR,
    FALSE,
    MISSING_VARIABLE,
    TRUE,
    TYPE_MISMATCH,
    parse_expression,
)
from tests.agents.test_expressions import decide


def test_reading_a_name__that_a_dict_has_as_a_method__reads_the_key_only() -> None:
    for method in ("items", "keys", "get", "pop", "clear"):
        text = f'customer.{method} == "x"'

        assert decide(text, {"customer": {}}).reason == MISSING_VARIABLE
        assert decide(text, {"customer": {method: "x"}}).reason == TRUE


def test_names__in_any_composition__are_the_same_name() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"

    for text in (f"{composed} == 1", f"{decomposed} == 1", f'x["{decomposed}"] == 1'):
        for key in (composed, decomposed):
            assert decide(text, {key: 1, "x": {key: 1}}).reason == TRUE
    assert decide(f'has("{composed}")', {decomposed: 1}).reason == TRUE
    assert parse_expression(f"{decomposed} == 1").names == (composed,)


def test_texts__in_another_composition_or_case__are_different_texts() -> None:
    assert decide('x == "\u00e9"', {"x": "e\u0301"}).reason == FALSE


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ("1.0.0-alpha", "1.0.0-alpha.1"),
        ("1.0.0-alpha.1", "1.0.0-alpha.beta"),
        ("1.0.0-beta.2", "1.0.0-beta.11"),
        ("1.0.0-rc.1", "1.0.0"),
        ("1.0.0-9", "1.0.0-a"),
        ("1.9.0", "1.10.0"),
        ("1.2", "1.2.1"),
        ("v1", "2.0.0+build.7"),
    ],
)
def test_versions__in_the_order_of_semver__compare_so(smaller: str, larger: str) -> None:
    context = {"a": smaller, "b": larger}

    assert decide("version(a) < version(b)", context).reason == TRUE
    assert decide("version(a) >= version(b)", context).reason == FALSE
    assert decide("version(a) == version(b)", context).reason == FALSE


@pytest.mark.parametrize(
    "text", ["", "1.", "1.2.3.4", "01.2", "1.0.0-01", "1.x", "one", "1 ", "-1"]
)
def test_version__that_is_none__is_a_mismatch(text: str) -> None:
    assert decide('version(v) >= version("1.0")', {"v": text}).reason == TYPE_MISMATCH


def test_build_metadata__of_equal_versions__does_not_count() -> None:
    assert decide("version(a) == version(b)", {"a": "1.0.0+x", "b": "1.0"}).reason == TRUE


@pytest.mark.parametrize("text", ["2026-01-31", "2026-01-31T23:59:59Z", "2026-01-31 00:30+02:00"])
def test_date__of_a_day_or_timestamp__is_the_day_as_written(text: str) -> None:
    assert decide('date(d) == date("2026-01-31")', {"d": text}).reason == TRUE


@pytest.mark.parametrize(
    "text", ["", "2026-1-31", "20260131", "2026-02-30", "31.01.2026", "2026-01-31T25:00", "today"]
)
def test_date__that_is_none__is_a_mismatch(text: str) -> None:
    assert decide('date(d) < date("2026-01-31")', {"d": text}).reason == TYPE_MISMATCH


@pytest.mark.parametrize(
    "context", [None, [], "x", 1, True, 1.5, [{"region": "EU"}], float("nan"), 10**400]
)
def test_context__that_is_no_object__gives_the_reason_error(context: Any) -> None:
    for text in ('region == "EU"', 'has("region")', "True"):
        decision = decide(text, context)

        assert (decision.applies, decision.reason) == (False, ERROR)
        assert decision.detail == "The context is not a JSON object."


def test_value__beyond_what_json_holds__still_gives_a_decision() -> None:
    cases: list[tuple[Any, str]] = [
        (float("nan"), FALSE),
        (float("inf"), TRUE),
        (10**5000, TRUE),
        (-(10**5000), FALSE),
        (object(), ERROR),
        ({1, 2}, ERROR),
        (b"x", ERROR),
        ("x" * 100_000, ERROR),
    ]

    for value, reason in cases:
        assert decide("x > 1", {"x": value}).reason == reason
        if reason == ERROR:
            assert decide('has("x")', {"x": value}).reason == ERROR


def test_nan__compared_with_itself__is_never_equal() -> None:
    nan = float("nan")

    for text in ("x == x", "x in y", "y == y", "x == z"):
        assert decide(text, {"x": nan, "y": [nan], "z": nan}).reason == FALSE


def test_lists_and_objects__compared__follow_the_same_rules_inside() -> None:
    cases = [
        ([1], [1.0], TRUE),
        ([True], [1], TYPE_MISMATCH),
        ([None], [1], FALSE),
        ([1, "x"], [1, 2], TYPE_MISMATCH),
        ([1, "x"], [2, 2], FALSE),
        ({"a": [1]}, {"a": [1]}, TRUE),
        ({"a": 1}, {"b": 1}, FALSE),
        ({"a": 1}, {"a": "1"}, TYPE_MISMATCH),
        ({}, {}, TRUE),
        ([], {}, TYPE_MISMATCH),
    ]

    for left, right, reason in cases:
        for a, b in ((left, right), (right, left)):
            assert decide("a == b", {"a": a, "b": b}).reason == reason, (a, b)
            assert decide("a in b", {"a": a, "b": [b]}).reason == reason, (a, b)
