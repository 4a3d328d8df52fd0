"""Snapshots of drawn vectors, and the brute force by the definition that searches are held to."""

from __future__ import annotations

import itertools
import uuid

import numpy as np
from numpy.typing import NDArray

from registry.canonical import digest_bytes
from retrieval.candidates import best
from retrieval.models import Chunk, Document, EmbeddingModel, IndexSnapshot
from retrieval.vectors import Vector
from tests.made_rows import MadeChunk, add_member, begin_snapshot, index_document, seal_snapshot

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
    snapshot = begin_snapshot(f"Drawn {next(_numbers)}", model)
    base = snapshot.knowledge_base
    for number, drawn in enumerate(vectors):
        document = Document.objects.create(knowledge_base=base, name=f"{number}.md")
        indexed = index_document(
            document,
            [
                MadeChunk(text=text, digest=digest_bytes(vector.tobytes()), vector=vector)
                for vector in drawn
            ],
        )
        # The second document is in the snapshot twice, as two documents with the same bytes.
        for document_id in [document.pk, uuid.uuid4()][: 2 if number == 1 else 1]:
            add_member(snapshot, indexed, name=document.name, document_id=document_id)
    return seal_snapshot(snapshot, digest_bytes(base.pk.bytes))


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
