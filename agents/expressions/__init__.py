"""The expression language: rules over a conversation's context, three-valued and total.

`parse_expression` gives an `Expression` or raises `ExpressionError`, and nothing else, for any
text; `Expression.evaluate` gives a `Decision` for any JSON context. Knows neither Django nor
Celery, reads no clock, and every limit is in `limits`. The rules are in docs/expressions.md.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import Any, Final

from agents.expressions.checks import ExpressionWarning, warnings_of
from agents.expressions.choices import Choices, choices_of, usual_value
from agents.expressions.deciding_again import decide_again, reads_any
from agents.expressions.declarations import (
    MISSING_VARIABLE,
    TYPES,
    VALUE_NOT_ALLOWED,
    ContextChecks,
    ContextVariable,
    Declarations,
    context_problems,
)
from agents.expressions.errors import ExpressionError
from agents.expressions.evaluation import Decision, decide
from agents.expressions.names import MISSING, narrowed
from agents.expressions.parsing import parse
from agents.expressions.reading import parse_variables
from agents.expressions.together import ReadName, Together
from agents.expressions.tree import ERROR, FALSE, TRUE, TYPE_MISMATCH, Atom, Part

__all__ = [
    "ERROR",
    "FALSE",
    "MISSING",
    "MISSING_VARIABLE",
    "REASONS",
    "SEMANTICS",
    "TRUE",
    "TYPES",
    "TYPE_MISMATCH",
    "VALUE_NOT_ALLOWED",
    "Choices",
    "ContextChecks",
    "ContextVariable",
    "Decision",
    "Expression",
    "ExpressionError",
    "ExpressionWarning",
    "Part",
    "ReadName",
    "Together",
    "choices_of",
    "context_problems",
    "narrowed",
    "parse_expression",
    "parse_variables",
    "together",
    "usual_value",
]

# Raised whenever the same expression and context could give another decision than before.
SEMANTICS: Final = 1

REASONS: Final = (TRUE, FALSE, MISSING_VARIABLE, VALUE_NOT_ALLOWED, TYPE_MISMATCH, ERROR)


class Expression:
    """A parsed expression: immutable, to be kept and evaluated often, from any thread.

    ``text`` is the text as it was given, ``names`` are the names it may read.
    """

    __slots__ = ("_declarations", "_names", "_tree", "names", "text")

    def __init__(self, text: str, declarations: Declarations) -> None:
        self.text = text
        self._declarations = declarations
        self._tree, self._names = parse(text, declarations)
        self.names = tuple(name.label for name in self._names)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def evaluate(self, context: Any) -> Decision:
        """Return the decision for a context (a JSON object); never raises for JSON."""
        return decide(self._tree, self._names, context)

    def decide_again(
        self, context: Any, *, masked: Collection[tuple[str, ...]], kept: Decision
    ) -> Decision:
        """Return the decision for a context in which the values of ``masked`` names are gone.

        The sub-expressions that read one of them take the truth value that ``kept``, what was
        decided then, has of them.
        """
        return decide_again(self._tree, self._names, context, masked=masked, kept=kept)

    def reads_any(self, names: Collection[tuple[str, ...]]) -> bool:
        """Say whether any of ``names`` (their keys) may be read, as a whole or in part."""
        return reads_any(self._names, names)

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """The sub-expressions that are true, false or unknown as a whole, in order."""
        return tuple(node for node in ast.walk(self._tree) if isinstance(node, Atom))

    @property
    def warnings(self) -> tuple[ExpressionWarning, ...]:
        """What an admin should see before accepting the expression; worked out on each call."""
        return warnings_of(self._tree, self._names, self._declarations)


def together(expressions: Sequence[Expression]) -> Together:
    """Return expressions over the same declarations made ready to be decided together."""
    return Together([(expression._tree, expression._names) for expression in expressions])


def parse_expression(text: str, variables: Sequence[ContextVariable] = ()) -> Expression:
    """Parse an expression and check its names against the declared variables.

    Without declarations every name is allowed. Raises ``ExpressionError``.
    """
    if not isinstance(text, str):
        raise ExpressionError(
            "expression.not_text", "An expression is a text, or null for none.", text
        )
    return Expression(text, Declarations(variables))
