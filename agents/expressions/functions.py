"""The functions that an expression can call. ``has`` is not here: it reads names, not values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agents.expressions.values import KINDS, Work, member, parse_date, parse_version


@dataclass(frozen=True, slots=True)
class Function:
    """One function: the kinds each argument may have, the kind it gives, what it does.

    ``types`` are the Python types of these kinds. ``call`` gets arguments of the right kinds; None says that the first one cannot be used.
    """

    name: str
    takes: tuple[frozenset[str], ...]
    gives: str
    call: Callable[..., Any]
    signature: str
    types: tuple[frozenset[type], ...] = ()

    def __post_init__(self) -> None:
        types = tuple(
            frozenset(python for python, kind in KINDS.items() if kind in kinds)
            for kinds in self.takes
        )
        object.__setattr__(self, "types", types)


def _lower(work: Work, text: str) -> str:
    work.spend(len(text))
    return text.lower()


def _upper(work: Work, text: str) -> str:
    work.spend(len(text))
    return text.upper()


def _len(_work: Work, value: Any) -> int:
    return len(value)


def _startswith(_work: Work, text: str, prefix: str) -> bool:
    return text.startswith(prefix)


def _endswith(_work: Work, text: str, suffix: str) -> bool:
    return text.endswith(suffix)


def _contains(work: Work, container: Any, item: Any) -> bool | None:
    return member(item, container, work)


def _version(_work: Work, text: str) -> Any:
    return parse_version(text)


def _date(_work: Work, text: str) -> Any:
    return parse_date(text)


_STRING: Final = frozenset({"string"})
_ANY: Final = frozenset({"boolean", "number", "string", "list", "object", "null"})
_SIZED: Final = frozenset({"string", "list", "object"})
_CONTAINER: Final = frozenset({"string", "list"})

FUNCTIONS: Final[Mapping[str, Function]] = {
    function.name: function
    for function in (
        Function("lower", (_STRING,), "string", _lower, "lower(text)"),
        Function("upper", (_STRING,), "string", _upper, "upper(text)"),
        Function("len", (_SIZED,), "number", _len, "len(value)"),
        Function(
            "startswith", (_STRING, _STRING), "boolean", _startswith, "startswith(text, start)"
        ),
        Function("endswith", (_STRING, _STRING), "boolean", _endswith, "endswith(text, end)"),
        Function("contains", (_CONTAINER, _ANY), "boolean", _contains, "contains(whole, part)"),
        Function("version", (_STRING,), "version", _version, 'version("1.2.0")'),
        Function("date", (_STRING,), "date", _date, 'date("2026-01-31")'),
    )
}
HAS: Final = "has"
SIGNATURES: Final = (*(f.signature for f in FUNCTIONS.values()), 'has("a.b")')
