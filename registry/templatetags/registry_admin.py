"""What the admin's templates show of values, and the latest changes of the audit log."""

from __future__ import annotations

import json
from typing import Any

from django import template

from registry.models import AuditEvent

register = template.Library()

_SHOWN_DIGITS = 12
_LONGEST_IN_SECONDS = 90
_LONGEST_IN_MINUTES = 120


@register.filter
def pretty_json(value: Any) -> str:
    """Return a JSON value, or text that is JSON, for people to read."""
    if isinstance(value, str):
        value = json.loads(value)
    return json.dumps(value, indent=2, ensure_ascii=False)


@register.filter
def in_json(value: Any) -> str:
    """Return a JSON value in one line."""
    return json.dumps(value, ensure_ascii=False)


@register.filter
def short_digest(digest: str) -> str:
    """Return the beginning of a digest, enough to tell two apart by eye."""
    return digest.removeprefix("sha256:")[:_SHOWN_DIGITS]


@register.filter
def member(value: dict[str, Any], key: object) -> Any:
    """Return a member of an object, or None."""
    return value.get(str(key))


@register.filter
def setting(value: Any) -> Any:
    """Return the value of a setting as a person says it."""
    if value is None:
        return "not set"
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


@register.filter
def duration(seconds: int) -> str:
    """Return an estimated time as a person says it."""
    if seconds < _LONGEST_IN_SECONDS:
        return f"about {seconds} s"
    minutes = round(seconds / 60)
    return (
        f"about {minutes} min" if minutes < _LONGEST_IN_MINUTES else f"about {minutes / 60:.1f} h"
    )


@register.simple_tag
def latest_changes(count: int = 10) -> list[AuditEvent]:
    """Return the newest rows of the audit log."""
    return list(AuditEvent.objects.order_by("-id")[:count])
