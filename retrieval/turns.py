"""Whose piece a worker takes next: small builds first, large ones in turns.

A build is small when what it waits for is soon done, as after an edit of one document. Messages
for large builds wait in a queue of their own, so that an edit's is read at once; and a worker in
the middle of a large build looks in PostgreSQL between two pieces, and every few seconds within
a long one, for small builds of other knowledge bases. Each gets all it needs before the large
build goes on, and between two such looks the large build always gets further: neither starves.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable

from django.db import connection

from retrieval.claims import claim_piece, redoable
from retrieval.hints import send_hint
from retrieval.indexing import (
    BUILD_TASK,
    SMALL_BYTES,
    SMALL_DOCUMENTS,
    START_TASK,
    finish_build,
    is_small,
    is_still_wanted,
    start_build,
)
from retrieval.models import IndexSnapshot, KnowledgeBase
from retrieval.pieces import work_on
from retrieval.progress import build_status

logger = logging.getLogger("retrieval.turns")

# Large builds give way to each other after this long.
TURN_SECONDS = 20.0
# How often a worker in the middle of a turn looks for something more urgent.
_LOOK_SECONDS = 1.0

_SMALL_BUILDS = """
SELECT k.id FROM retrieval_knowledgebase AS k
LEFT JOIN retrieval_indexsnapshot AS s ON s.knowledge_base_id = k.id AND s.state = 'building'
LEFT JOIN LATERAL (
    SELECT count(*) AS pieces, COALESCE(sum(r.size), 0) AS bytes,
           count(*) FILTER (WHERE p.leased_until IS NULL OR p.leased_until < now()) AS free
    FROM (
        SELECT revision_id, leased_until FROM retrieval_buildpiece
        WHERE snapshot_id = s.id AND state = 'waiting' LIMIT %(documents)s + 1
    ) AS p JOIN retrieval_documentrevision AS r ON r.id = p.revision_id
) AS waiting ON TRUE
WHERE NOT k.build_paused AND k.id <> %(but)s
AND CASE WHEN s.id IS NULL THEN k.content_revision <> k.settled_revision
    ELSE waiting.pieces <= %(documents)s AND waiting.bytes <= %(bytes)s
        AND (waiting.free > 0 OR waiting.pieces = 0)
    END
ORDER BY waiting.pieces, k.id
"""


def work_off_small(base_id: uuid.UUID) -> None:
    """Start what is due for a knowledge base, and work on it until it ends while it is small."""
    with redoable():
        _work_off_small(base_id)


def _work_off_small(base_id: uuid.UUID) -> None:
    snapshot = start_build(base_id)
    while snapshot is not None and is_small(snapshot):
        if not _work_on_next(snapshot) and not finish_build(snapshot.pk):
            return  # others hold the last pieces; whoever ends last seals
        snapshot = start_build(base_id)


def take_turn(base_id: uuid.UUID, *, seconds: float = TURN_SECONDS) -> None:
    """Work on what is due for a knowledge base until nothing is left or the turn is over."""
    with redoable():
        _take_turn(base_id, seconds)


def _take_turn(base_id: uuid.UUID, seconds: float) -> None:
    turn_ends = time.monotonic() + seconds
    look = _Look(but=base_id)
    snapshot = start_build(base_id)
    while snapshot is not None:
        look()
        worked = _work_on_next(snapshot, meanwhile=look)
        if not worked and not finish_build(snapshot.pk):
            return
        if time.monotonic() > turn_ends:
            _log_progress(base_id)
            send_hint(BUILD_TASK, knowledge_base_id=str(base_id))
            return
        if not worked or (look.is_due and not is_still_wanted(snapshot)):
            snapshot = start_build(base_id)


def _work_on_next(snapshot: IndexSnapshot, meanwhile: Callable[[], None] | None = None) -> bool:
    """Work on the next piece that nobody holds; return whether there was one."""
    claim = claim_piece(snapshot.pk)
    if claim is None:
        return False
    work_on(claim, meanwhile=meanwhile)
    return True


class _Look:
    """Looks for small builds elsewhere when it is called, at most once in a while."""

    def __init__(self, *, but: uuid.UUID) -> None:
        self._but = but
        self._next = 0.0

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._next

    def __call__(self) -> None:
        if self.is_due:
            work_off_small_builds(but=self._but)
            self._next = time.monotonic() + _LOOK_SECONDS


def work_off_small_builds(*, but: uuid.UUID) -> None:
    """Work off every small build, one after the other, of other knowledge bases than ``but``."""
    with connection.cursor() as cursor:
        cursor.execute(
            _SMALL_BUILDS, {"documents": SMALL_DOCUMENTS, "bytes": SMALL_BYTES, "but": but}
        )
        found = [row[0] for row in cursor.fetchall()]
    for base_id in found:
        _work_off_small(base_id)


def send_hints(base_ids: list[uuid.UUID]) -> None:
    """Tell the workers of knowledge bases that have work, each by the queue that fits."""
    running = {
        snapshot.knowledge_base_id: snapshot
        for snapshot in IndexSnapshot.objects.filter(knowledge_base__in=base_ids, state="building")
    }
    for base_id in base_ids:
        snapshot = running.get(base_id)
        is_large = snapshot is not None and not is_small(snapshot)
        send_hint(BUILD_TASK if is_large else START_TASK, knowledge_base_id=str(base_id))


def _log_progress(base_id: uuid.UUID) -> None:
    base = KnowledgeBase.objects.filter(pk=base_id).first()
    status = build_status(base) if base is not None else None
    if status is not None:
        logger.info("build.progress knowledge_base=%s %s", base_id, status.as_text())
