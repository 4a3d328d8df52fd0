"""Many expressions over one context: each name is read once, whoever reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from agents.expressions.errors import EvaluationStopped
from agents.expressions.evaluation import Decision, decide_read, read_name
from agents.expressions.tree import Name, Unknown
from agents.expressions.values import Work

# What is longer is not told apart by its value: it is read and evaluated anew.
_LONGEST_TEXT: Final = 200
_LONGEST_LIST: Final = 20


class ReadName(NamedTuple):
    """One name in one context: its value or ``Unknown``, and the names found on the way.

    ``key`` is equal exactly for values that decide alike; None where that cannot be said cheaply.
    """

    value: Any
    found: tuple[str, ...]
    key: Any


class Together:
    """Expressions with the same declarations, decided together."""

    def __init__(self, expressions: Sequence[tuple[Any, Sequence[Name]]]) -> None:
        """``expressions`` are trees with their names."""
        places: dict[tuple[str, ...], int] = {}
        self._names: list[Name] = []
        for _, names in expressions:
            for name in names:
                if name.keys not in places:
                    places[name.keys] = len(self._names)
                    self._names.append(name)
        self._trees = [tree for tree, _ in expressions]
        self._places = [tuple(places[name.keys] for name in names) for _, names in expressions]

    def read(self, context: Mapping[str, Any]) -> list[ReadName]:
        """Return every name of every expression, read from ``context``."""
        return [_read(name, context) for name in self._names]

    def key(self, position: int, names: Sequence[ReadName]) -> tuple[Any, ...] | None:
        """Return what the decision of an expression depends on; None where it is not comparable."""
        key = tuple([names[place].key for place in self._places[position]])
        return None if None in key else key

    def decide(self, position: int, names: Sequence[ReadName]) -> Decision:
        """Return the decision of an expression whose ``key`` is not None."""
        read = [names[place] for place in self._places[position]]
        found = [label for one in read for label in one.found]
        return decide_read(self._trees[position], [one.value for one in read], found)


def _read(name: Name, context: Mapping[str, Any]) -> ReadName:
    work = Work()
    before = work.left
    found: list[str] = []
    try:
        value = read_name(name, context, work, found)
    except (EvaluationStopped, RecursionError):
        return ReadName(None, (), None)
    # What cost work to read leaves less of it for the evaluation.
    key = _key(value) if work.left == before else None
    return ReadName(value, tuple(found), key)


def _key(value: Any) -> Any:
    """Return the value with its kind where Python would take unlike values for equal."""
    kind = type(value)
    if kind is str:
        return value if len(value) <= _LONGEST_TEXT else None
    if kind is Unknown or value is None or kind in (bool, int, float):
        return (kind, value)
    if kind is list and len(value) <= _LONGEST_LIST and all(type(one) is str for one in value):
        return (list, *value) if sum(map(len, value)) <= _LONGEST_TEXT else None
    return None
