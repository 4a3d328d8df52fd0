"""Lists, a page at a time: ``{"results": […], "next": cursor or null}``."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.db import DataError
from django.db.models import Model, Q, QuerySet
from rest_framework.request import Request

from registry.errors import Invalid

DEFAULT_LIMIT = 50
MAX_LIMIT = 1000

M = TypeVar("M", bound=Model)


def limit_of(request: Request) -> int:
    """Return ``?limit=``, 1 to 1000, 50 when not given. Raises Invalid."""
    value = request.query_params.get("limit", str(DEFAULT_LIMIT))
    is_number = value.isascii() and value.isdecimal() and len(value) <= len(str(MAX_LIMIT))
    if not is_number or not 1 <= int(value) <= MAX_LIMIT:
        raise Invalid.field(
            "limit",
            value,
            f"must be a whole number from 1 to {MAX_LIMIT}",
            allowed={"minimum": 1, "maximum": MAX_LIMIT},
        )
    return int(value)


def _encode(values: Sequence[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(values, default=str).encode()).decode().rstrip("=")


def _decode(cursor: str, length: int) -> list[Any]:
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        values = None
    if (
        not isinstance(values, list)
        or len(values) != length
        or not all(isinstance(value, str | int) for value in values)
    ):
        raise _not_a_cursor(cursor)
    return values


def _not_a_cursor(cursor: str | None) -> Invalid:
    return Invalid.field(
        "cursor",
        cursor,
        "is not a cursor of this list",
        allowed="a cursor that this list has given",
    )


def page(
    request: Request,
    rows: QuerySet[M],
    *,
    key: Sequence[str],
    render: Callable[[Sequence[M]], Iterable[Any]],
) -> dict[str, Any]:
    """Return one page of ``rows`` in the order of ``key``, whose values together are unique.

    A name in ``key`` may start with ``-`` for descending. ``render`` gets the rows of the page at
    once, so that what it needs besides is one query. Raises Invalid for a bad limit or cursor.
    """
    limit = limit_of(request)
    cursor = request.query_params.get("cursor")
    if cursor:
        try:
            rows = rows.filter(_after(key, _decode(cursor, len(key))))
            found = list(rows.order_by(*key)[: limit + 1])
        except (ValueError, TypeError, ValidationError, DataError) as error:
            raise _not_a_cursor(cursor) from error
    else:
        found = list(rows.order_by(*key)[: limit + 1])
    shown = found[:limit]
    more = len(found) > limit
    names = [name.lstrip("-") for name in key]
    return {
        "results": list(render(shown)),
        "next": _encode([getattr(shown[-1], name) for name in names]) if more else None,
    }


def _after(key: Sequence[str], values: Sequence[Any]) -> Q:
    """Return the condition "comes after these values" in the order of ``key``."""
    condition = Q()
    equal = Q()
    for name, value in zip(key, values, strict=True):
        field = name.lstrip("-")
        beyond = "lt" if name.startswith("-") else "gt"
        condition |= equal & Q(**{f"{field}__{beyond}": value})
        equal &= Q(**{field: value})
    return condition


def page_of_list(request: Request, items: Sequence[Any]) -> dict[str, Any]:
    """Return one page of a list that is at hand whole; the cursor is a position."""
    limit = limit_of(request)
    cursor = request.query_params.get("cursor")
    start = _decode(cursor, 1)[0] if cursor else 0
    if not isinstance(start, int) or start < 0:
        raise _not_a_cursor(cursor)
    end = start + limit
    return {
        "results": list(items[start:end]),
        "next": _encode([end]) if end < len(items) else None,
    }
