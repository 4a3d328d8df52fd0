"""The contexts that a coverage is made of, and what it calls useless."""

from __future__ import annotations

import itertools
import time
import uuid
from typing import Any

import pytest

from agents.configuration import BindingValues, Configuration
from agents.coverage import MOST_CONTEXTS, Coverage, coverage_of

BASES = {uuid.UUID(int=number): f"Base {number}" for number in range(3)}


def _binding(expression: str | None, base: int = 0, **values: Any) -> BindingValues:
    return BindingValues(
        **{
            "id": uuid.uuid4(),
            "knowledge_base": uuid.UUID(int=base),
            "expression": expression,
            "label": expression or "always",
            "instruction": "",
            "enabled": True,
            **values,
        }
    )


def _coverage(variables: list[dict[str, Any]], *bindings: BindingValues) -> Coverage:
    return coverage_of(Configuration(context_variables=variables, bindings=bindings), BASES)


def _values(coverage: Coverage, name: str) -> list[Any]:
    return list(dict.fromkeys(str(dict(one.shown).get(name)) for one in coverage.contexts))


def test_coverage__no_bindings__has_one_context_and_no_warning() -> None:
    coverage = _coverage([])

    assert [one.context for one in coverage.contexts] == [{}]
    assert coverage.warnings == []
    assert coverage.complete


@pytest.mark.parametrize(
    ("expression", "applies"),
    [
        ("tier == 'gold'", 1),
        ("tier != 'gold'", 1),
        ("age >= 18 and age < 65", 2),
        ("version(app) >= version('1.9')", 2),
        ("version(app) == version('1.0.0-rc.1')", 1),
        ("date(since) < date('2026-01-31')", 1),
        ("'new' in tags", 1),
        ("startswith(zip, '80')", 1),
        ("has('plan')", 1),
        ("not has('plan')", 1),
        ("coupon == None", 1),
        ("vip == True", 1),
        ("lower(name) == 'ann'", 1),
        ("customer.tier == 'gold' and has('customer')", 1),
    ],
)
def test_coverage__names_without_declared_values__are_tried_with_what_is_compared(
    expression: str, applies: int
) -> None:
    coverage = _coverage([], _binding(expression))

    assert coverage.never == []
    assert sum(bool(one.attached) for one in coverage.contexts) == applies
    assert not coverage.complete


def test_coverage__required_variable_that_no_binding_reads__is_there_and_not_varied() -> None:
    variables = [
        {"name": "customer.id", "type": "number", "required": True, "example": 7},
        {"name": "region", "type": "string", "values": ["EU", "UK"], "required": True},
    ]

    coverage = _coverage(variables, _binding("region == 'EU'"))

    assert [one.context for one in coverage.contexts] == [
        {"customer": {"id": 7}, "region": "EU"},
        {"customer": {"id": 7}, "region": "UK"},
    ]


def test_coverage__later_binding_of_the_same_base__is_shadowed_only_where_it_adds_nothing() -> None:
    coverage = _coverage(
        [{"name": "a", "type": "boolean"}, {"name": "b", "type": "boolean"}],
        _binding("a"),
        _binding("b"),
        _binding("a or b"),
        _binding("a and b", base=1),
        _binding("a", enabled=False),
        _binding(None, base=2),
        _binding("b", base=2),
    )

    assert dict(coverage.shadowed) == {2: [0, 1], 6: [5]}
    assert coverage.never == []


def test_coverage__too_many_combinations__tries_each_binding_and_every_pair_within_the_cap() -> (
    None
):
    names = [f"v{number}" for number in range(6)]
    values = ["a", "b", "c", "d"]
    variables = [
        {"name": name, "type": "string", "values": values, "required": True} for name in names
    ]
    rare = " and ".join(f"{name} == 'd'" for name in names[:3])

    coverage = _coverage(variables, *(_binding(f"{name} == 'a'") for name in names), _binding(rare))

    assert coverage.combinations == 4**6
    assert coverage.tried <= MOST_CONTEXTS
    assert not coverage.complete
    assert coverage.never == []
    for one, other in itertools.combinations(names, 2):
        pairs = {(dict(c.shown)[one], dict(c.shown)[other]) for c in coverage.contexts}
        assert len(pairs) == 16


def test_coverage__the_largest_declarations__take_a_moment_only() -> None:
    variables = [
        {"name": f"v{n}", "type": "string", "values": [f"x{m}" for m in range(500)]}
        for n in range(40)
    ]
    bindings = [_binding(f"v{n % 40} == 'x{n}'", base=n % 3) for n in range(100)]
    started = time.monotonic()

    coverage = _coverage(variables, *bindings)

    assert coverage.tried == MOST_CONTEXTS
    assert time.monotonic() - started < 60
