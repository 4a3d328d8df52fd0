"""JSON as the API takes it: what could mean two things is refused by name.

Refused: duplicate keys, NaN and infinities, NUL, lone surrogates, integers beyond ±2^53 and
nesting deeper than 40. Key order is kept. Knows neither Django nor Celery.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from registry.errors import FieldError, Malformed

# A context's own levels, and those of what it stands in
MAX_DEPTH = 40
_LARGEST_INTEGER = 2**53


def _refuse(
    message: str, *, field: str = "", value: object = None, allowed: object = None, code: str
) -> Malformed:
    return Malformed(
        message,
        code=code,
        errors=[FieldError(field=field or "(body)", value=value, message=message, allowed=allowed)],
    )


@dataclass(frozen=True, slots=True)
class _Refused:
    """Stands where a value was read that is refused, until its path is known."""

    message: str
    value: str
    allowed: object
    code: str


def _pairs(pairs: list[tuple[str, Any]]) -> Any:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            return _Refused(
                f"The key {key!r} stands twice in one object.",
                key,
                "each key once",
                "json.duplicate_key",
            )
        result[key] = value
    return result


def _constant(name: str) -> Any:
    return _Refused(f"{name} is not a JSON number.", name, "a finite number", "json.not_a_number")


def _integer(text: str) -> Any:
    if len(text) > 20 or abs(int(text)) > _LARGEST_INTEGER:
        return _Refused(
            "An integer lies beyond ±2^53, where readers disagree about its value.",
            text,
            {"minimum": -_LARGEST_INTEGER, "maximum": _LARGEST_INTEGER},
            "json.integer_too_large",
        )
    return int(text)


def _float(text: str) -> Any:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        return _Refused(
            "A number is too large to be read.",
            text,
            "a number that a double can hold",
            "json.number_too_large",
        )
    return value


def _refuse_depth(text: str, field: str) -> None:
    depth = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise _refuse(
                    f"Nested deeper than {MAX_DEPTH}.",
                    field=field,
                    allowed={"maximum": MAX_DEPTH},
                    code="json.too_deep",
                )
        elif character in "]}":
            depth -= 1


def check_text(text: str, *, field: str = "") -> str:
    """Return ``text``, or raise Malformed where it holds NUL or a lone surrogate."""
    if "\x00" in text:
        raise _refuse(
            "A text holds a NUL character.",
            field=field,
            value=text,
            allowed="text without U+0000",
            code="json.nul",
        )
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise _refuse(
                "A text holds half of a surrogate pair.",
                field=field,
                value=text,
                allowed="Unicode text",
                code="json.lone_surrogate",
            ) from error
    return text


def _check(value: Any, path: str) -> None:
    if isinstance(value, str):
        check_text(value, field=path)
    elif isinstance(value, _Refused):
        raise _refuse(
            value.message, field=path, value=value.value, allowed=value.allowed, code=value.code
        )
    elif isinstance(value, dict):
        for key, member in value.items():
            check_text(key, field=path)
            _check(member, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for position, member in enumerate(value):
            _check(member, f"{path}.{position}" if path else str(position))


def loads(content: bytes | str, *, field: str = "") -> Any:
    """Return the JSON value of ``content``; ``field`` is where it stands in the request.

    Raises Malformed, whose code and sentence name what is wrong and where.
    """
    what = field or "body"
    if isinstance(content, bytes):
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _refuse(
                f"The {what} is not UTF-8: byte {error.start}.",
                field=field,
                allowed="UTF-8",
                code="json.not_utf8",
            ) from error
    else:
        text = content
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _refuse_depth(text, field)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_pairs,
            parse_constant=_constant,
            parse_int=_integer,
            parse_float=_float,
        )
    except json.JSONDecodeError as error:
        raise _refuse(
            f"The {what} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.",
            field=field,
            value=text,
            allowed="JSON (RFC 8259)",
            code="json.syntax",
        ) from error
    _check(value, field)
    return value
