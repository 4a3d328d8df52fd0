"""Values of each name that are worth trying: what is declared, else what expressions tell apart."""

from __future__ import annotations

import ast
import datetime
import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agents.expressions.declarations import ContextVariable
from agents.expressions.names import MISSING, dotted
from agents.expressions.tree import Application, Atom, Has, Literal, Read
from agents.expressions.values import KINDS, Version

if TYPE_CHECKING:
    from agents.expressions import Expression

_OTHER: Final = "something else"
# Below and above what anybody compares with.
_ENDS: Final = {"version": ("0.0.0", "999999.0.0"), "date": ("0001-01-01", "9999-12-31")}


class Choices(NamedTuple):
    """What one name may have. ``MISSING`` among the values leaves it out of the context.

    ``exact``: the values stand for everything that the declaration allows, null aside.
    """

    keys: tuple[str, ...]
    values: tuple[Any, ...]
    exact: bool

    @property
    def label(self) -> str:
        return dotted(self.keys)


def choices_of(
    expressions: Iterable[Expression], variables: Sequence[ContextVariable]
) -> list[Choices]:
    """Return the choices of every name that one of ``expressions`` reads, by name.

    A name above another one (``customer`` over ``customer.tier``) is there when that one is.
    """
    declared = {variable.keys: variable for variable in variables}
    literals: defaultdict[tuple[str, ...], list[Any]] = defaultdict(list)
    functions: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for expression in expressions:
        for atom in expression.atoms:
            for keys in _names_in(atom):
                literals[keys] += _literals_in(atom)
                functions[keys] |= _functions_in(atom)
    above = {keys[:n] for keys in literals for n in range(1, len(keys))}
    return [
        _choices(keys, declared.get(keys), literals[keys], functions[keys])
        for keys in sorted(literals)
        if keys not in above
    ]


def usual_value(variable: ContextVariable) -> Any:
    """Return a value that a declaration allows: its example, else the first listed one."""
    if variable.example is not None:
        return variable.example
    if variable.values:
        return [variable.values[0]] if variable.type == "list" else variable.values[0]
    guesses = {"string": "", "number": 0, "boolean": False, "list": [], "object": {}}
    return guesses.get(variable.type)


def _names_in(atom: Atom) -> set[tuple[str, ...]]:
    return {node.name.keys for node in ast.walk(atom) if isinstance(node, Read | Has)}


def _literals_in(atom: Atom) -> list[Any]:
    found: list[Any] = []
    for node in ast.walk(atom):
        if isinstance(node, Literal):
            # A version is a tuple too.
            found += node.value if type(node.value) is tuple else (node.value,)
    return [_as_json(value) for value in found]


def _as_json(value: Any) -> Any:
    """Return a literal as a context can hold it."""
    if isinstance(value, Version):
        words = value.prerelease[1] if value.prerelease[0] == 0 else ()
        suffix = ".".join(word or str(number) for _, number, word in words)
        release = f"{value.major}.{value.minor}.{value.patch}"
        return f"{release}-{suffix}" if suffix else release
    return value.isoformat() if isinstance(value, datetime.date) else value


def _functions_in(atom: Atom) -> set[str]:
    return {node.function for node in ast.walk(atom) if isinstance(node, Application)}


def _choices(
    keys: tuple[str, ...],
    declared: ContextVariable | None,
    literals: Sequence[Any],
    functions: set[str],
) -> Choices:
    left_out = () if declared is not None and declared.required else (MISSING,)
    if declared is not None and declared.type != "list":
        if declared.values is not None:
            return Choices(keys, (*declared.values, *left_out), exact=True)
        if declared.type == "boolean":
            return Choices(keys, (True, False, *left_out), exact=True)
    values: list[Any] = []
    if declared is not None and declared.example is not None:
        values.append(declared.example)
    kinds = {declared.type} if declared is not None else _kinds(literals)
    if "string" in kinds:
        values += _texts(literals, functions)
    if "number" in kinds:
        values += _numbers(literals)
    if "boolean" in kinds:
        values += [True, False]
    if "list" in kinds:
        elements = literals if declared is None or declared.values is None else declared.values
        values += [[element] for element in elements if not isinstance(element, tuple)] + [[]]
    if None in literals and (declared is None or declared.values is None):
        values.append(None)
    if "object" in kinds:
        values.append({})
    return Choices(keys, (*_each_once(values), *left_out), exact=False)


def _kinds(literals: Sequence[Any]) -> set[str]:
    """Return the kinds that an undeclared name is compared with; a text where nothing tells."""
    kinds = {KINDS[type(literal)] for literal in literals} - {"null"}
    return kinds or {"string"}


def _texts(literals: Sequence[Any], functions: set[str]) -> list[str]:
    texts = [literal for literal in literals if isinstance(literal, str)]
    ends = [end for name, pair in _ENDS.items() if name in functions for end in pair]
    return [*texts, *ends, *([] if ends else [_OTHER])]


def _numbers(literals: Sequence[Any]) -> list[float]:
    numbers = sorted({one for one in literals if KINDS[type(one)] == "number"})
    if not numbers:
        return [0]
    between = [a + (b - a) / 2 for a, b in itertools.pairwise(numbers)]
    low, high = numbers[0], numbers[-1]
    return [*numbers, *between, low - max(1, abs(low)), high + max(1, abs(high))]


def _each_once(values: Iterable[Any]) -> list[Any]:
    """Return values without repeats; True is not 1."""
    found: list[Any] = []
    for value in values:
        if not any(type(value) is type(other) and value == other for other in found):
            found.append(value)
    return found
