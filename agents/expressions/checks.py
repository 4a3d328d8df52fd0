"""Static checks: what an admin should know before accepting an expression."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from agents.expressions.declarations import Check, Declarations, listed
from agents.expressions.functions import FUNCTIONS
from agents.expressions.tree import (
    TRUE_BIT,
    UNKNOWN_BIT,
    Application,
    Atom,
    Comparison,
    Literal,
    Name,
    Read,
    static_kind,
)
from agents.expressions.trials import CASES, Trial
from agents.expressions.values import KINDS, Work


class ExpressionWarning(NamedTuple):
    """A remark on a valid expression. A note needs nobody's consent."""

    code: str
    message: str
    is_note: bool = False
    allowed: tuple[Any, ...] | None = None


def warnings_of(
    tree: ast.expr, names: Sequence[Name], declarations: Declarations
) -> tuple[ExpressionWarning, ...]:
    """Return the warnings on an expression, causes before what follows from them."""
    found = []
    if not declarations:
        message = "No context variables are declared: names and values are not checked."
        found.append(ExpressionWarning("expression.not_checked", message, is_note=True))
    trial = Trial(tree, names)
    never: dict[tuple[str, tuple[Any, ...]], list[Any]] = {}
    for atom, alone in trial.alone.items():
        text = atom.parts[0].expression
        for label, allowed, value in _never_values(atom.inner):
            never.setdefault((label, allowed), []).append(value)
        if _is_list_meant(atom.inner):
            message = f'`{text}` looks for a part of a text; for a list write brackets: ["EU"].'
            found.append(ExpressionWarning("expression.text_not_list", message))
        if alone == UNKNOWN_BIT:
            message = f"`{text}` compares what is unlike, so it is never decided{_hint(atom)}."
            found.append(ExpressionWarning("expression.unlike_types", message))
    for (label, allowed), values in never.items():
        exact = not all(isinstance(value, str) for value in (*values, *allowed))
        message = (
            f"`{label}` is never `{listed(list(dict.fromkeys(values)), exact=exact)}`; "
            f"allowed: {listed(allowed, exact=exact)}."
        )
        found.append(ExpressionWarning("expression.value_never_allowed", message, allowed=allowed))
    outcomes = trial.outcomes()
    if not outcomes & TRUE_BIT:
        message = "The expression can never be true."
        found.append(ExpressionWarning("expression.never_true", message))
    elif outcomes == TRUE_BIT:
        message = "The expression is always true; use null for a binding that always applies."
        found.append(ExpressionWarning("expression.always_true", message))
    return tuple(dict.fromkeys(found))


def _pairs(node: ast.expr) -> Iterator[tuple[ast.expr, type[ast.cmpop], ast.expr]]:
    if isinstance(node, Comparison):
        left = node.left
        for op, right, _subject in node.pairs:
            yield left, op, right
            left = right
    elif isinstance(node, Application) and node.function == "contains":
        yield node.args[1], ast.In, node.args[0]


def _never_values(node: ast.expr) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    """Yield what is compared, what it can be as declared, and a literal that is not among it."""
    for left, op, right in _pairs(node):
        inside = op in (ast.In, ast.NotIn)
        if inside and isinstance(left, Literal) and isinstance(right, Read):
            if right.name.declared is not None and right.name.declared.type == "list":
                yield from _outside(right.name, right.name.declared, "", (left.value,))
        elif inside and isinstance(right, Literal) and isinstance(right.value, tuple):
            yield from _compared(left, right.value)
        elif op in (ast.Eq, ast.NotEq):
            for read, literal in ((left, right), (right, left)):
                if isinstance(literal, Literal):
                    yield from _compared(read, (literal.value,))


def _compared(
    node: ast.expr, literals: tuple[Any, ...]
) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    function = ""
    if isinstance(node, Application) and node.function in CASES:
        function, node = node.function, node.args[0]
    if isinstance(node, Read) and node.name.declared is not None:
        check = node.name.declared
        if check.type != "list":
            yield from _outside(node.name, check, function, literals)


def _outside(
    name: Name, check: Check, function: str, literals: tuple[Any, ...]
) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    if check.values is None:
        return
    label, values = name.label, check.values
    if function:
        call = FUNCTIONS[function].call
        label = f"{function}({label})"
        values = tuple(call(Work(), value) for value in values if isinstance(value, str))
    allowed = {(KINDS[type(value)], value) for value in values}
    for literal in literals:
        if (KINDS[type(literal)], literal) not in allowed:
            yield label, values, literal


def _is_list_meant(node: ast.expr) -> bool:
    return isinstance(node, Comparison) and any(
        op in (ast.In, ast.NotIn)
        and isinstance(left, Read)
        and isinstance(right, Literal)
        and isinstance(right.value, str)
        for left, op, right in _pairs(node)
    )


def _hint(atom: Atom) -> str:
    for left, _op, right in _pairs(atom.inner):
        kinds = {static_kind(left), static_kind(right)}
        for kind in ("version", "date"):
            if kinds == {kind, "string"}:
                return f"; write {FUNCTIONS[kind].signature}"
    return ""
