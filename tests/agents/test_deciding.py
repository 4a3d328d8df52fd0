"""What is remembered of decisions says the same as deciding anew, for every context."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import deciding
from agents.configuration import BindingValues, Configuration
from agents.deciding import Decider
from agents.expressions import ContextVariable
from agents.resolution import decide
from agents.versions import Runnable, parsed_bindings
from tests.agents.expression_maker import VALUES, Maker

BASE = uuid.UUID(int=1)


def _version(
    expressions: Sequence[str | None], variables: Sequence[ContextVariable] = ()
) -> Runnable:
    configuration = Configuration(
        context_variables=[variable.as_json() for variable in variables],
        bindings=tuple(
            BindingValues(
                id=uuid.uuid4(),
                knowledge_base=BASE,
                expression=expression,
                label=f"Rule {position}",
                instruction="Ünder",
                enabled=position % 5 != 4,
            )
            for position, expression in enumerate(expressions)
        ),
    )
    return Runnable(
        slug="support",
        number=1,
        revision=1,
        digest="sha256:" + "0" * 64,
        configuration=configuration,
        variables=configuration.variables,
        bindings=parsed_bindings(configuration),
        targets={},
        names={BASE: "Returns"},
    )


def _assert_same(version: Runnable, decider: Decider, context: dict[str, Any]) -> None:
    plain = decide(version, context)
    found = decider.decide(context)
    assert [one.decision for one in found] == plain, context
    for one, decision in zip(found, plain, strict=True):
        described = decision.as_json(version)
        assert json.loads(one.text) == described
        del described["instruction"]
        assert one.traced == described


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_decider__random_expressions_and_contexts__decides_as_each_does_alone(seed: int) -> None:
    maker = Maker(Random(seed))
    declared = maker.declarations() if maker.random.random() < 0.5 else {}
    variables = [
        ContextVariable(
            name=name, type=what.type, values=None if what.values is None else tuple(what.values)
        )
        for name, what in declared.items()
    ]
    texts = [maker.written(maker.tree(declared)) for _ in range(8)]
    version = _version([*texts, None], variables)
    decider = Decider(version)
    contexts = [maker.context() for _ in range(30)]

    for context in contexts + contexts:
        _assert_same(version, decider, context)


@pytest.mark.parametrize(
    "pair", [(True, 1), (1, 1.0), (0, False), ("1", 1), (None, False), ([], {})]
)
def test_decider__values_that_python_takes_for_equal__are_told_apart(pair: tuple[Any, Any]) -> None:
    version = _version(["x == 1", "x == True", "x == '1'", "x == None", "x in [0, 'a']"])
    decider = Decider(version)

    for value in (*pair, *reversed(pair)):
        _assert_same(version, decider, {"x": value})


@pytest.mark.parametrize(
    "value",
    [
        *VALUES,
        "x" * 70_000,
        "x" * 300,
        ["x" * 300],
        ["x"] * 30,
        [["EU"]],
        ["EU"] * 200_000,
        {"x": {"x": {}}},
        (1, 2),
        b"bytes",
        float("inf"),
    ],
)
def test_decider__any_value__decides_as_each_does_alone(value: Any) -> None:
    variables = [
        ContextVariable(name="x", type="list", values=("EU", "UK")),
        ContextVariable(name="é", type="string"),
    ]
    for declared in ((), variables):
        version = _version(["'EU' in x", "é == 'EU'", "has('x') and x != ['EU']"], declared)
        decider = Decider(version)
        for context in ({"x": value}, {"e\u0301": value}, {"é": value, "x": value}, {}):
            _assert_same(version, decider, context)


def test_decider__versions_with_equal_expressions__do_not_share_what_they_say() -> None:
    variables = [ContextVariable(name="x", type="string", values=("EU",))]
    one, other = _version(["x == 'EU'"]), _version(["x == 'EU'"], variables)
    deciders = [(version, Decider(version)) for version in (one, other)]

    for version, decider in deciders:
        _assert_same(version, decider, {"x": "UK"})


def test_decider__more_than_is_remembered__begins_anew() -> None:
    version = _version(["x == 5"])
    decider = Decider(version)

    for number in range(deciding.MOST_REMEMBERED + 10):
        decider.decide({"x": number})

    assert len(deciding._remembered) <= deciding.MOST_REMEMBERED
    _assert_same(version, decider, {"x": 5})
