"""How many new questions a key may ask: each leaves a row for ever.

A question that was asked before, by whomever, is never counted. The counts are in PostgreSQL, in
the transaction that stores the question's vector: neither a restart nor a flushed Redis loses them.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.utils import timezone

from registry.errors import TooMany
from retrieval.models import NewQuestions

LIMIT_REACHED = "questions.limit_reached"
_KEPT = timedelta(days=2)


class Used(NamedTuple):
    """How many new questions an asker has asked in an hour and in a day."""

    of_hour: int
    of_day: int


@dataclass(frozen=True, slots=True)
class Room:
    """What an asker may ask in this hour and this day; without an API key, as much as it likes."""

    asker: uuid.UUID | None
    hour: datetime
    day: datetime

    @classmethod
    def of(cls, asker: uuid.UUID | None) -> Room:
        hour = timezone.now().replace(minute=0, second=0, microsecond=0)
        return cls(asker, hour, hour.replace(hour=0))

    @property
    def arguments(self) -> tuple[uuid.UUID | None, datetime, datetime]:
        """What the database's functions take."""
        return self.asker, self.hour, self.day

    @property
    def limits(self) -> tuple[int | None, int | None]:
        """How many new questions an hour and a day may have; None: any number."""
        return settings.NEW_QUESTIONS_PER_HOUR or None, settings.NEW_QUESTIONS_PER_DAY or None

    def require(self, used: Used) -> None:
        """Raise TooMany where no new question is left."""
        if self.asker is None:
            return
        of_hour, of_day = self.limits
        for limit, asked, window, ends in (
            (of_hour, used.of_hour, "hour", self.hour + timedelta(hours=1)),
            (of_day, used.of_day, "day", self.day + timedelta(days=1)),
        ):
            if limit is not None and asked >= limit:
                raise TooMany(
                    f"This key has asked {limit} new questions this {window}. Questions that "
                    "were asked before are answered all the same.",
                    code=LIMIT_REACHED,
                    retry_after=int((ends - timezone.now()).total_seconds()) + 1,
                    limit=limit,
                    window=window,
                )


def forget_old_counts() -> int:
    """Remove counts that no limit looks at any more; returns how many."""
    return NewQuestions.objects.filter(hour__lt=timezone.now() - _KEPT).delete()[0]
