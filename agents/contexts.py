"""The context of a request: the JSON object that describes a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from registry.errors import Invalid
from registry.fields import dump_received


def read_context(
    body: Mapping[str, Any], field: str = "context", *, required: bool = True
) -> dict[str, Any]:
    """Return the context in ``body``: a JSON object of at most 64 KB.

    Nesting, duplicate keys and numbers are looked at where the body's JSON is read. Raises
    Invalid naming the field and what is allowed.
    """
    context = body.get(field, None if required else {})
    if context is None and not required:
        return {}
    if not isinstance(context, dict):
        raise Invalid.field(field, context, "must be a JSON object", allowed="object")
    if len(dump_received(context).encode()) > settings.MAX_CONTEXT_BYTES:
        raise Invalid.field(
            field,
            None,
            f"is over {settings.MAX_CONTEXT_BYTES // 1024} KB",
            allowed=f"at most {settings.MAX_CONTEXT_BYTES} bytes of UTF-8",
        )
    return context
