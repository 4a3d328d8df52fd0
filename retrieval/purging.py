"""Purging: the contents of a document are erased, everywhere and for good; their digests stay.

What a snapshot or a published version holds of the document stays in its place, empty: answers go
on without its passages and say so, and ``verify`` proves the rest. The triggers let exactly this
through (``retrieval.models.Purge``); docs/retention.md lists what a purge cannot reach.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from registry import audit, requests
from registry.access import Access
from registry.actors import Actor
from registry.errors import NotFound
from registry.strict_json import check_text
from retrieval.indexing import hint_build, request_build
from retrieval.knowledge_bases import lock
from retrieval.models import (
    BuildPiece,
    Chunk,
    Document,
    DocumentRevision,
    Extraction,
    IndexSnapshot,
    KnowledgeBase,
    PendingVector,
    Purge,
)

LONGEST_REASON = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Another document with the same bytes: another document, which its own purge erases."""

    document: uuid.UUID
    name: str
    knowledge_base: uuid.UUID
    deleted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgedDocument:
    """What was erased of a document, by whom, when and why."""

    document: Document
    reason: str
    actor: str
    at: datetime
    revisions: tuple[int, ...]
    # Passages in all of its indexed forms
    chunks: int
    copies: tuple[Copy, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "id": str(self.document.pk),
            "name": self.document.name,
            "reason": self.reason,
            "purgedBy": self.actor,
            "purgedAt": self.at.isoformat(),
            "revisions": list(self.revisions),
            "chunks": self.chunks,
            "copies": [
                {
                    "id": str(copy.document),
                    "name": copy.name,
                    "knowledgeBase": str(copy.knowledge_base),
                    "deleted": copy.deleted,
                }
                for copy in self.copies
            ],
        }


def purge_document(
    *,
    actor: Actor,
    base: KnowledgeBase,
    document_id: uuid.UUID,
    reason: str,
    access: Access | None = None,
) -> PurgedDocument:
    """Erase all revisions of a document, also of a deleted one; a living one is deleted with it.

    Bytes, segments, texts, sections and vectors go; digests, sizes, page numbers, the document's
    name and its metadata stay. A build that runs goes on without the document. Purging again
    changes nothing and tells of the first time. ``copies`` of the answer are those that ``access``
    sees. Raises NotFound, and Invalid for a reason that is blank or over 2,000 characters.
    """
    reason = check_text(
        requests.text({"reason": reason}, "reason", longest=LONGEST_REASON).strip(), field="reason"
    )
    with transaction.atomic():
        locked = lock(base.pk)
        # Whoever changes a document holds its base; its row is locked by foreign keys of workers.
        document = Document.objects.filter(pk=document_id, knowledge_base=locked).first()
        if document is None:
            raise NotFound(f"There is no document {document_id}.", code="document.not_found")
        if DocumentRevision.objects.filter(document=document, content__isnull=False).exists():
            _erase(actor, locked, document, reason)
    return _described(document, access)


def purged_documents(snapshot: IndexSnapshot) -> frozenset[uuid.UUID]:
    """Return the documents of ``snapshot`` whose contents were purged."""
    return frozenset(
        Purge.objects.filter(
            revision__extractions__indexed__memberships__snapshot=snapshot
        ).values_list("revision__document", flat=True)
    )


def is_purged(document_id: uuid.UUID) -> bool:
    """Say whether the contents of a document were purged; False where nothing of it is left."""
    return Purge.objects.filter(revision__document=document_id).exists()


def record_of(document: Document) -> Purge | None:
    """Return who purged ``document``, when and why; None where nobody did."""
    return Purge.objects.filter(revision__document=document).order_by("pk").first()


def _erase(actor: Actor, base: KnowledgeBase, document: Document, reason: str) -> None:
    """Erase in the order in which everybody locks: piece, revision, extraction, chunks.

    Taking the document out of a running build waits for the worker that is writing it, and lets
    no other write it again: its claim is gone.
    """
    BuildPiece.objects.filter(document=document).delete()
    revisions = dict(
        DocumentRevision.objects.select_for_update(no_key=True)
        .filter(document=document)
        .order_by("pk")
        .values_list("pk", "number")
    )
    extractions = list(
        Extraction.objects.select_for_update(no_key=True)
        .filter(revision__in=revisions)
        .order_by("pk")
        .values_list("pk", flat=True)
    )
    Purge.objects.bulk_create(
        Purge(revision_id=revision, reason=reason, actor=actor.label[:200])
        for revision in revisions
    )
    DocumentRevision.objects.filter(pk__in=revisions).update(content=None, notice="")
    read = Extraction.objects.filter(pk__in=extractions)
    read.update(segments=None, notices=[])
    read.exclude(status=Extraction.Status.SEALED).update(error="")
    chunks = (
        Chunk.objects.filter(indexed_document__extraction__in=extractions)
        .filter(Q(text__isnull=False) | Q(section__isnull=False) | Q(vector__isnull=False))
        .update(text=None, section=None, vector=None)
    )
    # They do not say of which document they are; losing others costs embedding them again.
    PendingVector.objects.all().delete()
    audit.record(
        actor=actor,
        action="document.purged",
        object_type="document",
        object_id=document.pk,
        after={
            "knowledgeBase": str(base.pk),
            "reason": reason,
            "revisions": sorted(revisions.values()),
            "chunks": chunks,
        },
    )
    if document.deleted_at is None:
        document.deleted_at = timezone.now()
        document.save(update_fields=["deleted_at"])
        request_build(base)
    else:
        hint_build(base.pk)


def _described(document: Document, access: Access | None) -> PurgedDocument:
    first = record_of(document)
    if first is None:
        raise RuntimeError(f"document {document.pk} has no content and no record of its purge")
    return PurgedDocument(
        document=document,
        reason=first.reason,
        actor=first.actor,
        at=first.at,
        revisions=tuple(
            Purge.objects.filter(revision__document=document)
            .order_by("revision__number")
            .values_list("revision__number", flat=True)
        ),
        chunks=Chunk.objects.filter(
            indexed_document__extraction__revision__document=document
        ).count(),
        copies=_copies(document, access),
    )


def _copies(document: Document, access: Access | None) -> tuple[Copy, ...]:
    digests = DocumentRevision.objects.filter(document=document).values("sha256")
    found = (
        Document.objects.filter(revisions__sha256__in=digests, revisions__content__isnull=False)
        .exclude(pk=document.pk)
        .distinct()
        .order_by("name", "pk")
    )
    return tuple(
        Copy(
            document=copy.pk,
            name=copy.name,
            knowledge_base=copy.knowledge_base_id,
            deleted=copy.deleted_at is not None,
        )
        for copy in found
        if access is None or access.sees_knowledge_base(copy.knowledge_base_id)
    )
