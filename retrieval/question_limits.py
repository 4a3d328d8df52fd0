"""How many new questions a key may ask: each leaves a row for ever.

A question that was asked before, by whomever, is never counted. The counts are in PostgreSQL, in
the transaction that stores the question's vector: neither a restart nor a flushed Redis loses them.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection
from django.utils import timezone

from registry.errors import TooMany
from retrieval.models import NewQuestions

LIMIT_REACHED = "questions.limit_reached"
_KEPT = timedelta(days=2)

_COUNT = """
INSERT INTO retrieval_newquestions AS n (api_key_id, hour, count) VALUES (%s, %s, 1)
ON CONFLICT (api_key_id, hour) DO UPDATE SET count = n.count + 1
"""
# Of the present hour, and of the present day.
_ASKED = """
SELECT COALESCE(sum(count) FILTER (WHERE hour >= %s), 0), COALESCE(sum(count), 0)
FROM retrieval_newquestions WHERE api_key_id = %s AND hour >= %s
"""


def require_room(asker: uuid.UUID | None) -> None:
    """Raise TooMany where ``asker`` has no new question left; looks before anything is embedded."""
    if asker is not None:
        _require(asker, timezone.now(), room=1)


def count_question(asker: uuid.UUID | None) -> None:
    """Count a new question in the caller's transaction. Raises TooMany, which undoes it."""
    if asker is None:
        return
    now = timezone.now()
    with connection.cursor() as cursor:
        # The row locks out the same key's other new questions until this one is committed.
        cursor.execute(_COUNT, [asker, _hour(now)])
    _require(asker, now, room=0)


def forget_old_counts() -> int:
    """Remove counts that no limit looks at any more; returns how many."""
    return NewQuestions.objects.filter(hour__lt=timezone.now() - _KEPT).delete()[0]


def _require(asker: uuid.UUID, now: datetime, *, room: int) -> None:
    hour, day = _hour(now), _day(now)
    limits = settings.NEW_QUESTIONS_PER_HOUR, settings.NEW_QUESTIONS_PER_DAY
    if not any(limits):
        return
    with connection.cursor() as cursor:
        cursor.execute(_ASKED, [hour, asker, day])
        asked = cursor.fetchone()
    for limit, used, until, window in (
        (limits[0], asked[0], hour + timedelta(hours=1), "hour"),
        (limits[1], asked[1], day + timedelta(days=1), "day"),
    ):
        if limit and used + room > limit:
            raise TooMany(
                f"This key has asked {limit} new questions this {window}. Questions that were "
                "asked before are answered all the same.",
                code=LIMIT_REACHED,
                retry_after=int((until - now).total_seconds()) + 1,
                limit=limit,
                window=window,
            )


def _hour(now: datetime) -> datetime:
    return now.replace(minute=0, second=0, microsecond=0)


def _day(now: datetime) -> datetime:
    return _hour(now).replace(hour=0)
