"""The context of a request: the JSON object that describes a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from registry.errors import Invalid
from registry.fields import dump_received

MAX_DEPTH = 32


def read_context(
    body: Mapping[str, Any], field: str = "context", *, required: bool = True
) -> dict[str, Any]:
    """Return the context in ``body``: a JSON object of at most 64 KB and 32 levels.

    Duplicate keys, numbers and texts are looked at where the body's JSON is read. Raises Invalid
    naming the field and what is allowed.
    """
    context = body.get(field, None if required else {})
    if context is None and not required:
        return {}
    if not isinstance(context, dict):
        raise Invalid.field(field, context, "must be a JSON object", allowed="object")
    written = dump_received(context)
    if len(written.encode()) > settings.MAX_CONTEXT_BYTES:
        raise Invalid.field(
            field,
            None,
            f"is over {settings.MAX_CONTEXT_BYTES // 1024} KB",
            allowed=f"at most {settings.MAX_CONTEXT_BYTES} bytes of UTF-8",
        )
    if written.count("{") + written.count("[") > MAX_DEPTH and _depth(context) > MAX_DEPTH:
        raise Invalid.field(
            field,
            None,
            f"is nested deeper than {MAX_DEPTH} levels",
            allowed=f"at most {MAX_DEPTH} levels of objects and lists",
        )
    return context


def _depth(value: Any) -> int:
    """Return how many objects and lists stand in one another; what came as JSON has few."""
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0
