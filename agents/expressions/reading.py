"""`parse_variables`: the declarations of a draft, read from JSON and checked."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from agents.expressions.declarations import TYPES, Check, ContextVariable
from agents.expressions.lexing import RESERVED, name_problem
from agents.expressions.limits import (
    MAX_DESCRIPTION_LENGTH,
    MAX_INTEGER,
    MAX_NAME_LENGTH,
    MAX_VALUES,
    MAX_VARIABLES,
)
from agents.expressions.values import KINDS, Work
from registry.errors import FieldError, Invalid

_FIELDS: Final = (
    "name",
    "type",
    "values",
    "required",
    "sensitive",
    "example",
    "description",
)
_CODE: Final = "context_variables.invalid"


def parse_variables(value: object) -> tuple[ContextVariable, ...]:
    """Read declarations from JSON; null declares nothing.

    Raises ``Invalid`` that lists every wrong field by its path (``contextVariables.0.type``).
    """
    if value is None:
        return ()
    if not isinstance(value, list):
        raise Invalid.field("contextVariables", value, "must be a list of objects", code=_CODE)
    if len(value) > MAX_VARIABLES:
        raise Invalid.field(
            "contextVariables",
            len(value),
            f"at most {MAX_VARIABLES} variables can be declared",
            allowed=MAX_VARIABLES,
            code=_CODE,
        )
    errors: list[FieldError] = []
    variables: dict[str, ContextVariable] = {}
    for index, item in enumerate(value):
        reader = _Reader(f"contextVariables.{index}", errors)
        variable = reader.read(item)
        if variable is None:
            continue
        if variable.name in variables:
            reader.refuse("name", variable.name, f"`{variable.name}` is declared twice")
        variables.setdefault(variable.name, variable)
    _check_parents(value, variables, errors)
    if errors:
        raise Invalid(f"{errors[0].field}: {errors[0].message}", code=_CODE, errors=errors)
    return tuple(variables.values())


def _check_parents(
    items: list[Any], variables: Mapping[str, ContextVariable], errors: list[FieldError]
) -> None:
    names = list(variables)
    for variable in variables.values():
        for n in range(1, len(variable.keys)):
            parent = variables.get(".".join(variable.keys[:n]))
            if parent is not None and parent.type != "object":
                field = f"contextVariables.{names.index(variable.name)}.name"
                message = f"`{parent.name}` is declared as {parent.type} and has no keys"
                errors.append(FieldError(field=field, message=message, value=variable.name))


class _Reader:
    """Reads one declaration and collects what is wrong with it."""

    def __init__(self, path: str, errors: list[FieldError]) -> None:
        self.path = path
        self.errors = errors

    def refuse(self, field: str, value: object, message: str, allowed: object = None) -> None:
        path = f"{self.path}.{field}" if field else self.path
        self.errors.append(FieldError(field=path, message=message, value=value, allowed=allowed))

    def read(self, item: object) -> ContextVariable | None:
        before = len(self.errors)
        if not isinstance(item, dict):
            self.refuse("", item, "must be an object", list(_FIELDS))
            return None
        for field in item:
            if field not in _FIELDS:
                self.refuse(str(field), item[field], "is not a known field", list(_FIELDS))
        kind = item.get("type")
        if kind not in TYPES:
            self.refuse("type", kind, f"must be one of {', '.join(TYPES)}", list(TYPES))
        draft = ContextVariable(
            name=self._name(item.get("name")),
            type=kind if isinstance(kind, str) else "",
            required=self._flag(item, "required"),
            sensitive=self._flag(item, "sensitive"),
            description=self._description(item.get("description")),
        )
        if len(self.errors) > before:
            return None
        variable = self._with_values(draft, item.get("values"), item.get("example"))
        return variable if len(self.errors) == before else None

    def _name(self, name: object) -> str:
        if not isinstance(name, str) or not name:
            self.refuse("name", name, "must be a name such as region or customer.tier")
            return ""
        name = unicodedata.normalize("NFC", name)
        if len(name) > MAX_NAME_LENGTH:
            self.refuse(
                "name", name, f"has more than {MAX_NAME_LENGTH} characters", MAX_NAME_LENGTH
            )
        parts = name.split(".")
        problems = [name_problem(part) for part in parts]
        if any(part.startswith("_") for part in parts):
            problems.append("a name cannot begin with _")
        if parts[0] in RESERVED:
            problems.append(f"`{parts[0]}` is a word of the expression language")
        if problem := next(filter(None, problems), None):
            self.refuse("name", name, problem)
        return name

    def _flag(self, item: Mapping[str, Any], field: str) -> bool:
        value = item.get(field, False)
        if not isinstance(value, bool):
            self.refuse(field, value, "must be true or false", [True, False])
        return value is True

    def _description(self, value: object) -> str:
        if value is None:
            return ""
        if not isinstance(value, str) or len(value) > MAX_DESCRIPTION_LENGTH:
            self.refuse(
                "description",
                value,
                f"must be a text of at most {MAX_DESCRIPTION_LENGTH} characters",
            )
            return ""
        return value

    def _with_values(
        self, draft: ContextVariable, values: object, example: object
    ) -> ContextVariable:
        if values is not None:
            if not isinstance(values, list) or not 1 <= len(values) <= MAX_VALUES:
                self.refuse(
                    "values", values, f"must be a list of 1 to {MAX_VALUES} values, or null"
                )
                return draft
            if draft.type == "object":
                message = "of an object cannot be listed; declare its keys, as in customer.tier"
                self.refuse("values", values, message)
                return draft
            if not self._values_fit(draft.type, values):
                return draft
            draft = replace(draft, values=tuple(values))
        if example is not None and (problem := Check(draft).problem(example, Work())):
            self.refuse("example", example, problem, draft.values and list(draft.values))
        return replace(draft, example=example)

    def _values_fit(self, kind: str, values: list[Any]) -> bool:
        kinds = ("string", "number", "boolean") if kind == "list" else (kind,)
        seen: set[tuple[str | None, Any]] = set()
        for index, value in enumerate(values):
            field = f"values.{index}"
            found = KINDS.get(type(value))
            if found not in (*kinds, "null"):
                self.refuse(field, value, f"must be of type {' or '.join(kinds)}", list(kinds))
            elif found == "number" and not abs(value) <= _largest(value):
                self.refuse(field, value, "is a number that JSON does not carry exactly")
            elif (found, value) in seen:
                self.refuse(field, value, "is listed twice")
            else:
                seen.add((found, value))
        return len(seen) == len(values)


def _largest(number: float) -> float:
    """Return the largest magnitude allowed; NaN is below nothing and so refused too."""
    return MAX_INTEGER if isinstance(number, int) else sys.float_info.max
