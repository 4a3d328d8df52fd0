"""Reading values out of a request: each refusal names field, value and what is allowed."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from registry.errors import FieldError, Invalid, NotFound


def refuse_unknown(body: Mapping[str, Any], allowed: Sequence[str], *, prefix: str = "") -> None:
    """Raise Invalid for members that nobody reads: a misspelt one must not pass silently."""
    errors = [
        FieldError(
            field=prefix + key or '""',
            value=body[key],
            message="is not a member of this request",
            allowed=list(allowed),
        )
        for key in body
        if key not in allowed
    ]
    if errors:
        names = ", ".join(error.field for error in errors)
        raise Invalid(f"Unknown: {names}.", code="request.unknown_field", errors=errors)


def text(
    body: Mapping[str, Any],
    field: str,
    *,
    default: str | None = None,
    longest: int = 100_000,
    blank: bool = False,
) -> str:
    """Return a text member. Raises Invalid for another type, a blank or an over-long one."""
    value = body.get(field, default)
    if value is None:
        raise Invalid.field(field, None, "is required", allowed="string", code="request.required")
    if not isinstance(value, str):
        raise Invalid.field(field, value, "must be a text", allowed="string")
    if not blank and not value.strip():
        raise Invalid.field(field, value, "must not be empty", allowed="a text that is not blank")
    if len(value) > longest:
        raise Invalid.field(
            field, value, f"is over {longest} characters", allowed=f"at most {longest} characters"
        )
    return value


def boolean(body: Mapping[str, Any], field: str, *, default: bool) -> bool:
    """Return a boolean member. Raises Invalid for another type."""
    value = body.get(field, default)
    if not isinstance(value, bool):
        raise Invalid.field(field, value, "must be true or false", allowed=[True, False])
    return value


def integer(
    body: Mapping[str, Any], field: str, *, least: int, most: int, default: int | None = None
) -> int | None:
    """Return a whole number from ``least`` to ``most``; null counts as not given.

    1.0 is whole. Raises Invalid for another type or a number outside.
    """
    value = body.get(field)
    if value is None:
        return default
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Invalid.field(
            field,
            value,
            f"must be a whole number from {least} to {most}",
            allowed={"minimum": least, "maximum": most},
        )
    return value


def number(body: Mapping[str, Any], field: str, *, least: float, most: float) -> float | None:
    """Return a number from ``least`` to ``most``, None for null or where it is not given.

    Raises Invalid for another type or a number outside.
    """
    value = body.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise Invalid.field(
            field,
            value,
            f"must be a number from {least} to {most}",
            allowed={"minimum": least, "maximum": most},
        )
    return float(value)


def json_object(body: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return a member that is a JSON object. Raises Invalid for another type, or none."""
    value = body.get(field)
    if not isinstance(value, dict):
        raise Invalid.field(field, value, "must be a JSON object", allowed="object")
    return value


def choice(body: Mapping[str, Any], field: str, allowed: Sequence[str], *, default: str) -> str:
    """Return a text member that is one of ``allowed``. Raises Invalid for any other value."""
    value = body.get(field, default)
    if value not in allowed:
        raise Invalid.field(field, value, "is not a choice", allowed=list(allowed))
    return str(value)


def parse_uuid(value: object, *, field: str) -> uuid.UUID:
    """Return the UUID of a member. Raises Invalid."""
    try:
        return uuid.UUID(value) if isinstance(value, str) else _not_a_uuid(value, field)
    except ValueError:
        return _not_a_uuid(value, field)


def _not_a_uuid(value: object, field: str) -> uuid.UUID:
    raise Invalid.field(field, value, "must be a UUID", allowed="uuid")


def path_uuid(value: str, *, what: str) -> uuid.UUID:
    """Return the UUID of an address; one of another form names nothing, hence NotFound."""
    try:
        return uuid.UUID(value)
    except ValueError as error:
        code = what.replace(" ", "_") + ".not_found"
        raise NotFound(f"There is no {what} {value!r}.", code=code) from error
