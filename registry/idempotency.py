"""Writes that may be sent twice: the second one gets the first one's answer.

The record is inserted in the use case's own transaction, so a change and its answer are kept
together or not at all; the unique violation is the duplicate.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from registry.errors import Conflict, Invalid, RegistryError
from registry.fields import dump_received
from registry.models import IdempotencyRecord

KEPT = timedelta(hours=24)
_LONGEST_KEY = 255

Answer = tuple[int, Any]


def answer_once(
    *,
    api_key: uuid.UUID,
    key: str,
    request_digest: str,
    work: Callable[[], Answer],
) -> Answer:
    """Run ``work`` and keep its (status, JSON); a repeat gets that answer and does nothing.

    Raises Invalid for an over-long key and Conflict (``idempotency.key_reused``) where the key
    came with another request. Errors of ``work`` are not kept: the request may be tried again.
    """
    if not 0 < len(key) <= _LONGEST_KEY:
        raise Invalid.field(
            "Idempotency-Key",
            key,
            f"must have 1 to {_LONGEST_KEY} characters",
            allowed={"minLength": 1, "maxLength": _LONGEST_KEY},
        )
    kept = _kept(api_key, key, request_digest)
    if kept is not None:
        return kept
    try:
        with transaction.atomic():
            status, body = work()
            _records(api_key, key).filter(created_at__lte=timezone.now() - KEPT).delete()
            IdempotencyRecord.objects.create(
                api_key_id=api_key,
                key=key,
                request_digest=request_digest,
                status=status,
                response=dump_received(body),
            )
    except (IntegrityError, RegistryError) as error:
        if isinstance(error, IntegrityError) and "idempotency_key_once" not in str(error):
            raise
        # A twin that ran at the same time may have ended first, and made this one impossible.
        kept = _kept(api_key, key, request_digest)
        if kept is None:
            raise
        return kept
    return status, body


def _records(api_key: uuid.UUID, key: str) -> QuerySet[IdempotencyRecord]:
    return IdempotencyRecord.objects.filter(api_key_id=api_key, key=key)


def _kept(api_key: uuid.UUID, key: str, request_digest: str) -> Answer | None:
    record = _records(api_key, key).filter(created_at__gt=timezone.now() - KEPT).first()
    if record is None:
        return None
    if record.request_digest != request_digest:
        raise Conflict(
            "This Idempotency-Key came with another request before.",
            code="idempotency.key_reused",
        )
    return record.status, json.loads(record.response)


def forget_old_records() -> int:
    """Delete the records that are over 24 hours old; returns how many."""
    deleted, _ = IdempotencyRecord.objects.filter(created_at__lt=timezone.now() - KEPT).delete()
    return deleted
