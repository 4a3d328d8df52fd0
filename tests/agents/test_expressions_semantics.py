"""Random expressions and contexts against the oracle, and what must hold for all of them."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.expressions import ContextVariable, Decision, narrowed, parse_expression
from tests.agents.expression_maker import Maker
from tests.agents.expression_oracle import Declared, Oracle

PAIRS_PER_SEED = 50
SEEDS = st.integers(0, 2**32)


def decided(text: str, declared: dict[str, Declared], context: Any) -> Decision:
    variables = [
        ContextVariable(
            name=name, type=what.type, values=None if what.values is None else tuple(what.values)
        )
        for name, what in declared.items()
    ]
    return parse_expression(text, variables).evaluate(context)


@settings(max_examples=200, deadline=None)
@given(seed=SEEDS)
def test_decisions__of_random_expressions__are_those_of_the_oracle(seed: int) -> None:
    maker = Maker(Random(seed))
    for _ in range(PAIRS_PER_SEED):
        declared = maker.declarations() if maker.random.random() < 0.5 else {}
        tree, context = maker.tree(declared), maker.context()
        oracle = Oracle(context, declared)
        applies, reason, name = oracle.decide(tree)
        text = maker.written(tree)

        decision = decided(text, declared, context)

        shown = (text, context, declared, decision)
        assert (decision.applies, decision.reason) == (applies, reason), shown
        assert (decision.detail is None) == (reason in ("TRUE", "FALSE")), shown
        assert not name or f"`{name}`" in str(decision.detail), shown
        assert set(decision.read) == oracle.read, shown
        assert [part.value for part in decision.parts] == oracle.parts, shown


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_decisions__when_operands_are_swapped__stay_the_same(seed: int) -> None:
    maker = Maker(Random(seed))
    for _ in range(PAIRS_PER_SEED):
        declared = maker.declarations() if maker.random.random() < 0.5 else {}
        tree, context = maker.tree(declared), maker.context()
        text, swapped = maker.written(tree), maker.written(maker.swapped(tree))

        one, other = decided(text, declared, context), decided(swapped, declared, context)

        shown = (text, swapped, context, declared)
        assert (one.applies, one.reason) == (other.applies, other.reason), shown
        assert set(one.read) == set(other.read), shown
        reasons = [sorted(part.reason for part in decision.parts) for decision in (one, other)]
        assert reasons[0] == reasons[1], shown


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_decisions__on_what_was_read_alone__stay_the_same(seed: int) -> None:
    maker = Maker(Random(seed))
    for _ in range(PAIRS_PER_SEED):
        declared = maker.declarations() if maker.random.random() < 0.5 else {}
        text, context = maker.written(maker.tree(declared)), maker.context()

        first = decided(text, declared, context)
        again = decided(text, declared, narrowed(context, first.read))

        assert again == first, (text, context, declared)
