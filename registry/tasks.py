"""The registry's housekeeping."""

from __future__ import annotations

from celery import shared_task

from registry.idempotency import forget_old_records


@shared_task(name="registry.forget_old_idempotency_records")
def forget_old_idempotency_records(**_: object) -> None:
    """Remove answers that no retry may ask for any more."""
    forget_old_records()
