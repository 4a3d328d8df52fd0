"""What is valid in a configuration and hardly meant: shown, and refused until it is accepted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agents.configuration import Configuration
from agents.expressions import ExpressionError, parse_expression
from registry.errors import FieldError, Invalid

NOT_ACCEPTED = "draft.warnings_not_accepted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One warning, or a note (``is_note``), which needs nobody's consent.

    ``field`` is the member it is about, ``value`` what stands there.
    """

    code: str
    message: str
    field: str
    value: str | None = None
    allowed: Any = None
    is_note: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "message": self.message,
            "field": self.field,
            "value": self.value,
            "allowed": self.allowed,
            "isNote": self.is_note,
        }


def remarks_on(configuration: Configuration) -> list[Remark]:
    """Return the warnings on every expression, and one note where no variables are declared."""
    variables = configuration.variables
    remarks: list[Remark] = []
    noted: dict[str, Remark] = {}
    for position, binding in enumerate(configuration.bindings):
        if binding.expression is None:
            continue
        try:
            found = parse_expression(binding.expression, variables).warnings
        except ExpressionError:
            continue
        for warning in found:
            if warning.is_note:
                note = Remark(
                    code=warning.code,
                    message=warning.message,
                    field="contextVariables",
                    is_note=True,
                )
                noted.setdefault(note.code, note)
                continue
            remarks.append(
                Remark(
                    code=warning.code,
                    message=warning.message,
                    field=f"bindings.{position}.expression",
                    value=binding.expression,
                    allowed=None if warning.allowed is None else list(warning.allowed),
                    # Without declarations everything is allowed.
                    is_note=not variables,
                )
            )
    return [*noted.values(), *remarks]


def new_warnings(before: Configuration, wanted: Configuration) -> list[Remark]:
    """Return the warnings on ``wanted`` that ``before`` does not have already."""
    if wanted.bindings == before.bindings and wanted.variables == before.variables:
        return []
    had = {(one.value, one.code, one.message) for one in remarks_on(before)}
    return [
        one
        for one in remarks_on(wanted)
        if not one.is_note and (one.value, one.code, one.message) not in had
    ]


def refuse(warnings: list[Remark]) -> None:
    """Raise Invalid (``draft.warnings_not_accepted``) naming every warning, if there is one."""
    if not warnings:
        return
    raise Invalid(
        f"{warnings[0].field}: {warnings[0].message} Send acceptWarnings: true if it is meant.",
        code=NOT_ACCEPTED,
        errors=[
            FieldError(field=one.field, value=one.value, message=one.message, allowed=one.allowed)
            for one in warnings
        ],
        warnings=[one.code for one in warnings],
    )
