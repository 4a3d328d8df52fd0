"""How an expression is refused, and how its evaluation is stopped."""

from __future__ import annotations

from typing import Any, ClassVar

from registry.errors import FieldError, Invalid


class ExpressionError(Invalid):
    """The text is not a valid expression.

    ``code`` is stable (``expression.unknown_name``), ``message`` is a sentence for a person,
    ``value`` the text of the expression, ``allowed`` what would be right, where that can be listed.
    """

    default_code: ClassVar[str] = "expression.invalid"

    def __init__(self, code: str, message: str, value: object, allowed: Any = None) -> None:
        error = FieldError(field="expression", message=message, value=value, allowed=allowed)
        super().__init__(message, code=code, errors=[error])
        self.message = message
        self.value = value
        self.allowed = allowed

    def at(self, field: str) -> Invalid:
        """Return the same error for the field of a request (``bindings.0.expression``)."""
        return Invalid.field(field, self.value, self.message, allowed=self.allowed, code=self.code)


class EvaluationStopped(Exception):
    """An evaluation reached a limit or met a value that is not JSON; becomes reason ERROR."""
