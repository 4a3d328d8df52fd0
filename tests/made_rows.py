"""Rows of a snapshot written directly, for tests of what is computed over chosen vectors.

Their texts were read by nobody and embedded by no model; what hangs on real documents is made by
``tests.builders``.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retrieval.models import (
    Chunk,
    Document,
    DocumentRevision,
    EmbeddingModel,
    Extraction,
    IndexedDocument,
    IndexSnapshot,
    KnowledgeBase,
    SnapshotMember,
)
from retrieval.vectors import Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeChunk:
    text: str
    digest: str
    vector: Vector
    page: int | None = None
    section: str | None = None


def begin_snapshot(name: str, model: EmbeddingModel, **base: Any) -> IndexSnapshot:
    """Make a knowledge base with snapshot 1, to which members are added until it is sealed."""
    return IndexSnapshot.objects.create(
        knowledge_base=KnowledgeBase.objects.create(
            name=name, model=model, last_snapshot_number=1, **base
        ),
        number=1,
        model=model,
        chunking="made",
        content_revision=0,
    )


def index_document(document: Document, chunks: Sequence[MadeChunk]) -> IndexedDocument:
    """Make what is indexed of a document's first revision, sealed."""
    model = document.knowledge_base.model
    revision = DocumentRevision.objects.create(
        document=document, number=1, sha256="made", size=0, content=b"", media_type="text/plain"
    )
    extraction = Extraction.objects.create(
        revision=revision, recipe="made", status="sealed", segments=[], digest="made"
    )
    indexed = IndexedDocument.objects.create(extraction=extraction, chunking="made", model=model)
    Chunk.objects.bulk_create(
        Chunk(
            indexed_document=indexed,
            model=model,
            ordinal=ordinal,
            text=chunk.text,
            page=chunk.page,
            section=chunk.section,
            start=0,
            end=1,
            digest=chunk.digest,
            text_digest="made",
            vector=chunk.vector,
            vector_digest="made",
        )
        for ordinal, chunk in enumerate(chunks)
    )
    indexed.digest, indexed.chunk_count, indexed.sealed = "made", len(chunks), True
    indexed.save()
    return indexed


def add_member(
    snapshot: IndexSnapshot,
    indexed: IndexedDocument,
    *,
    name: str,
    document_id: uuid.UUID,
    revision: int = 1,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    SnapshotMember.objects.create(
        snapshot=snapshot,
        indexed_document=indexed,
        document_id=document_id,
        name=name,
        revision_number=revision,
        metadata=metadata or {},
    )


def seal_snapshot(snapshot: IndexSnapshot, digest: str) -> IndexSnapshot:
    """Count the members and make the snapshot ready."""
    members = snapshot.members.select_related("indexed_document")
    snapshot.document_count = len(members)
    snapshot.chunk_count = sum(member.indexed_document.chunk_count for member in members)
    snapshot.state, snapshot.digest = "ready", digest
    snapshot.save()
    return snapshot
