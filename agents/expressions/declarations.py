"""The context variables that a version declares: reading them from JSON, checking values."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agents.expressions.errors import EvaluationStopped
from agents.expressions.limits import ELEMENT_WORK, MAX_NAME_LENGTH
from agents.expressions.names import MISSING, dotted, look_up
from agents.expressions.values import KINDS, Work
from registry.errors import shown

TYPES: Final = ("string", "number", "boolean", "list", "object")
MISSING_VARIABLE: Final = "MISSING_VARIABLE"
VALUE_NOT_ALLOWED: Final = "VALUE_NOT_ALLOWED"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextVariable:
    """One declared variable of the context.

    ``name`` may be dotted (``customer.tier``). ``values`` are the allowed values, for a list
    its allowed elements; None allows every value of the type. null counts as "no value": it is
    allowed unless ``values`` leave it out. ``example`` and ``description`` are for people.
    """

    name: str
    type: str
    values: tuple[Any, ...] | None = None
    required: bool = False
    sensitive: bool = False
    example: Any = None
    description: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.name.split("."))

    def as_json(self) -> dict[str, Any]:
        """Return the declaration as `parse_variables` reads it."""
        return {
            "name": self.name,
            "type": self.type,
            "values": None if self.values is None else list(self.values),
            "required": self.required,
            "sensitive": self.sensitive,
            "example": self.example,
            "description": self.description,
        }


class Check:
    """A declaration made ready to look at many values."""

    __slots__ = (
        "allowed",
        "name",
        "null",
        "plain_types",
        "plain_values",
        "required",
        "type",
        "values",
    )

    def __init__(self, variable: ContextVariable) -> None:
        self.name = variable.name
        self.type = variable.type
        self.required = variable.required
        self.values = variable.values
        values = variable.values
        self.null = values is None or None in values
        # Values of these types that are among these values (None: all) have no problem; others are
        # looked at by ``problem``.
        self.plain_types = frozenset(python for python, kind in KINDS.items() if kind == self.type)
        self.plain_values: frozenset[Any] | None = None
        if values is not None:
            texts = all(type(value) is str for value in values)
            self.plain_types = frozenset((str,)) if texts and self.type == "string" else frozenset()
            self.plain_values = frozenset(values) if texts else frozenset()
        # With its kind, since Python takes True for 1.
        self.allowed = None if values is None else frozenset((KINDS[type(v)], v) for v in values)

    def problem(self, value: Any, work: Work) -> str | None:
        """Say why the declaration does not allow ``value``, without repeating it; else None."""
        kind = KINDS.get(type(value), type(value).__name__)
        if value is None:
            return None if self.null else self._not_listed(f"`{self.name}` is null")
        if kind != self.type:
            return f"`{self.name}` is of type {kind}, declared is {self.type}"
        if self.allowed is None:
            return None
        if kind != "list":
            if (kind, value) in self.allowed:
                return None
            return self._not_listed(f"`{self.name}` has a value that is not declared")
        work.spend(ELEMENT_WORK * len(value))
        for element in value:
            element_kind = KINDS.get(type(element))
            if (
                element_kind in ("list", "object", None)
                or (element_kind, element) not in self.allowed
            ):
                return self._not_listed(f"`{self.name}` holds a value that is not declared")
        return None

    def _not_listed(self, sentence: str) -> str:
        return f"{sentence}; allowed: {listed(self.values or ())}"


class Declarations:
    """All declared variables of a version, by name."""

    def __init__(self, variables: Iterable[ContextVariable]) -> None:
        self.by_keys = {variable.keys: variable for variable in variables}
        self.names = sorted(variable.name for variable in self.by_keys.values())
        self._parents = {keys[:n] for keys in self.by_keys for n in range(1, len(keys))}

    def __bool__(self) -> bool:
        return bool(self.by_keys)

    def unknown(self, keys: tuple[str, ...]) -> str | None:
        """Say why no declaration covers the name, with what may be meant; None if one does."""
        name = dotted(keys)
        for n in range(len(keys), 0, -1):
            variable = self.by_keys.get(keys[:n])
            if variable is None:
                continue
            if n < len(keys) and variable.type != "object":
                return f"`{variable.name}` is declared as {variable.type} and has no keys."
            return None
        if keys in self._parents:
            return None
        close = difflib.get_close_matches(name[:MAX_NAME_LENGTH], self.names, n=1)
        return f"`{name}` is not declared" + (f"; did you mean `{close[0]}`?" if close else ".")


def listed(values: Sequence[Any], *, exact: bool = False, most: int = 10) -> str:
    """Return values for a sentence: `EU, UK, US`; ``exact`` tells the text "5" from the number."""
    texts = [repr(value) if exact else str(shown(value)) for value in values[:most]]
    return ", ".join(texts) + (" …" if len(values) > most else "")


class ContextChecks:
    """Declarations made ready to look at many contexts."""

    __slots__ = ("_checks",)

    def __init__(self, variables: Iterable[ContextVariable]) -> None:
        self._checks = tuple((variable, variable.keys, Check(variable)) for variable in variables)

    def problems(self, context: object) -> list[dict[str, Any]]:
        """List what in a context the declarations do not allow, as ``context_problems`` does."""
        problems = []
        for variable, keys, check in self._checks:
            try:
                value, reason, message = _problem(variable, keys, check, context)
            except EvaluationStopped:
                value, reason = None, VALUE_NOT_ALLOWED
                message = f"`{variable.name}` is too large to be checked"
            if message is not None:
                problems.append(
                    {
                        "variable": variable.name,
                        "reason": reason,
                        "message": message,
                        "value": None if variable.sensitive else shown(value),
                        "allowed": None if variable.values is None else list(variable.values),
                    }
                )
        return problems


def context_problems(variables: Iterable[ContextVariable], context: object) -> list[dict[str, Any]]:
    """List what in a context the declarations do not allow.

    Each problem has ``variable``, ``reason`` (MISSING_VARIABLE or VALUE_NOT_ALLOWED), ``message``,
    ``value`` (shortened; null for a sensitive variable) and ``allowed``. Expressions that read
    such a variable are unknown.
    """
    return ContextChecks(variables).problems(context)


def _problem(
    variable: ContextVariable, keys: tuple[str, ...], check: Check, context: object
) -> tuple[Any, str, str | None]:
    work = Work()
    value = context
    for key in keys:
        value = look_up(value, key, work)
    if value is MISSING:
        sentence = f"`{variable.name}` is required and missing" if variable.required else None
        return None, MISSING_VARIABLE, sentence
    return value, VALUE_NOT_ALLOWED, check.problem(value, work)
