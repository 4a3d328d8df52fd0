"""How far the builds of knowledge bases are, as people see it."""

from __future__ import annotations

import math
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, F, Q, Sum
from django.db.models.functions import Now

from retrieval.models import IndexSnapshot, KnowledgeBase

_SNAPSHOT = ("knowledge_base_id", "number", "state", "failed_count", "detail", "ended_at")
_WAITING = Q(pieces__state="waiting")
_HELD = _WAITING & Q(pieces__leased_until__gt=Now())
# Done by this build, not found done when it began
_WORKED = Q(pieces__claimed_at__isnull=False, pieces__ended_at__isnull=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildStatus:
    """A build that is due or running. Counts are documents, but for ``chunks``."""

    snapshot: int
    state: str
    paused: bool
    documents: int = 0
    done: int = 0
    failed: int = 0
    chunks: int = 0
    # None where it is not known: before the first document is done, and while paused
    seconds_left: int | None = None

    @property
    def percent(self) -> float:
        return round(100 * self.done / self.documents, 1) if self.documents else 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "snapshot": self.snapshot,
            "state": self.state,
            "progress": {
                "documents": self.documents,
                "done": self.done,
                "failed": self.failed,
                "chunks": self.chunks,
                "percent": self.percent,
                "secondsLeft": self.seconds_left,
            },
            "paused": self.paused,
        }

    def as_text(self) -> str:
        """Return it as a log line has it."""
        return (
            f"snapshot={self.snapshot} documents={self.done}/{self.documents} "
            f"percent={self.percent} chunks={self.chunks} failed={self.failed} "
            f"seconds_left={self.seconds_left}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBuild:
    """The newest build of a knowledge base, where it has ended."""

    snapshot: int
    state: str
    failed: int
    detail: str
    ended_at: datetime

    def as_json(self) -> dict[str, Any]:
        return {
            "snapshot": self.snapshot,
            "state": self.state,
            "failedDocuments": self.failed,
            "detail": self.detail or None,
            "endedAt": self.ended_at.isoformat(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Builds:
    """``status``: what is due or running, None when all accepted changes are settled.

    ``last`` is None before the first build has ended and while one runs.
    """

    status: BuildStatus | None
    last: LastBuild | None


def build_status(base: KnowledgeBase) -> BuildStatus | None:
    """Return the build that is due or running; None when all accepted changes are settled."""
    return build_statuses([base])[base.pk]


def build_statuses(bases: Sequence[KnowledgeBase]) -> dict[uuid.UUID, BuildStatus | None]:
    """Return the build that is due or running of each base, in one query."""
    return {base_id: builds.status for base_id, builds in builds_of(bases).items()}


def builds_of(bases: Sequence[KnowledgeBase]) -> dict[uuid.UUID, Builds]:
    """Return where the newest build of each base stands, in one query.

    A row for each kind of file in it: a page of text is read in another time than one of PDF.
    """
    newest: dict[uuid.UUID, list[Any]] = defaultdict(list)
    kinds = (
        IndexSnapshot.objects.filter(
            knowledge_base__in=[base.pk for base in bases],
            number=F("knowledge_base__last_snapshot_number"),
        )
        .values(
            *_SNAPSHOT,
            "pieces__revision__media_type",
        )
        .annotate(
            documents=Count("pieces"),
            done=Count("pieces", filter=~Q(pieces__state="waiting")),
            failed=Count("pieces", filter=~Q(pieces__error_code="")),
            chunks=Sum("pieces__chunks_done", default=0),
            held=Count("pieces", filter=_HELD),
            bytes_left=Sum("pieces__revision__size", filter=_WAITING, default=0),
            bytes_done=Sum("pieces__revision__size", filter=_WORKED, default=0),
            time_taken=Sum(
                F("pieces__ended_at") - F("pieces__claimed_at"),
                filter=_WORKED,
                default=timedelta(),
            ),
        )
        .order_by()
    )
    for kind in kinds:
        newest[kind["knowledge_base_id"]].append(kind)
    return {base.pk: _builds(base, newest[base.pk]) for base in bases}


def _builds(base: KnowledgeBase, kinds: Sequence[Any]) -> Builds:
    newest = kinds[0] if kinds else None
    if newest is not None and newest["state"] == "building":
        return Builds(status=_running(base, kinds), last=None)
    status = last = None
    if newest is not None:
        last = LastBuild(
            snapshot=newest["number"],
            state=newest["state"],
            failed=newest["failed_count"],
            detail=newest["detail"],
            ended_at=newest["ended_at"],
        )
    if base.content_revision != base.settled_revision:
        status = BuildStatus(
            snapshot=base.last_snapshot_number + 1, state="pending", paused=base.build_paused
        )
    return Builds(status=status, last=last)


def _running(base: KnowledgeBase, kinds: Sequence[Any]) -> BuildStatus:
    return BuildStatus(
        snapshot=kinds[0]["number"],
        state="building",
        paused=base.build_paused,
        documents=sum(kind["documents"] for kind in kinds),
        done=sum(kind["done"] for kind in kinds),
        failed=sum(kind["failed"] for kind in kinds),
        chunks=sum(kind["chunks"] for kind in kinds),
        seconds_left=None if base.build_paused else _seconds_left(kinds),
    )


def _seconds_left(kinds: Sequence[Any]) -> int | None:
    """Estimate by what the documents that this build has worked off took for their bytes.

    A kind of file of which none is done yet counts as the others on average.
    """
    taken = float(sum(kind["time_taken"].total_seconds() for kind in kinds))
    size = int(sum(kind["bytes_done"] for kind in kinds))
    if not size:
        return None
    seconds: float = sum(
        kind["bytes_left"] * kind["time_taken"].total_seconds() / kind["bytes_done"]
        if kind["bytes_done"]
        else kind["bytes_left"] * taken / size
        for kind in kinds
    )
    workers = max(1, int(sum(kind["held"] for kind in kinds)))
    return math.ceil(seconds / workers)
