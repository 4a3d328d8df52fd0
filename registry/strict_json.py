"""JSON as the API takes it: what could mean two things is refused by name.

Refused: duplicate keys, NaN and infinities, NUL, lone surrogates, integers beyond ±2^53 and
nesting deeper than 32. Key order is kept. Knows neither Django nor Celery.
"""

from __future__ import annotations

import json
from typing import Any

from registry.errors import FieldError, Malformed

MAX_DEPTH = 32
_LARGEST_INTEGER = 2**53


def _refuse(message: str, *, field: str = "", value: object = None, code: str) -> Malformed:
    return Malformed(
        message,
        code=code,
        errors=[FieldError(field=field or "(body)", value=value, message=message)],
    )


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _refuse(
                f"The key {key!r} stands twice in one object.",
                field=key,
                code="json.duplicate_key",
            )
        result[key] = value
    return result


def _constant(name: str) -> Any:
    raise _refuse(f"{name} is not a JSON number.", value=name, code="json.not_a_number")


def _integer(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > _LARGEST_INTEGER:
        raise _refuse(
            "An integer lies beyond ±2^53, where readers disagree about its value.",
            value=text,
            code="json.integer_too_large",
        )
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _refuse("A number is too large to be read.", value=text, code="json.number_too_large")
    return value


def _refuse_depth(text: str) -> None:
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
                raise _refuse(f"Nested deeper than {MAX_DEPTH}.", code="json.too_deep")
        elif character in "]}":
            depth -= 1


def check_text(text: str, *, field: str = "") -> str:
    """Return ``text``, or raise Malformed where it holds NUL or a lone surrogate."""
    if "\x00" in text:
        raise _refuse("A text holds a NUL character.", field=field, value=text, code="json.nul")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise _refuse(
                "A text holds half of a surrogate pair.",
                field=field,
                value=text,
                code="json.lone_surrogate",
            ) from error
    return text


def _check(value: Any, path: str) -> None:
    if isinstance(value, str):
        check_text(value, field=path)
    elif isinstance(value, dict):
        for key, member in value.items():
            check_text(key, field=path)
            _check(member, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for position, member in enumerate(value):
            _check(member, f"{path}.{position}" if path else str(position))


def loads(content: bytes | str) -> Any:
    """Return the JSON value of ``content``.

    Raises Malformed, whose code and sentence name what is wrong and where.
    """
    if isinstance(content, bytes):
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _refuse(
                f"The body is not UTF-8: byte {error.start}.", code="json.not_utf8"
            ) from error
    else:
        text = content
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _refuse_depth(text)
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
            f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.",
            code="json.syntax",
        ) from error
    _check(value, "")
    return value
