"""The exact search against a brute force by the definition, ties and duplicates included."""

from __future__ import annotations

import uuid

import numpy as np
import pytest
from numpy.typing import NDArray

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

pytestmark = pytest.mark.django_db

Row = tuple[float, str, str, int]


def snapshot_of(vectors: list[list[Vector]]) -> IndexSnapshot:
    """A ready snapshot with one document per list; its texts play no part in the search.

    The same vector has the same digest wherever it occurs, as the same text would.
    """
    dimensions = len(vectors[0][0])
    model = EmbeddingModel.objects.create(
        name="drawn", dimensions=dimensions, max_tokens=1, fingerprint="drawn"
    )
    base = KnowledgeBase.objects.create(name="Drawn", model=model, last_snapshot_number=1)
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
                text="drawn",
                start=0,
                end=1,
                digest=f"sha256:{vector.tobytes().hex()[:60]}",
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
    snapshot.state, snapshot.digest = "ready", "drawn"
    snapshot.save()
    return snapshot


def brute_force(snapshot: IndexSnapshot, query: Vector, depth: int) -> list[Row]:
    """Every chunk of every member by the definition, in rank order."""
    ranked = []
    for member in snapshot.members.all():
        for chunk in Chunk.objects.filter(indexed_document=member.indexed_document_id):
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


def test_best__with_ties_duplicates_and_negative_scores__is_the_brute_force() -> None:
    generator = np.random.default_rng(4)
    query = unit(generator.standard_normal(8))
    near = unit(query + 0.1 * generator.standard_normal(8))
    # Neighbours in the last bit: as a float32 sum their order is a matter of luck.
    neighbours = [
        np.nextafter(near, np.float32(step)).astype(np.float32) for step in (-1, 0, 1) for _ in "ab"
    ]
    documents = [
        [near, near, -near, query, -query, *neighbours],
        [near, *neighbours, unit(generator.standard_normal(8))],
        [unit(generator.standard_normal(8)) for _ in range(20)],
    ]
    snapshot = snapshot_of(documents)
    total = sum(map(len, documents)) + len(documents[1])
    for depth in (1, 2, 3, 5, 8, 13, 25, total, total + 10):
        made = found(snapshot, query, depth)
        assert made == brute_force(snapshot, query, depth)
        assert len(made) == min(depth, total)
    everything = best(snapshot, query, total)
    assert min(one.score for one in everything) == pytest.approx(-1)
    assert {one.confidence for one in everything if one.score < 0} == {0.0}


def test_best__when_all_scores_are_negative__still_ranks_by_the_score_before_clipping() -> None:
    generator = np.random.default_rng(5)
    query = unit(np.ones(8))
    snapshot = snapshot_of(
        [[unit(-query + 0.2 * generator.standard_normal(8)) for _ in range(6)] for _ in range(2)]
    )
    made = found(snapshot, query, 4)
    assert made == brute_force(snapshot, query, 4)
    assert all(negated > 0 for negated, *_ in made)


def test_best__of_many_embedding_sized_vectors_close_together__is_the_brute_force() -> None:
    """The 25th and the 26th often differ by less than a float32 sum can tell."""
    generator = np.random.default_rng(6)
    query = unit(generator.standard_normal(384))
    centre = unit(query + 0.05 * generator.standard_normal(384))
    documents = [
        [unit(centre + 1e-6 * generator.standard_normal(384)) for _ in range(100)] for _ in range(4)
    ]
    snapshot = snapshot_of(documents)
    for depth in (1, 25, 100):
        assert found(snapshot, query, depth) == brute_force(snapshot, query, depth)


def test_best__of_a_snapshot_without_chunks__is_nothing() -> None:
    generator = np.random.default_rng(7)
    query = unit(generator.standard_normal(8))
    snapshot = snapshot_of([[query]])
    empty = IndexSnapshot(pk=-1, model=snapshot.model)
    assert best(empty, query, 5) == []
