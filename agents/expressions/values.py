"""The kinds of values and how they compare: three-valued, and never by Python's own coercions.

A comparison gives True, False or None; None says that the kinds are unlike.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from agents.expressions.errors import EvaluationStopped
from agents.expressions.limits import (
    ELEMENT_WORK,
    MAX_VALUE_DEPTH,
    MAX_VERSION_LENGTH,
    MAX_WORK,
    SCAN_WORK,
    SEARCH_WORK,
)


class Version(NamedTuple):
    """A semantic version; ordered as SemVer 2.0 orders them, build metadata ignored."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[Any, ...]


# By exact type, as a JSON parser gives them: a subclass could bring its own comparison.
KINDS: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "list",
    tuple: "list",
    dict: "object",
    type(None): "null",
    Version: "version",
    datetime.date: "date",
}
ORDERED: Final = frozenset({"number", "string", "version", "date"})


class Work:
    """What one evaluation may still do."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_WORK

    def spend(self, units: int) -> None:
        """Raise ``EvaluationStopped`` when the evaluation has done too much."""
        self.left -= units
        if self.left < 0:
            raise EvaluationStopped("The context is too large for this expression.")


def kind_of(value: object) -> str:
    """Return the kind of a value; raise ``EvaluationStopped`` if it is not a JSON value."""
    return kind_of_type(type(value))


def kind_of_type(python: type) -> str:
    """Return the kind of values of a Python type."""
    kind = KINDS.get(python)
    if kind is None:
        raise EvaluationStopped(f"The context holds a {python.__name__}, which is not JSON.")
    return kind


def equal(left: Any, right: Any, work: Work, depth: int = 0) -> bool | None:
    """Compare two values; lists and objects element by element."""
    if type(left) is str and type(right) is str:
        return left == right
    kind, other = kind_of(left), kind_of(right)
    if kind != other:
        return False if "null" in (kind, other) else None
    if kind == "list":
        if len(left) != len(right):
            return False
        work.spend(ELEMENT_WORK * (len(left) + 1))
        return _all_equal(zip(left, right, strict=True), work, depth)
    if kind == "object":
        if len(left) != len(right):
            return False
        work.spend(ELEMENT_WORK * (len(left) + 1))
        if left.keys() != right.keys():
            return False
        return _all_equal(((left[key], right[key]) for key in left), work, depth)
    return bool(left == right)


def _all_equal(pairs: Iterable[tuple[Any, Any]], work: Work, depth: int) -> bool | None:
    if depth >= MAX_VALUE_DEPTH:
        raise EvaluationStopped("The context is nested too deeply for this expression.")
    # No early end: the work must not depend on which operand stands on the left.
    outcomes = [equal(left, right, work, depth + 1) for left, right in pairs]
    if False in outcomes:
        return False
    return None if None in outcomes else True


def member(item: Any, container: Any, work: Work) -> bool | None:
    """Say whether a list holds ``item``, or a string holds it as a part."""
    kind = kind_of(container)
    if kind == "list":
        return _listed(item, container, work)
    if kind == "string" and type(item) is str:
        work.spend(SEARCH_WORK * len(container))
        return item in container
    return None


_TEXT: Final = {str}


def _listed(item: Any, elements: Sequence[Any], work: Work) -> bool | None:
    kind = kind_of(item)
    work.spend(SCAN_WORK * len(elements))
    types = set(map(type, elements))
    if kind == "string" and types == _TEXT:
        return item in elements
    kinds = {kind_of_type(found) for found in types}
    # Python's own search is exact but for these: True is 1, NaN is the same object, a version is
    # a tuple, and lists and objects compare by its rules inside.
    alike = {"boolean": "number", "number": "boolean"}.get(kind)
    if alike in kinds or kind in ("list", "object", "version") or item != item:
        work.spend(ELEMENT_WORK * len(elements))
        outcomes = [equal(item, element, work) for element in elements]
        if True in outcomes:
            return True
        return None if None in outcomes else False
    if item in elements:
        return True
    return None if kind != "null" and kinds - {kind, "null"} else False


def _are_ordered(left: Any, right: Any) -> bool:
    kind = KINDS.get(type(left))
    if kind in ORDERED and (type(left) is type(right) or kind == KINDS.get(type(right))):
        return True
    kind_of(left), kind_of(right)
    return False


def less(left: Any, right: Any) -> bool | None:
    """Say whether ``left`` comes before ``right``."""
    return bool(left < right) if _are_ordered(left, right) else None


def less_or_equal(left: Any, right: Any) -> bool | None:
    """Say whether ``left`` comes before ``right`` or is equal to it."""
    return bool(left <= right) if _are_ordered(left, right) else None


_VERSION: Final = re.compile(
    r"v?(0|[1-9][0-9]*)(?:\.(0|[1-9][0-9]*))?(?:\.(0|[1-9][0-9]*))?"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


def parse_version(text: str) -> Version | None:
    """Read a semantic version; ``1.2`` is ``1.2.0``, a leading ``v`` is ignored."""
    return _version_of(text) if len(text) <= MAX_VERSION_LENGTH else None


@lru_cache(maxsize=1024)
def _version_of(text: str) -> Version | None:
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    major, minor, patch, prerelease = match.groups()
    # A release comes after all of its pre-releases; numbers come before words.
    order: tuple[Any, ...] = (1,)
    if prerelease:
        words = prerelease.split(".")
        if any(w.isdigit() and len(w) > 1 and w[0] == "0" for w in words):
            return None
        order = (0, tuple((0, int(w), "") if w.isdigit() else (1, 0, w) for w in words))
    return Version(int(major), int(minor or 0), int(patch or 0), order)


_DATE: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})?)?"
)


def parse_date(text: str) -> datetime.date | None:
    """Read ``2026-01-31``, or the day of a timestamp as it is written, in its own time zone."""
    return _date_of(text) if len(text) <= MAX_VERSION_LENGTH else None


@lru_cache(maxsize=1024)
def _date_of(text: str) -> datetime.date | None:
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    try:
        return datetime.date.fromisoformat(match[1])
    except ValueError:
        return None
