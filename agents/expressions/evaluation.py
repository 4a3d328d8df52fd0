"""The walk over the tree, by a locked-down evaluator: three-valued and total.

The only importer of simpleeval. What it can do is what its tables list.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from simpleeval import InvalidExpression, SimpleEval  # type: ignore[import-untyped]

from agents.expressions.errors import EvaluationStopped
from agents.expressions.functions import FUNCTIONS, Function
from agents.expressions.limits import MAX_STRING
from agents.expressions.names import MISSING, look_up
from agents.expressions.tree import (
    ERROR,
    MISMATCH_RANK,
    MISSING_RANK,
    NOT_ALLOWED_RANK,
    REASONS,
    Application,
    Atom,
    Comparison,
    Has,
    Literal,
    Name,
    Part,
    Read,
    Subject,
    Unknown,
)
from agents.expressions.values import KINDS, Work, equal, kind_of, less, less_or_equal, member

Outcome: TypeAlias = bool | Unknown


class Decision(NamedTuple):
    """What an expression says about one context.

    ``detail`` is a sentence that names the variable behind an unknown. ``read`` are the names
    found in the context. ``parts`` are the sub-expressions, in order, with what each came to. No
    value of the context is in any of them, so sensitive values do not leak.
    """

    applies: bool
    reason: str
    detail: str | None
    read: tuple[str, ...]
    parts: tuple[Part, ...]


def decide(
    tree: ast.expr,
    names: Sequence[Name],
    context: object,
    evaluator_of: Callable[[Sequence[Any], Work], Evaluator] | None = None,
) -> Decision:
    """Evaluate a tree for a context; whatever the context is, the answer is a decision."""
    work = Work()
    read: list[str] = []
    try:
        if type(context) is not dict:
            context = _as_object(context)
        values = [read_name(name, context, work, read) for name in names]
        return _decided(tree, (evaluator_of or Evaluator)(values, work), read)
    except (EvaluationStopped, InvalidExpression) as stop:
        return _undecided(ERROR, str(stop), read, ())
    except RecursionError:
        return _undecided(ERROR, "The evaluation is nested too deeply.", read, ())


def decide_read(tree: ast.expr, values: Sequence[Any], read: list[str]) -> Decision:
    """Evaluate a tree whose names are read already; ``read`` are those that were found."""
    try:
        return _decided(tree, Evaluator(values, Work()), read)
    except (EvaluationStopped, InvalidExpression) as stop:
        return _undecided(ERROR, str(stop), read, ())
    except RecursionError:
        return _undecided(ERROR, "The evaluation is nested too deeply.", read, ())


def _decided(tree: ast.expr, evaluator: Evaluator, read: list[str]) -> Decision:
    outcome: Outcome = evaluator._eval(tree)
    if outcome is True or outcome is False:
        return Decision(outcome, REASONS[outcome], None, _each_once(read), tuple(evaluator.parts))
    return _undecided(REASONS[outcome.rank], outcome.detail, read, evaluator.parts)


def _undecided(reason: str, detail: str, read: list[str], parts: Sequence[Part]) -> Decision:
    return Decision(
        applies=False, reason=reason, detail=detail, read=_each_once(read), parts=tuple(parts)
    )


def _each_once(read: list[str]) -> tuple[str, ...]:
    return tuple(read) if len(read) < 2 else tuple(dict.fromkeys(read))


def _as_object(context: object) -> dict[str, Any]:
    if isinstance(context, Mapping):
        return dict(context)
    raise EvaluationStopped("The context is not a JSON object.")


def read_name(name: Name, context: object, work: Work, read: list[str]) -> Any:
    """Read one name; ``Unknown`` if it is missing or not as declared."""
    value = context
    for key, check in name.steps:
        # The usual case without a call: an object that has the key as it is written.
        found = value.get(key, MISSING) if type(value) is dict else MISSING
        value = look_up(value, key, work) if found is MISSING else found
        if value is MISSING:
            return Unknown(MISSING_RANK, 0, name.missing)
        if check is not None and not (
            type(value) in check.plain_types
            and (check.plain_values is None or value in check.plain_values)
        ):
            problem = check.problem(value, work)
            if problem is not None:
                read.append(check.name)
                return Unknown(NOT_ALLOWED_RANK, 0, problem)
    read.append(name.label)
    if type(value) is str:
        if len(value) > MAX_STRING:
            raise EvaluationStopped(f"`{name.label}` has more than {MAX_STRING} characters.")
    elif type(value) not in KINDS:
        kind_of(value)
    return value


def _unequal(left: Any, right: Any, work: Work) -> bool | None:
    same = equal(left, right, work)
    return None if same is None else not same


def _not_member(left: Any, right: Any, work: Work) -> bool | None:
    inside = member(left, right, work)
    return None if inside is None else not inside


def _negated(outcome: Outcome) -> Outcome:
    return outcome if isinstance(outcome, Unknown) else not outcome


class Evaluator(SimpleEval):  # type: ignore[misc]  # simpleeval has no types
    """Evaluates one tree once. ``names`` are the values that it reads, by index."""

    operators: Mapping[type[ast.AST], Callable[..., Any]] = {
        ast.Eq: equal,
        ast.NotEq: _unequal,
        ast.Lt: lambda left, right, _work: less(left, right),
        ast.LtE: lambda left, right, _work: less_or_equal(left, right),
        ast.Gt: lambda left, right, _work: less(right, left),
        ast.GtE: lambda left, right, _work: less_or_equal(right, left),
        ast.In: member,
        ast.NotIn: _not_member,
        ast.Not: _negated,
    }
    functions: Mapping[str, Function] = FUNCTIONS

    def __init__(self, names: Sequence[Any], work: Work) -> None:
        # Without super(): it would fill in the tables that are replaced here, four times as slow
        # as an evaluation, and swaps the process's warning filters, which threads share.
        self.names = names
        self.work = work
        self.parts: list[Part] = []

    def _eval(self, node: ast.AST) -> Any:
        try:
            handler = self.nodes[type(node)]
        except KeyError:
            raise EvaluationStopped(f"{type(node).__name__} is not available.") from None
        return handler(self, node)

    def _eval_operand(self, node: ast.expr) -> Any:
        """Evaluate what most operands are, a name or a literal, without going round."""
        if type(node) is Literal:
            return node.value
        if type(node) is Read:
            value = self.names[node.index]
            if type(value) is not Unknown:
                return value
        return self._eval(node)

    def _eval_literal(self, node: Literal) -> Any:
        return node.value

    def _eval_read(self, node: Read) -> Any:
        value = self.names[node.index]
        if type(value) is Unknown:
            return Unknown(value.rank, node.position, value.detail)
        return value

    def _eval_has(self, node: Has) -> bool:
        value = self.names[node.index]
        return type(value) is not Unknown or value.rank != MISSING_RANK

    def _eval_boolop(self, node: ast.BoolOp) -> Outcome:
        # No early end: which operand stands first must change neither the outcome nor what is
        # read, and a person wants to see what every part came to.
        outcomes = [
            self._eval_atom(value) if type(value) is Atom else self._eval(value)
            for value in node.values
        ]
        dominant = type(node.op) is ast.Or
        if dominant in outcomes:
            return dominant
        if outcomes.count(not dominant) == len(outcomes):
            return not dominant
        return _worst(outcomes)

    def _eval_compare(self, node: Comparison) -> Outcome:
        left = self._eval_operand(node.left)
        result: Outcome = True
        for op, comparator, subject in node.pairs:
            right = (
                comparator.value if type(comparator) is Literal else self._eval_operand(comparator)
            )
            if type(left) is Unknown or type(right) is Unknown:
                outcome: Outcome = _worst((left, right))
            else:
                compared = self.operators[op](left, right, self.work)
                outcome = _unlike(left, right, subject) if compared is None else compared
            if result is True or outcome is False:
                result = outcome
            elif result is not False and outcome is not True:
                result = min(result, outcome)
            left = right
        return result

    def _eval_application(self, node: Application) -> Any:
        function = self.functions[node.function]
        args = [self._eval_operand(arg) for arg in node.args]
        if not all(map(frozenset.__contains__, function.types, map(type, args))):
            return self._unfit(node, function, args)
        value = function.call(self.work, *args)
        if value is None:
            subject = node.subjects[0]
            detail = f"`{subject.label}` cannot be used in {function.signature}"
            return Unknown(MISMATCH_RANK, subject.position, detail)
        return value

    def _unfit(self, node: Application, function: Function, args: Sequence[Any]) -> Unknown:
        problems = []
        for arg, subject, kinds in zip(args, node.subjects, function.takes, strict=True):
            if type(arg) is Unknown:
                problems.append(arg)
            elif kind_of(arg) not in kinds:
                expected = " or ".join(sorted(kinds))
                detail = f"`{subject.label}` is of type {kind_of(arg)}, not {expected}"
                problems.append(Unknown(MISMATCH_RANK, subject.position, detail))
        return _worst(problems)

    def _eval_atom(self, node: Atom) -> Outcome:
        inner = node.inner
        if type(inner) is Comparison:
            outcome: Any = self._eval_compare(inner)
        else:
            outcome = self._eval(inner)
        if outcome is True or outcome is False:
            self.parts.append(node.parts[outcome])
            return outcome
        unknown: Unknown = outcome
        if type(outcome) is not Unknown:
            detail = f"`{node.subject.label}` is of type {kind_of(outcome)}, not boolean"
            unknown = Unknown(MISMATCH_RANK, node.subject.position, detail)
        self.parts.append(node.parts[unknown.rank])
        return unknown

    nodes: Mapping[type[ast.AST], Callable[..., Any]] = {
        ast.BoolOp: _eval_boolop,
        ast.UnaryOp: SimpleEval._eval_unaryop,
        Literal: _eval_literal,
        Comparison: _eval_compare,
        Application: _eval_application,
        Atom: _eval_atom,
        Read: _eval_read,
        Has: _eval_has,
    }


def _unlike(left: Any, right: Any, subject: Subject) -> Unknown:
    kinds = f"{kind_of(left)} with {kind_of(right)}"
    detail = f"`{subject.label}` cannot be compared like this: {kinds}"
    return Unknown(MISMATCH_RANK, subject.position, detail)


def _worst(outcomes: Sequence[Any]) -> Unknown:
    """Return the unknown that gives the reason: by precedence, then the leftmost."""
    return min(outcome for outcome in outcomes if type(outcome) is Unknown)
