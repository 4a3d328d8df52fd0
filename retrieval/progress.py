"""How far the builds of knowledge bases are, as people see it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, Sum

from retrieval.models import IndexSnapshot, KnowledgeBase


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

    def as_json(self) -> dict[str, Any]:
        share = self.done / self.documents if self.documents else 0.0
        return {
            "snapshot": self.snapshot,
            "state": self.state,
            "progress": {
                "documents": self.documents,
                "done": self.done,
                "failed": self.failed,
                "chunks": self.chunks,
                "percent": round(100 * share, 1),
            },
            "paused": self.paused,
        }


def build_status(base: KnowledgeBase) -> BuildStatus | None:
    """Return the build that is due or running; None when all accepted changes are settled."""
    return build_statuses([base])[base.pk]


def build_statuses(bases: Sequence[KnowledgeBase]) -> dict[uuid.UUID, BuildStatus | None]:
    """Return the build that is due or running of each base, in one query."""
    running = {
        snapshot.knowledge_base_id: snapshot
        for snapshot in IndexSnapshot.objects.filter(
            knowledge_base__in=[base.pk for base in bases], state="building"
        ).annotate(
            documents=Count("pieces"),
            done=Count("pieces", filter=~Q(pieces__state="waiting")),
            failed=Count("pieces", filter=~Q(pieces__error_code="")),
            chunks=Sum("pieces__chunks_done", default=0),
        )
    }
    return {base.pk: _status(base, running.get(base.pk)) for base in bases}


def _status(base: KnowledgeBase, running: Any) -> BuildStatus | None:
    if running is not None:
        return BuildStatus(
            snapshot=running.number,
            state="building",
            paused=base.build_paused,
            documents=running.documents,
            done=running.done,
            failed=running.failed,
            chunks=running.chunks,
        )
    if base.content_revision == base.settled_revision:
        return None
    return BuildStatus(
        snapshot=base.last_snapshot_number + 1, state="pending", paused=base.build_paused
    )
