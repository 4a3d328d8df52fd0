"""The life of a build: asked for, started, worked off in pieces, sealed.

One build per knowledge base at a time. Everything a build needs stands in PostgreSQL; a Celery
message is only a hint that there may be work. A change that is accepted bumps the knowledge
base's ``content_revision`` in its own transaction; a build notes how far it looked, and whoever
ends it sees whether more has come since.

    request_build → start_build → (retrieval.pieces, by many workers) → finish_build
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q
from django.utils import timezone

from registry.errors import NotFound
from retrieval.chunking import Chunking
from retrieval.claims import CRASHED
from retrieval.digests import snapshot_digest
from retrieval.extractor import installed_recipe
from retrieval.hints import send_hint
from retrieval.models import (
    BuildPiece,
    Document,
    DocumentRevision,
    IndexedDocument,
    IndexSnapshot,
    KnowledgeBase,
    SnapshotMember,
)

logger = logging.getLogger("retrieval.indexing")

# Starts a build and ends it where it is small; sent for every change, in a queue of its own.
START_TASK = "retrieval.start_build"
# Takes a turn at a build that is not small.
BUILD_TASK = "retrieval.build"
# Up to here, in documents and bytes of theirs, what a build waits for is soon done.
SMALL_DOCUMENTS = 10
SMALL_BYTES = 500_000
# Of the failed documents that a build that was held back names.
_MOST_NAMED = 5


def request_build(base: KnowledgeBase) -> None:
    """Note, in the caller's transaction, that ``base`` changed; a build follows the commit.

    The caller holds the row locked. The knowledge base shows a pending build from that very
    commit on.
    """
    KnowledgeBase.objects.filter(pk=base.pk).update(content_revision=F("content_revision") + 1)
    hint_build(base.pk)


def hint_build(knowledge_base_id: uuid.UUID) -> None:
    """Tell the workers after commit that a knowledge base may have work."""
    send_hint(START_TASK, knowledge_base_id=str(knowledge_base_id))


def start_build(knowledge_base_id: uuid.UUID) -> IndexSnapshot | None:
    """Start the next build where one is due, and return the building snapshot, if any.

    A running build whose chunking or model is no longer wanted is cancelled first: the newer
    configuration takes over, and what was embedded stays to be shared. Changes of documents wait
    for the running build to end.
    """
    with transaction.atomic():
        _wait_for_the_disk()
        base = (
            KnowledgeBase.objects.select_for_update(of=("self",))
            .select_related("model")
            .filter(pk=knowledge_base_id)
            .first()
        )
        if base is None or base.build_paused:
            return None
        running = IndexSnapshot.objects.filter(knowledge_base=base, state="building").first()
        recipe = _chunking(base).recipe
        if running is not None:
            if running.chunking == recipe and running.model_id == base.model_id:
                return running
            end_build(running, state="cancelled", detail="A newer configuration took over.")
        elif base.content_revision == base.settled_revision:
            return None
        base.last_snapshot_number += 1
        base.save(update_fields=["last_snapshot_number"])
        snapshot = IndexSnapshot.objects.create(
            knowledge_base=base,
            number=base.last_snapshot_number,
            model=base.model,
            chunking=recipe,
            content_revision=base.content_revision,
        )
        _plan(snapshot)
        if not is_small(snapshot):
            for _ in range(settings.BUILD_PARALLELISM):
                send_hint(BUILD_TASK, knowledge_base_id=str(base.pk))
    logger.info(
        "build.started knowledge_base=%s snapshot=%s pieces=%s",
        base.id,
        snapshot.number,
        snapshot.pieces.count(),
    )
    return snapshot


def _wait_for_the_disk() -> None:
    """Let this transaction's commit last, also inside work that may be lost and done again."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL synchronous_commit TO DEFAULT")


def _chunking(base: KnowledgeBase) -> Chunking:
    return Chunking(
        strategy=base.chunking_strategy, size=base.chunk_size, overlap=base.chunk_overlap
    )


def _plan(snapshot: IndexSnapshot) -> None:
    """Freeze what this build holds: one piece per living, enabled document, newest revision.

    A document that its chunking (its own, or that of the base) and the model have already indexed
    is done at once, unless it shall be read anew.
    """
    own = [
        stored
        for stored in Document.objects.filter(
            knowledge_base=snapshot.knowledge_base_id, deleted_at=None
        )
        .order_by("chunking")
        .values_list("chunking", flat=True)
        .distinct()
        if stored is not None
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO retrieval_buildpiece
                (snapshot_id, document_id, revision_id, name, metadata, chunking, state,
                 indexed_document_id, chunks_done, attempts, holder, error_code, error)
            SELECT %(snapshot)s, d.id, r.id, d.name, d.metadata,
                   COALESCE(o.recipe, %(chunking)s),
                   CASE WHEN i.id IS NULL THEN 'waiting' ELSE 'done' END,
                   i.id, COALESCE(i.chunk_count, 0), 0, '', '', ''
            FROM retrieval_document AS d
            LEFT JOIN unnest(%(own)s::text[], %(recipes)s::text[]) AS o(chunking, recipe)
                ON o.chunking = d.chunking
            JOIN LATERAL (
                SELECT id FROM retrieval_documentrevision
                WHERE document_id = d.id AND content IS NOT NULL
                ORDER BY number DESC LIMIT 1
            ) AS r ON TRUE
            LEFT JOIN LATERAL (
                SELECT i.id, i.chunk_count
                FROM retrieval_extraction AS e
                JOIN retrieval_indexeddocument AS i ON i.extraction_id = e.id
                WHERE e.id = (
                    SELECT id FROM retrieval_extraction
                    WHERE revision_id = r.id AND status = 'sealed'
                    ORDER BY id DESC LIMIT 1
                )
                AND i.sealed AND i.model_id = %(model)s
                AND i.chunking = COALESCE(o.recipe, %(chunking)s)
                AND NOT EXISTS (
                    SELECT 1 FROM retrieval_extraction
                    WHERE revision_id = r.id AND status = 'pending' AND recipe = %(recipe)s
                )
                ORDER BY i.id LIMIT 1
            ) AS i ON TRUE
            WHERE d.knowledge_base_id = %(base)s AND d.enabled AND d.deleted_at IS NULL
            ORDER BY d.name
            """,
            {
                "snapshot": snapshot.pk,
                "chunking": snapshot.chunking,
                "own": own,
                "recipes": [Chunking.from_stored(chunking).recipe for chunking in own],
                "model": snapshot.model_id,
                "base": snapshot.knowledge_base_id,
                "recipe": installed_recipe(),
            },
        )


def is_small(snapshot: IndexSnapshot) -> bool:
    """Tell whether what a running build waits for is soon done."""
    waiting = snapshot.pieces.filter(state="waiting").values_list("revision__size", flat=True)
    sizes = list(waiting.order_by()[: SMALL_DOCUMENTS + 1])
    return len(sizes) <= SMALL_DOCUMENTS and sum(sizes) <= SMALL_BYTES


def is_still_wanted(snapshot: IndexSnapshot) -> bool:
    """Tell, without a lock, whether a running build has the chunking and model that are set now."""
    base = KnowledgeBase.objects.filter(pk=snapshot.knowledge_base_id).first()
    return (
        base is not None
        and base.model_id == snapshot.model_id
        and _chunking(base).recipe == snapshot.chunking
    )


def finish_build(snapshot_id: int) -> bool:
    """Seal the snapshot where all its pieces have ended, and make it current.

    Returns whether the build has ended; a paused one has not. A build equal to the current
    snapshot ends ``unchanged``; one with failures ends ``failed`` where the knowledge base holds
    such builds back. Sealing and switching are one transaction under the knowledge base's lock.
    """
    with transaction.atomic():
        _wait_for_the_disk()
        snapshot = IndexSnapshot.objects.filter(pk=snapshot_id).first()
        if snapshot is None:
            return True
        base = (
            KnowledgeBase.objects.select_for_update(of=("self",))
            .select_related("current_snapshot")
            .filter(pk=snapshot.knowledge_base_id)
            .first()
        )
        snapshot = IndexSnapshot.objects.select_for_update().filter(pk=snapshot_id).first()
        if base is None or snapshot is None or snapshot.state != "building":
            return True
        if base.build_paused or snapshot.pieces.filter(state="waiting").exists():
            return False
        _seal(base, snapshot)
        more = KnowledgeBase.objects.filter(pk=base.pk).exclude(
            content_revision=F("settled_revision")
        )
        if more.exists():
            hint_build(base.pk)
    logger.info(
        "build.ended knowledge_base=%s snapshot=%s state=%s documents=%s failed=%s",
        base.id,
        snapshot.number,
        snapshot.state,
        snapshot.document_count,
        snapshot.failed_count,
    )
    return True


def _seal(base: KnowledgeBase, snapshot: IndexSnapshot) -> None:
    pieces = list(
        snapshot.pieces.filter(state="done")
        .select_related("indexed_document", "revision")
        .order_by("document_id")
    )
    digest = snapshot_digest(
        (
            str(piece.document_id),
            piece.name,
            piece.revision.number,
            piece.metadata,
            _indexed(piece).digest,
        )
        for piece in pieces
    )
    snapshot.document_count = len(pieces)
    snapshot.chunk_count = sum(_indexed(piece).chunk_count for piece in pieces)
    failed = snapshot.pieces.exclude(error_code="")
    snapshot.failed_count = failed.count()
    snapshot.crashed = [
        str(document)
        for document in failed.filter(error_code=CRASHED).values_list("document_id", flat=True)
    ]
    if snapshot.failed_count and base.failure_policy == KnowledgeBase.FailurePolicy.HOLD_BACK:
        end_build(snapshot, state="failed", detail=_why_held_back(snapshot))
        return
    current = base.current_snapshot
    if current is not None and current.digest == digest and current.model_id == snapshot.model_id:
        end_build(snapshot, state="unchanged", detail="Equal to the current snapshot.")
        return
    SnapshotMember.objects.bulk_create(
        (
            SnapshotMember(
                snapshot=snapshot,
                indexed_document_id=_indexed(piece).pk,
                document_id=piece.document_id,
                name=piece.name,
                revision_number=piece.revision.number,
                metadata=piece.metadata,
            )
            for piece in pieces
        ),
        batch_size=1000,
    )
    snapshot.digest = digest
    end_build(snapshot, state="ready", detail="")
    KnowledgeBase.objects.filter(pk=base.pk).update(current_snapshot=snapshot)


def _why_held_back(snapshot: IndexSnapshot) -> str:
    failed = snapshot.pieces.exclude(error_code="").order_by("name")
    named = [f"{piece.name} ({piece.error_code})" for piece in failed[:_MOST_NAMED]]
    if snapshot.failed_count > _MOST_NAMED:
        named.append(f"and {snapshot.failed_count - _MOST_NAMED} more")
    noun = "document" if snapshot.failed_count == 1 else "documents"
    return (
        f"Held back: {snapshot.failed_count} {noun} failed, and the knowledge base holds such "
        f"builds back. {', '.join(named)}."
    )


def _indexed(piece: BuildPiece) -> IndexedDocument:
    if piece.indexed_document is None:
        raise RuntimeError(f"piece {piece.pk} is done without an indexed document")
    return piece.indexed_document


def end_build(snapshot: IndexSnapshot, *, state: str, detail: str) -> None:
    """Give a building snapshot its last state; the changes it looked at are settled."""
    snapshot.state = state
    snapshot.detail = detail
    snapshot.ended_at = timezone.now()
    snapshot.save()
    BuildPiece.objects.filter(snapshot=snapshot).delete()
    base = KnowledgeBase.objects.get(pk=snapshot.knowledge_base_id)
    base.settled_revision = max(base.settled_revision, snapshot.content_revision)
    if state in {"ready", "unchanged"}:
        base.shown_revision = max(base.shown_revision, snapshot.content_revision)
    # Only what is due or running is paused: nobody would see that a base at rest is.
    base.build_paused &= base.settled_revision != base.content_revision
    base.save(update_fields=["settled_revision", "shown_revision", "build_paused"])


def find_snapshot(base: KnowledgeBase, number: int) -> IndexSnapshot:
    """Return a snapshot by its number. Raises NotFound."""
    snapshot = IndexSnapshot.objects.filter(knowledge_base=base, number=number).first()
    if snapshot is None:
        raise NotFound(f"{base.name} has no snapshot {number}.", code="snapshot.not_found")
    return snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Outdated:
    """How far the current snapshot lies behind the accepted changes."""

    changes: int
    building: bool


def outdated(base: KnowledgeBase) -> Outdated | None:
    """Return how outdated the current snapshot is, or None where it shows every change."""
    running = IndexSnapshot.objects.filter(knowledge_base=base, state="building").exists()
    behind = base.content_revision - base.shown_revision
    if not running and behind == 0 and base.current_snapshot_id is not None:
        return None
    return Outdated(changes=behind, building=running)


def due_knowledge_bases() -> list[uuid.UUID]:
    """Return the knowledge bases that have work: a build due, running or ready to be sealed."""
    due = KnowledgeBase.objects.filter(
        ~Q(content_revision=F("settled_revision")) | Q(snapshots__state="building"),
        build_paused=False,
    )
    return list(due.values_list("pk", flat=True).distinct())


def newest_revision(document: Document) -> DocumentRevision:
    """Return the newest revision of ``document``."""
    return document.revisions.order_by("-number")[:1].get()
