"""The hostile corpus: refused when it is read, and harmless if it ever reached the evaluator."""

from __future__ import annotations

import ast
from functools import partial

import pytest

from agents.expressions import ERROR, ContextVariable, ExpressionError, parse_expression
from agents.expressions.evaluation import decide
from tests.agents.hostile_expressions import HOSTILE
from tests.agents.test_expressions_parsing import attempted, fastest

CONTEXT = {
    "region": "EU",
    "customer": {"tier": "gold", "x": {}},
    "tags": ["a", "b"],
    "age": 30,
    "vip": True,
    "x": 1,
}
VARIABLES = (
    ContextVariable(name="region", type="string"),
    ContextVariable(name="customer", type="object"),
    ContextVariable(name="tags", type="list"),
    ContextVariable(name="age", type="number"),
)


def test_corpus__of_hostile_expressions__has_no_text_twice_and_is_large() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE)
    assert len(HOSTILE) >= 150


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_expression__when_it_is_read__is_refused_at_once(number: int) -> None:
    for variables in ((), VARIABLES):
        with pytest.raises(ExpressionError) as caught:
            parse_expression(HOSTILE[number], variables)

        assert caught.value.code.startswith("expression.")
        assert fastest(partial(attempted, HOSTILE[number], variables)) < 50


@pytest.mark.filterwarnings("ignore")
def test_hostile_expression__handed_to_the_evaluator_itself__is_stopped() -> None:
    reached = 0
    for text in HOSTILE:
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        reached += 1

        decision = decide(tree, (), CONTEXT)

        assert (decision.applies, decision.reason) == (False, ERROR), text
        assert fastest(partial(decide, tree, (), CONTEXT)) < 50, text
    assert reached > 150
