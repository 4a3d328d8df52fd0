"""What an expression can come to: it is tried with values that stand for all others.

These are the declared values, or, for a name without them, each literal that it is compared with
and one value in every gap between them. A part that cannot be tried like this may come to
anything, so what is found never (or always) true is so, null aside for declared names.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
import operator
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from agents.expressions.errors import EvaluationStopped
from agents.expressions.evaluation import Evaluator
from agents.expressions.functions import FUNCTIONS
from agents.expressions.limits import MAX_COMBINATIONS, MAX_TRIALS
from agents.expressions.tree import (
    FALSE_BIT,
    MISSING_RANK,
    TRUE_BIT,
    UNKNOWN_BIT,
    Application,
    Atom,
    Comparison,
    Has,
    Literal,
    Name,
    Read,
    Unknown,
    static_kind,
)
from agents.expressions.values import KINDS, ORDERED, Work

_ANYTHING: Final = TRUE_BIT | FALSE_BIT | UNKNOWN_BIT
_MISSING: Final = Unknown(MISSING_RANK, 0, "")
_MEMBERSHIP: Final = (ast.In, ast.NotIn)
_EQUALITY: Final = (ast.Eq, ast.NotEq)
CASES: Final = ("lower", "upper")


class Trial:
    """Tries one expression. ``alone`` has what each part can come to by itself, as bits."""

    def __init__(self, tree: ast.expr, names: Sequence[Name]) -> None:
        self.tree = tree
        self.names = names
        self.work = Work()
        self.left = MAX_TRIALS
        atoms = [node for node in ast.walk(tree) if isinstance(node, Atom)]
        self.reads = {atom: _reads(atom) for atom in atoms}
        self.ways = _ways(atoms)
        literals = _literals(self.reads)
        self.domains = [_domain(name, literals[index]) for index, name in enumerate(names)]
        # For a part that reads one name: its index, and the outcome for each of its values.
        self.tables: dict[Atom, tuple[int, list[int]]] = {}
        self.alone = {atom: self._alone(atom) for atom in atoms}

    def outcomes(self) -> int:
        """Return the bits of what the whole expression can come to."""
        chosen = self._chosen()
        ranges = [range(len(self.domains[index])) for index in chosen]
        outcomes = 0
        for combination in itertools.product(*ranges):
            outcomes |= self._outcomes(self.tree, dict(zip(chosen, combination, strict=True)))
        return outcomes

    def _chosen(self) -> list[int]:
        """Choose the names whose values are tried together: those that several parts read."""
        uses = Counter(index for index, _table in self.tables.values())
        most = min(MAX_COMBINATIONS, MAX_TRIALS // len(self.alone))
        chosen = []
        for index, count in uses.most_common():
            size = len(self.domains[index])
            if count > 1 and size <= most:
                most //= size
                chosen.append(index)
        return chosen

    def _outcomes(self, node: ast.expr, values: Mapping[int, int]) -> int:
        if isinstance(node, ast.BoolOp):
            parts = [self._outcomes(part, values) for part in node.values]
            if isinstance(node.op, ast.And):
                return _all_of(parts)
            return _negated(_all_of([_negated(part) for part in parts]))
        if isinstance(node, ast.UnaryOp):
            return _negated(self._outcomes(node.operand, values))
        if isinstance(node, Atom):
            index, table = self.tables.get(node, (-1, []))
            return table[values[index]] if index in values else self.alone[node]
        return _ANYTHING

    def _alone(self, atom: Atom) -> int:
        if bits := _by_kinds(atom.inner):
            return bits
        indexes = sorted(self.reads[atom])
        domains = [self.domains[index] for index in indexes]
        exact = all(_is_finite(self.names[index]) for index in indexes)
        trials = math.prod(map(len, domains))
        if trials > self.left or not (exact or self._is_simple(atom)):
            return _ANYTHING
        self.left -= trials
        try:
            table = [
                self._tried(atom, dict(zip(indexes, values, strict=True)))
                for values in itertools.product(*domains)
            ]
        except EvaluationStopped:
            return _ANYTHING
        if len(indexes) == 1:
            self.tables[atom] = (indexes[0], table)
        return functools.reduce(operator.or_, table)

    def _tried(self, atom: Atom, values: Mapping[int, Any]) -> int:
        given = [_MISSING] * len(self.names)
        for index, value in values.items():
            given[index] = value
        outcome = Evaluator(given, self.work).eval("", atom)
        return {True: TRUE_BIT, False: FALSE_BIT}.get(outcome, UNKNOWN_BIT)

    def _is_simple(self, atom: Atom) -> bool:
        """Say whether the values of the domain stand for all others in this part."""
        if isinstance(atom.inner, Has | Read):
            return True
        if not isinstance(atom.inner, Comparison) or len(self.reads[atom]) > 1:
            return False
        left = atom.inner.left
        for op, right, _subject in atom.inner.pairs:
            for node in (left, right):
                way = _way(node)
                if way is None and not isinstance(node, Literal):
                    return False
                if way in CASES and (op not in (*_EQUALITY, *_MEMBERSHIP) or not self._only(node)):
                    return False
            if not _compares_scalars(left, op, right):
                return False
            left = right
        return True

    def _only(self, node: ast.expr) -> bool:
        """Say whether a name is never compared in another way than through this function."""
        return all(len(self.ways[read.index]) == 1 for read in _names_in(node))


def _all_of(parts: Sequence[int]) -> int:
    """Return the outcomes of `and`, for parts that do not depend on each other."""
    outcomes = 0
    if all(part & TRUE_BIT for part in parts):
        outcomes |= TRUE_BIT
    if any(part & FALSE_BIT for part in parts):
        outcomes |= FALSE_BIT
    if all(part != FALSE_BIT for part in parts) and any(part & UNKNOWN_BIT for part in parts):
        outcomes |= UNKNOWN_BIT
    return outcomes


def _negated(bits: int) -> int:
    swapped = (TRUE_BIT if bits & FALSE_BIT else 0) | (FALSE_BIT if bits & TRUE_BIT else 0)
    return swapped | (bits & UNKNOWN_BIT)


def _names_in(node: ast.AST) -> list[Read | Has]:
    return [below for below in ast.walk(node) if isinstance(below, Read | Has)]


def _reads(node: ast.AST) -> frozenset[int]:
    return frozenset(read.index for read in _names_in(node))


def _way(node: ast.expr) -> str | None:
    """Say how an operand reads a name: plainly (""), through a change of case, or otherwise."""
    if isinstance(node, Read):
        return ""
    if isinstance(node, Application) and node.function in CASES and isinstance(node.args[0], Read):
        return node.function
    return None


def _ways(atoms: Iterable[Atom]) -> Mapping[int, set[str]]:
    ways: dict[int, set[str]] = defaultdict(set)
    for atom in atoms:
        if isinstance(atom.inner, Comparison):
            for operand in (atom.inner.left, *atom.inner.comparators):
                way = _way(operand)
                for read in _names_in(operand):
                    if way is not None:
                        ways[read.index].add(way)
    return ways


def _compares_scalars(left: ast.expr, op: type[ast.cmpop], right: ast.expr) -> bool:
    scalars: list[Any] = [left.value] if isinstance(left, Literal) else []
    if op in _MEMBERSHIP:
        if not isinstance(right, Literal) or not isinstance(right.value, tuple):
            return False
        scalars += right.value
    elif isinstance(right, Literal):
        scalars.append(right.value)
    return not any(isinstance(scalar, tuple) for scalar in scalars)


def _by_kinds(node: ast.expr) -> int:
    """Return what a part comes to by the kinds of its values alone; 0 if they do not decide."""
    if not isinstance(node, Comparison):
        return UNKNOWN_BIT if _is_unusable(node) else 0
    left = node.left
    for op, right, _subject in node.pairs:
        if _is_unusable(left) or _is_unusable(right) or _is_unlike(left, op, right):
            return UNKNOWN_BIT if len(node.pairs) == 1 else FALSE_BIT | UNKNOWN_BIT
        left = right
    return 0


def _is_unusable(node: ast.expr) -> bool:
    """Say whether a function gets what it never takes."""
    if not isinstance(node, Application):
        return False
    takes = FUNCTIONS[node.function].takes
    return any(
        _is_unusable(arg) or static_kind(arg) not in (*kinds, None)
        for arg, kinds in zip(node.args, takes, strict=True)
    )


def _is_unlike(left: ast.expr, op: type[ast.cmpop], right: ast.expr) -> bool:
    kind, other = static_kind(left), static_kind(right)
    if op in _MEMBERSHIP:
        if isinstance(right, Literal) and isinstance(right.value, tuple):
            kinds = {KINDS[type(element)] for element in right.value}
            return bool(kinds) and kind is not None and not kinds & {kind, "null"}
        return other not in ("list", "string", None) or (
            other == "string" and kind not in ("string", None)
        )
    if op in _EQUALITY:
        return None not in (kind, other) and kind != other and "null" not in (kind, other)
    known = {kind, other} - {None}
    return len(known) > 1 or not known <= ORDERED


def _is_finite(name: Name) -> bool:
    declared = name.declared
    return declared is not None and (
        declared.type == "boolean"
        or (declared.values is not None and declared.type in ("string", "number"))
    )


def _domain(name: Name, literals: Sequence[Any]) -> list[Any]:
    """Return values that stand for all that a name can have."""
    declared = name.declared
    missing = [] if declared is not None and declared.required else [_MISSING]
    if declared is None:
        return [*missing, None, True, False, (), {}, *_numbers(literals), *_texts(literals)]
    if declared.values is not None and declared.type != "list":
        return [*missing, *declared.values]
    null = [None] if None in literals else []
    by_type: Mapping[str, Sequence[Any]] = {
        "boolean": (True, False),
        "number": _numbers(literals),
        "string": _texts(literals),
        "list": ((),),
        "object": ({},),
    }
    return [*missing, *null, *by_type[declared.type]]


def _literals(atoms: Mapping[Atom, frozenset[int]]) -> defaultdict[int, list[Any]]:
    """Return, for each name by index, the values that stand in the parts that read it."""
    found: defaultdict[int, list[Any]] = defaultdict(list)
    for atom, indexes in atoms.items():
        for node in ast.walk(atom):
            if isinstance(node, Literal):
                values = node.value if isinstance(node.value, tuple) else (node.value,)
                for index in indexes:
                    found[index] += values
    return found


def _numbers(literals: Iterable[Any]) -> list[float]:
    numbers = sorted({value for value in literals if KINDS[type(value)] == "number"})
    if not numbers:
        return [0]
    between = [a + (b - a) / 2 for a, b in itertools.pairwise(numbers)]
    return [*numbers, *between, _beyond(numbers[0], -1), _beyond(numbers[-1], 1)]


def _beyond(number: float, sign: int) -> float:
    return number + sign * max(1, abs(number))


def _texts(literals: Iterable[Any]) -> list[str]:
    texts = sorted({value for value in literals if isinstance(value, str)})
    # The text right behind each one, and the first of all.
    return ["", *texts, *(text + "\0" for text in texts)]
