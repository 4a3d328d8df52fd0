"""Pruning: what nothing needs any more goes, knowledge base by knowledge base.

A snapshot stays while it is current, pinned by a published version, being built, among the last
few or younger than some days. What no snapshot holds any more follows: indexed documents with
their chunks, readings of documents that a newer one has replaced, and deleted documents with
their revisions. The rules are one statement (``_PLAN``), which a dry run only reads.

Each step is a short transaction under the knowledge base's lock: a publish (``FOR SHARE``) comes
wholly before or wholly after it, and the triggers refuse what is in use all the same.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from registry import audit
from registry.actors import Actor
from registry.errors import NotFound
from retrieval.models import IndexSnapshot, KnowledgeBase, PendingVector, QueryEmbedding
from retrieval.question_limits import forget_old_counts
from retrieval.sizes import SIZE

logger = logging.getLogger("retrieval.pruning")

_SNAPSHOTS_AT_ONCE = 100
_DOCUMENTS_AT_ONCE = 200
# A transaction stops taking further snapshots or documents here: whoever publishes waits for it.
_MEMBERS_AT_ONCE = 20_000
_CHUNKS_AT_ONCE = 5000
_QUESTIONS_AT_ONCE = 5000
_PENDING_VECTORS_KEPT = timedelta(days=1)

_PLAN = """
WITH base AS (
    SELECT id, current_snapshot_id, EXISTS (
        SELECT 1 FROM retrieval_indexsnapshot
        WHERE knowledge_base_id = k.id AND state = 'building'
    ) AS building
    FROM retrieval_knowledgebase AS k WHERE id = %(base)s
), kept_last AS (
    SELECT s.id FROM retrieval_indexsnapshot AS s JOIN base ON base.id = s.knowledge_base_id
    WHERE s.state = 'ready' AND s.id IS DISTINCT FROM base.current_snapshot_id
    ORDER BY s.number DESC LIMIT %(last)s
), newest AS (
    SELECT max(s.number) AS number
    FROM retrieval_indexsnapshot AS s JOIN base ON base.id = s.knowledge_base_id
), doomed AS (
    SELECT s.id, s.number, s.document_count
    FROM retrieval_indexsnapshot AS s JOIN base ON base.id = s.knowledge_base_id
    WHERE s.state <> 'building' AND s.ended_at < %(before)s
      AND s.id IS DISTINCT FROM base.current_snapshot_id
      AND s.number < (SELECT number FROM newest)
      AND s.id NOT IN (SELECT id FROM kept_last)
      AND NOT EXISTS (SELECT 1 FROM retrieval_snapshotpin AS p WHERE p.snapshot_id = s.id)
      AND NOT EXISTS (
        SELECT 1 FROM retrieval_evaluation AS v
        JOIN retrieval_evaluationscore AS c ON c.evaluation_id = v.id
        WHERE v.knowledge_base_id = base.id AND v.state = 'running'
          AND c.snapshot_number = s.number
      )
), documents AS (
    SELECT d.id, d.deleted_at FROM retrieval_document AS d
    JOIN base ON base.id = d.knowledge_base_id
    -- Workers share what they find: while a build runs, nothing that it might find is taken.
    WHERE NOT base.building
), readings AS (
    SELECT e.id, e.status, e.created_at, r.number, d.id AS document_id, d.deleted_at
    FROM documents AS d
    JOIN retrieval_documentrevision AS r ON r.document_id = d.id
    JOIN retrieval_extraction AS e ON e.revision_id = r.id
), loose AS (
    SELECT i.id, i.extraction_id, i.chunk_count, @SIZE@ AS size
    FROM readings AS e JOIN retrieval_indexeddocument AS i ON i.extraction_id = e.id
    WHERE i.created_at < %(before)s AND NOT EXISTS (
        SELECT 1 FROM retrieval_snapshotmember AS m
        WHERE m.indexed_document_id = i.id AND m.snapshot_id NOT IN (SELECT id FROM doomed)
    )
), unused AS (
    SELECT e.* FROM readings AS e
    WHERE NOT EXISTS (
        SELECT 1 FROM retrieval_indexeddocument AS i
        WHERE i.extraction_id = e.id AND i.id NOT IN (SELECT id FROM loose)
    )
), replaced AS (
    SELECT e.id FROM unused AS e
    WHERE e.deleted_at IS NULL AND e.status = 'sealed' AND e.created_at < %(before)s
      AND EXISTS (
        SELECT 1 FROM readings AS newer
        WHERE newer.document_id = e.document_id AND newer.status = 'sealed'
          AND (newer.number, newer.id) > (e.number, e.id)
      )
), gone AS (
    SELECT d.id FROM documents AS d
    WHERE d.deleted_at < %(before)s AND NOT EXISTS (
        SELECT 1 FROM readings AS e
        WHERE e.document_id = d.id AND e.id NOT IN (SELECT id FROM unused)
    )
)
""".replace("@SIZE@", SIZE)
_COUNT = """
SELECT (SELECT array_agg(number ORDER BY number) FROM doomed),
       (SELECT count(*) FROM loose), (SELECT COALESCE(sum(chunk_count), 0) FROM loose),
       (SELECT COALESCE(sum(size), 0) FROM loose), (SELECT count(*) FROM replaced),
       (SELECT array_agg(id) FROM gone),
       (SELECT COALESCE(sum(r.size), 0) FROM retrieval_documentrevision AS r
        WHERE r.document_id IN (SELECT id FROM gone))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """What is kept although nothing pins it: the ``last`` ready snapshots besides the current
    one, and everything younger than ``days``."""

    last: int
    days: int

    @classmethod
    def configured(cls) -> Keep:
        return cls(last=settings.SNAPSHOTS_KEPT_LAST, days=settings.SNAPSHOTS_KEPT_DAYS)

    @property
    def before(self) -> datetime:
        return timezone.now() - timedelta(days=self.days)


@dataclass(slots=True, kw_only=True)
class Pruned:
    """What went of a knowledge base, or would go. ``bytes``: of originals, texts and vectors."""

    knowledge_base: uuid.UUID
    name: str
    snapshots: list[int] = field(default_factory=list)
    indexed_documents: int = 0
    chunks: int = 0
    readings: int = 0
    documents: list[uuid.UUID] = field(default_factory=list)
    bytes: int = 0
    # A build is running, so that documents wait for the next time
    waits: bool = False

    @property
    def something(self) -> bool:
        return bool(self.snapshots or self.indexed_documents or self.readings or self.documents)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedEverywhere:
    """What went, or would go: of knowledge bases, question vectors, vectors of ended builds."""

    bases: list[Pruned]
    questions: int
    pending_vectors: int


def prune(
    *,
    actor: Actor,
    base: KnowledgeBase | None = None,
    keep: Keep | None = None,
    dry_run: bool = False,
    ends: float = float("inf"),
) -> PrunedEverywhere:
    """Prune ``base``, or every knowledge base and what belongs to none.

    ``ends`` (of ``time.monotonic``): no further step is begun after it. A knowledge base that
    cannot be locked in time, or of which something is held in a way that nobody foresaw, is
    logged and left for the next time.
    """
    keep = keep or Keep.configured()
    bases = [base] if base is not None else list(KnowledgeBase.objects.order_by("name"))
    found = []
    for one in bases:
        if dry_run:
            found.append(planned(one, keep))
            continue
        if time.monotonic() > ends:
            break
        try:
            found.append(
                prune_knowledge_base(actor=actor, knowledge_base_id=one.pk, keep=keep, ends=ends)
            )
        except NotFound:
            continue  # deleted meanwhile
        except DatabaseError as error:
            logger.warning("prune.left knowledge_base=%s reason=%s", one.pk, error)
    if base is not None:
        return PrunedEverywhere(bases=found, questions=0, pending_vectors=0)
    if not dry_run:
        forget_old_counts()
    return PrunedEverywhere(
        bases=found,
        questions=prune_questions(dry_run=dry_run, ends=ends),
        pending_vectors=prune_pending_vectors(dry_run=dry_run),
    )


def planned(base: KnowledgeBase, keep: Keep | None = None) -> Pruned:
    """Return what pruning ``base`` now would remove; locks and changes nothing."""
    (row,) = _rows(base.pk, keep or Keep.configured(), _COUNT)
    return Pruned(
        knowledge_base=base.pk,
        name=base.name,
        snapshots=row[0] or [],
        indexed_documents=row[1],
        chunks=int(row[2]),
        bytes=int(row[3] + row[6]),
        readings=row[4],
        documents=row[5] or [],
        waits=_is_building(base.pk),
    )


def prune_knowledge_base(
    *,
    actor: Actor,
    knowledge_base_id: uuid.UUID,
    keep: Keep | None = None,
    ends: float = float("inf"),
) -> Pruned:
    """Remove what nothing needs of a knowledge base, in short transactions, each with its audit row.

    ``ends`` (of ``time.monotonic``): no further step is begun after it. Raises NotFound.
    """
    keep = keep or Keep.configured()
    base = KnowledgeBase.objects.filter(pk=knowledge_base_id).first()
    if base is None:
        raise NotFound(
            f"There is no knowledge base {knowledge_base_id}.", code="knowledge_base.not_found"
        )
    pruned = Pruned(knowledge_base=base.pk, name=base.name, waits=_is_building(base.pk))
    steps: tuple[Callable[[uuid.UUID, Keep, Pruned], dict[str, Any]], ...] = (
        _prune_snapshots,
        _prune_indexed_documents,
        _prune_readings,
        _prune_documents,
    )
    for step in steps:
        while time.monotonic() < ends and _stepped(actor, base.pk, keep, step, pruned):
            pass
    if pruned.something:
        logger.info(
            "pruned knowledge_base=%s snapshots=%s chunks=%s documents=%s bytes=%s",
            base.pk,
            len(pruned.snapshots),
            pruned.chunks,
            len(pruned.documents),
            pruned.bytes,
        )
    return pruned


def prune_questions(*, dry_run: bool = False, ends: float = float("inf")) -> int:
    """Remove the vectors of old questions that no published version was asked; returns how many.

    A version that is asked one of them at this moment keeps it: whoever comes second, waits.
    """
    before = timezone.now() - timedelta(days=settings.QUESTIONS_KEPT_DAYS)
    if dry_run:
        return QueryEmbedding.objects.filter(kept=False, created_at__lt=before).count()
    removed = 0
    while time.monotonic() < ends:
        with connection.cursor() as cursor:
            cursor.execute(
                "DELETE FROM retrieval_queryembedding WHERE id IN ("
                "SELECT id FROM retrieval_queryembedding WHERE NOT kept AND created_at < %s "
                "ORDER BY created_at LIMIT %s FOR UPDATE SKIP LOCKED)",
                [before, _QUESTIONS_AT_ONCE],
            )
            removed += cursor.rowcount
            if cursor.rowcount < _QUESTIONS_AT_ONCE:
                break
    return removed


def prune_pending_vectors(*, dry_run: bool = False) -> int:
    """Remove vectors that builds left when they ended early; returns how many.

    Kept are those of the last day, for a build that may be asked for again, and those made since
    a build by their model began that still runs: they may be of a document it is at.
    """
    may_be_its_own = IndexSnapshot.objects.filter(
        state="building", model=OuterRef("model"), started_at__lte=OuterRef("created_at")
    )
    left = PendingVector.objects.filter(
        ~Exists(may_be_its_own), created_at__lt=timezone.now() - _PENDING_VECTORS_KEPT
    )
    return left.count() if dry_run else left.delete()[0]


def _stepped(
    actor: Actor,
    base_id: uuid.UUID,
    keep: Keep,
    step: Callable[[uuid.UUID, Keep, Pruned], dict[str, Any]],
    pruned: Pruned,
) -> bool:
    """Take one step under the knowledge base's lock; returns whether it found something."""
    with transaction.atomic():
        if not KnowledgeBase.objects.select_for_update(of=("self",)).filter(pk=base_id).exists():
            return False
        done = step(base_id, keep, pruned)
        if done:
            audit.record(
                actor=actor,
                action="knowledge_base.pruned",
                object_type="knowledge_base",
                object_id=base_id,
                after=done,
            )
    return bool(done)


def _prune_snapshots(base_id: uuid.UUID, keep: Keep, pruned: Pruned) -> dict[str, Any]:
    found: dict[int, int] = {}
    members = 0
    for one, number, documents in _rows(
        base_id,
        keep,
        f"SELECT id, number, document_count FROM doomed ORDER BY id LIMIT {_SNAPSHOTS_AT_ONCE}",
    ):
        if found and members + documents > _MEMBERS_AT_ONCE:
            break
        found[one] = number
        members += documents
    ids = _locked("indexsnapshot", found)
    _delete("indexsnapshot", "id", ids)
    _delete("snapshotmember", "snapshot_id", ids)
    numbers = sorted(found[one] for one in ids)
    pruned.snapshots += numbers
    return {"snapshots": numbers} if ids else {}


def _prune_indexed_documents(base_id: uuid.UUID, keep: Keep, pruned: Pruned) -> dict[str, Any]:
    found: dict[int, tuple[int, int]] = {}
    chunks = 0
    for one, count, size in _rows(
        base_id,
        keep,
        "SELECT id, chunk_count, size FROM loose WHERE NOT EXISTS (SELECT 1 FROM "
        "retrieval_snapshotmember WHERE indexed_document_id = loose.id) "
        f"ORDER BY id LIMIT {_DOCUMENTS_AT_ONCE}",
    ):
        if found and chunks + count > _CHUNKS_AT_ONCE:
            break
        found[one] = (count, int(size))
        chunks += count
    ids = _locked("indexeddocument", found)
    _delete("indexeddocument", "id", ids)
    _delete("chunk", "indexed_document_id", ids)
    gone = sum(found[one][0] for one in ids)
    pruned.indexed_documents += len(ids)
    pruned.chunks += gone
    pruned.bytes += sum(found[one][1] for one in ids)
    return {"indexedDocuments": len(ids), "chunks": gone} if ids else {}


def _prune_readings(base_id: uuid.UUID, keep: Keep, pruned: Pruned) -> dict[str, Any]:
    found = _rows(
        base_id, keep, f"{_NOT_INDEXED.format(table='replaced')} LIMIT {_DOCUMENTS_AT_ONCE}"
    )
    ids = _locked("extraction", (one for (one,) in found))
    _delete("extraction", "id", ids)
    pruned.readings += len(ids)
    return {"readings": len(ids)} if ids else {}


_NOT_INDEXED = """
SELECT id FROM {table} WHERE NOT EXISTS (
    SELECT 1 FROM retrieval_indexeddocument WHERE extraction_id = {table}.id
) ORDER BY id
"""


def _prune_documents(base_id: uuid.UUID, keep: Keep, pruned: Pruned) -> dict[str, Any]:
    found = [one for (one,) in _rows(base_id, keep, "SELECT id FROM gone ORDER BY id LIMIT 100")]
    with connection.cursor() as cursor:
        # Revisions first, so that no worker adds an extraction to what is about to go.
        cursor.execute(
            "SELECT id, size FROM retrieval_documentrevision WHERE document_id = ANY(%s) "
            "ORDER BY id FOR UPDATE",
            [found],
        )
        revisions = dict(cursor.fetchall())
        cursor.execute(
            "SELECT e.id, i.id FROM retrieval_extraction AS e LEFT JOIN retrieval_indexeddocument "
            "AS i ON i.extraction_id = e.id WHERE e.revision_id = ANY(%s)",
            [list(revisions)],
        )
        extractions = dict(cursor.fetchall())
    if any(indexed is not None for indexed in extractions.values()):
        return {}  # somebody holds a row of it that the step before had to leave
    _delete("extraction", "id", list(extractions))
    _delete("document", "id", found)
    _delete("documentrevision", "id", list(revisions))
    pruned.documents += found
    pruned.bytes += sum(revisions.values())
    return {"documents": [str(one) for one in found]} if found else {}


def _rows(base_id: uuid.UUID, keep: Keep, statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(
            _PLAN + statement, {"base": base_id, "last": keep.last, "before": keep.before}
        )
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return found


def _locked(table: str, ids: Iterable[int]) -> list[int]:
    """Lock those rows that nobody else holds; the others wait for the next time."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT id FROM retrieval_{table} WHERE id = ANY(%s) ORDER BY id "
            "FOR UPDATE SKIP LOCKED",
            [list(ids)],
        )
        return [one for (one,) in cursor.fetchall()]


def _delete(table: str, column: str, ids: Iterable[object]) -> None:
    """Delete wholes before their parts: foreign keys are deferred, and the triggers want it so."""
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM retrieval_{table} WHERE {column} = ANY(%s)", [list(ids)])


def _is_building(base_id: uuid.UUID) -> bool:
    return IndexSnapshot.objects.filter(knowledge_base=base_id, state="building").exists()
