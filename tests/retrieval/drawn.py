"""Snapshots of drawn vectors, and the brute force by the definition that searches are held to."""

from __future__ import annotations

import itertools
import uuid

import numpy as np
from numpy.typing import NDArray

from registry.canonical import digest_bytes
from retrieval.candidates import best
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

_numbers = itertools.count(1)

Row = tuple[float, str, str, int]


def snapshot_of(vectors: list[list[Vector]], *, text: str = "drawn") -> IndexSnapshot:
    """A ready snapshot with one document per list; its texts play no part in the search.

    The same vector has the same digest wherever it occurs, as the same text would.
    """
    dimensions = len(vectors[0][0])
    model, _ = EmbeddingModel.objects.get_or_create(
        name=f"drawn {dimensions}",
        dimensions=dimensions,
        max_tokens=1,
        fingerprint=f"drawn {dimensions}",
    )
    base = KnowledgeBase.objects.create(
        name=f"Drawn {next(_numbers)}", model=model, last_snapshot_number=1
    )
    snapshot = IndexSnapshot.objects.create(
        knowledge_base=base, number=1, model=model, chunking="drawn", content_revision=0
    )
    for number, drawn in enumerate(vectors):
        document = Document.objects.create(knowledge_base=base, name=f"{number}.md")
        revision = DocumentRevision.objects.create(
            document=document,
            number=1,
            sha256="drawn",
            size=0,
            content=b"",
            media_type="text/plain",
        )
        extraction = Extraction.objects.create(
            revision=revision, recipe="drawn", status="sealed", segments=[], digest="drawn"
        )
        indexed = IndexedDocument.objects.create(
            extraction=extraction, chunking="drawn", model=model
        )
        Chunk.objects.bulk_create(
            Chunk(
                indexed_document=indexed,
                model=model,
                ordinal=ordinal,
                text=text,
                start=0,
                end=1,
                digest=digest_bytes(vector.tobytes()),
                text_digest="drawn",
                vector=vector,
                vector_digest="drawn",
            )
            for ordinal, vector in enumerate(drawn)
        )
        indexed.digest, indexed.chunk_count, indexed.sealed = "drawn", len(drawn), True
        indexed.save()
        # The second document is in the snapshot twice, as two documents with the same bytes.
        for document_id in [document.pk, uuid.uuid4()][: 2 if number == 1 else 1]:
            SnapshotMember.objects.create(
                snapshot=snapshot,
                indexed_document=indexed,
                document_id=document_id,
                name=document.name,
                revision_number=1,
                metadata={},
            )
    members = snapshot.members.select_related("indexed_document")
    snapshot.document_count = len(members)
    snapshot.chunk_count = sum(member.indexed_document.chunk_count for member in members)
    snapshot.state, snapshot.digest = "ready", digest_bytes(base.pk.bytes)
    snapshot.save()
    return snapshot


def brute_force(snapshot: IndexSnapshot, query: Vector, depth: int) -> list[Row]:
    """Every chunk of every member by the definition, in rank order."""
    ranked = []
    for member in snapshot.members.all():
        for chunk in Chunk.objects.filter(
            indexed_document=member.indexed_document_id, vector__isnull=False
        ):
            total = 0.0
            vector = np.asarray(chunk.vector, dtype=np.float32)
            for mine, theirs in zip(query.tolist(), vector.tolist(), strict=True):
                total += mine * theirs
            score = round(total, 6) + 0.0
            ranked.append((-score, chunk.digest, str(member.document_id), chunk.ordinal))
    return sorted(ranked)[:depth]


def found(snapshot: IndexSnapshot, query: Vector, depth: int) -> list[Row]:
    return [
        (-one.score, one.chunk, str(one.document_id), one.ordinal)
        for one in best(snapshot, query, depth)
    ]


def unit(drawn: NDArray[np.float64]) -> Vector:
    return np.asarray(drawn / np.linalg.norm(drawn), dtype=np.float32)
