"""The one way to write the audit log."""

from __future__ import annotations

from typing import Any

from django.db import connection

from registry.actors import Actor
from registry.models import AuditEvent


def record(
    *,
    actor: Actor,
    action: str,
    object_type: str,
    object_id: object,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> None:
    """Write one audit row in the transaction of the change itself.

    ``before`` and ``after`` hold what changed as plain JSON; texts of documents are in them as
    digests only. Raises RuntimeError outside a transaction: a change and its row come together.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("audit.record belongs inside the transaction of the change")
    AuditEvent.objects.create(
        actor_kind=actor.kind,
        actor=actor.label[:200],
        action=action,
        object_type=object_type,
        object_id=str(object_id),
        before=before,
        after=after,
    )


def changed(before: dict[str, Any], after: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both sides reduced to the members that differ."""
    keys = [key for key in after if before.get(key) != after[key]]
    return {key: before.get(key) for key in keys}, {key: after[key] for key in keys}
