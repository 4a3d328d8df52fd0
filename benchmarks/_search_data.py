"""Large knowledge bases, made quickly: real rows, which all triggers let through, of drawn text.

Vectors look like those of a model: each is a mixture of vectors that the bundled model gave to
sentences of a small vocabulary, with noise. Questions are other sentences of that vocabulary.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import psycopg
from django.db import connection, transaction
from numpy.typing import NDArray
from pgvector import Vector as PgVector
from pgvector.psycopg import register_vector

from registry.canonical import digest_text
from retrieval.chunking import Chunking
from retrieval.encoders import DEFAULT_MODEL, encoder_for
from retrieval.models import (
    EmbeddingModel,
    Extraction,
    IndexSnapshot,
    KnowledgeBase,
)

CHUNKS_A_DOCUMENT = 50
SEEDS = 1500
_AT_ONCE = 20_000
_STEPS = (1, 2, 3, 5, 7, 11, 13, 17)
_CHUNK_TYPES = (
    *("int8", "int8", "int4", "text", "int4", "text", "int4", "int4", "bool"),
    *("varchar", "varchar", "vector", "varchar"),
)

_WHO = [
    "customer",
    "supplier",
    "engineer",
    "nurse",
    "teacher",
    "driver",
    "lawyer",
    "gardener",
    "pilot",
    "tenant",
]
_DOES = [
    "returns",
    "repairs",
    "orders",
    "cancels",
    "insures",
    "cleans",
    "measures",
    "paints",
    "inspects",
    "sells",
]
_WHAT = [
    "a lamp",
    "the boiler",
    "a contract",
    "two tickets",
    "the invoice",
    "a bicycle",
    "some medicine",
    "the roof",
    "a laptop",
    "the garden",
    "an old piano",
    "the warranty card",
    "a parcel",
    "the heating",
    "a passport",
    "the menu",
]
_WHEN = [
    "after thirty days",
    "before winter",
    "during the night shift",
    "without a receipt",
    "in Portugal",
    "for the first time",
    "under the new law",
    "by post",
    "with a discount",
    "in an emergency",
    "on a Sunday",
]
_ASKS = [
    "What happens when the {} {} {} {}?",
    "How does a {} who {} {} {} get help?",
    "Who pays if a {} {} {} {}?",
    "Rules: {} {} {} {}.",
    "Is it allowed that a {} {} {} {}?",
]


def sentences(seed: int) -> Iterator[str]:
    """Yield sentences without end, no two the same."""
    generator = np.random.default_rng(seed)
    number = 0
    while True:
        words = [str(generator.choice(words)) for words in (_WHO, _DOES, _WHAT, _WHEN)]
        number += 1
        yield f"{str(generator.choice(_ASKS)).format(*words)} ({seed}-{number})"


@cache
def _seeds() -> NDArray[np.float32]:
    texts = sentences(1)
    return encoder_for(DEFAULT_MODEL).encode_passages([next(texts) for _ in range(SEEDS)])


@cache
def _pool() -> list[str]:
    texts = sentences(4)
    return [next(texts) for _ in range(3001)]


def drawn_vectors(count: int, *, seed: int) -> Iterator[NDArray[np.float32]]:
    """Yield ``count`` unit vectors in parts, document after document."""
    seeds = _seeds()
    generator = np.random.default_rng(seed)
    for start in range(0, count, _AT_ONCE):
        size = min(_AT_ONCE, count - start)
        subject = np.repeat(
            generator.integers(0, SEEDS, -(-size // CHUNKS_A_DOCUMENT)), CHUNKS_A_DOCUMENT
        )[:size]
        mixed = 0.6 * seeds[subject] + 0.6 * seeds[generator.integers(0, SEEDS, size)]
        mixed += generator.standard_normal(mixed.shape) * (0.45 / mixed.shape[1] ** 0.5)
        mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
        # Two chunks of each document are alike, as boilerplate is.
        first, again = mixed[0::CHUNKS_A_DOCUMENT], mixed[7::CHUNKS_A_DOCUMENT]
        again[:] = first[: len(again)]
        yield mixed.astype(np.float32)


def _raw() -> psycopg.Connection[Any]:
    connection.ensure_connection()
    raw: psycopg.Connection[Any] = connection.connection
    register_vector(raw)
    return raw


def _copy(table: str, columns: str, kinds: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
    with (
        psycopg.Cursor(_raw()) as cursor,
        cursor.copy(f"COPY {table} ({columns}) FROM STDIN (FORMAT binary)") as stream,
    ):
        stream.set_types(kinds)
        for row in rows:
            stream.write_row(row)


def make_base(name: str, chunks: int) -> KnowledgeBase:
    """Make a knowledge base with a ready snapshot of that many chunks."""
    model = EmbeddingModel.objects.get(name=DEFAULT_MODEL)
    base = KnowledgeBase.objects.create(name=name, model=model)
    documents = -(-chunks // CHUNKS_A_DOCUMENT)
    ids = [uuid.uuid4() for _ in range(documents)]
    with transaction.atomic():
        _documents(base, ids)
    made = list(
        Extraction.objects.filter(revision__document__knowledge_base=base)
        .order_by("revision__document__name")
        .values_list("pk", flat=True)
    )
    chunking = Chunking().recipe
    left, first = chunks, 0
    for vectors in drawn_vectors(chunks, seed=chunks):
        held = -(-len(vectors) // CHUNKS_A_DOCUMENT)
        with transaction.atomic():
            _indexed(made[first : first + held], chunking, model, vectors, first)
        first, left = first + held, left - len(vectors)
    assert left == 0
    seal_snapshot(base)
    return KnowledgeBase.objects.get(pk=base.pk)


def _documents(base: KnowledgeBase, ids: Sequence[uuid.UUID]) -> None:
    _copy(
        "retrieval_document",
        "id, knowledge_base_id, name, metadata, enabled, created_at",
        ["uuid", "uuid", "varchar", "text", "bool", "timestamptz"],
        ((one, base.pk, f"{n:06}.md", "{}", True, base.created_at) for n, one in enumerate(ids)),
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO retrieval_documentrevision "
            "(document_id, number, sha256, size, content, media_type, notice, created_at) "
            "SELECT id, 1, 'sha256:' || encode(sha256(name::bytea), 'hex'), 0, '', "
            "'text/markdown', '', now() FROM retrieval_document WHERE knowledge_base_id = %s",
            [base.pk],
        )
        cursor.execute(
            "INSERT INTO retrieval_extraction (revision_id, recipe, status, error_code, error, "
            "notices, segments, digest, created_at) "
            "SELECT r.id, 'drawn', 'sealed', '', '', '[]', '[]', r.sha256, now() "
            "FROM retrieval_documentrevision AS r JOIN retrieval_document AS d "
            "ON d.id = r.document_id WHERE d.knowledge_base_id = %s",
            [base.pk],
        )


def _indexed(
    extractions: Sequence[int],
    chunking: str,
    model: EmbeddingModel,
    vectors: NDArray[np.float32],
    first: int,
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO retrieval_indexeddocument "
            "(extraction_id, chunking, model_id, digest, chunk_count, sealed, created_at) "
            "SELECT id, %s, %s, '', 0, false, now() FROM unnest(%s::bigint[]) AS e (id) "
            "ORDER BY id RETURNING id",
            [chunking, model.pk, list(extractions)],
        )
        indexed = sorted(row[0] for row in cursor.fetchall())
    _copy(
        "retrieval_chunk",
        'indexed_document_id, model_id, ordinal, text, page, section, start, "end", truncated, '
        "digest, text_digest, vector, vector_digest",
        _CHUNK_TYPES,
        _chunks(indexed, model, vectors, first),
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE retrieval_indexeddocument AS i SET sealed = true, chunk_count = c.count, "
            "digest = 'sha256:' || encode(sha256(i.id::text::bytea), 'hex') "
            "FROM (SELECT indexed_document_id, count(*) FROM retrieval_chunk "
            "WHERE indexed_document_id = ANY(%s) GROUP BY 1) AS c "
            "WHERE i.id = c.indexed_document_id",
            [indexed],
        )


def _chunks(
    indexed: Sequence[int], model: EmbeddingModel, vectors: NDArray[np.float32], first: int
) -> Iterator[Sequence[Any]]:
    pool = _pool()
    for number, vector in enumerate(vectors):
        ordinal = number % CHUNKS_A_DOCUMENT
        place = first * CHUNKS_A_DOCUMENT + number
        # No two texts are the same, nor do they compress as one that is repeated would.
        text = " ".join([*(pool[place * step % len(pool)] for step in _STEPS), str(place)])
        digest = digest_text(text)
        yield (
            indexed[number // CHUNKS_A_DOCUMENT],
            model.pk,
            ordinal,
            text,
            None,
            f"Part {ordinal}",
            ordinal * 1000,
            ordinal * 1000 + len(text),
            False,
            digest,
            digest,
            PgVector(vector),
            f"sha256:{hashlib.sha256(vector.tobytes()).hexdigest()}",
        )


def seal_snapshot(base: KnowledgeBase) -> IndexSnapshot:
    """Make the next snapshot of all documents of ``base`` ready and current."""
    with transaction.atomic():
        base = KnowledgeBase.objects.select_for_update().get(pk=base.pk)
        base.last_snapshot_number += 1
        base.save(update_fields=["last_snapshot_number"])
        snapshot = IndexSnapshot.objects.create(
            knowledge_base=base,
            number=base.last_snapshot_number,
            model=base.model,
            chunking=Chunking().recipe,
            content_revision=base.content_revision,
        )
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO retrieval_snapshotmember (snapshot_id, indexed_document_id, "
                "document_id, name, revision_number, metadata) "
                "SELECT %s, i.id, d.id, d.name, 1, '{}' FROM retrieval_document AS d "
                "JOIN retrieval_documentrevision AS r ON r.document_id = d.id "
                "JOIN retrieval_extraction AS e ON e.revision_id = r.id "
                "JOIN retrieval_indexeddocument AS i ON i.extraction_id = e.id "
                "WHERE d.knowledge_base_id = %s",
                [snapshot.pk, base.pk],
            )
            cursor.execute(
                "SELECT count(*), sum(chunk_count) FROM retrieval_snapshotmember AS m "
                "JOIN retrieval_indexeddocument AS i ON i.id = m.indexed_document_id "
                "WHERE m.snapshot_id = %s",
                [snapshot.pk],
            )
            snapshot.document_count, snapshot.chunk_count = cursor.fetchone()
        snapshot.state = IndexSnapshot.State.READY
        snapshot.digest = digest_text(f"{base.pk} {snapshot.number}")
        snapshot.save()
        base.current_snapshot = snapshot
        base.settled_revision = base.shown_revision = base.content_revision
        base.save(update_fields=["current_snapshot", "settled_revision", "shown_revision"])
    return snapshot


def make_reference(base: KnowledgeBase, *, others: int) -> None:
    """Put the chunks of ``base``, and as many rows of others, into one table with an HNSW index."""
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS bench_chunk")
        cursor.execute(
            "CREATE TABLE bench_chunk AS SELECT d.knowledge_base_id AS knowledge_base, c.digest, "
            "d.id AS document_id, d.name, 1 AS revision_number, d.metadata, c.text, c.page, "
            "c.section, c.vector::vector(384) AS embedding "
            "FROM retrieval_chunk AS c "
            "JOIN retrieval_indexeddocument AS i ON i.id = c.indexed_document_id "
            "JOIN retrieval_extraction AS e ON e.id = i.extraction_id "
            "JOIN retrieval_documentrevision AS r ON r.id = e.revision_id "
            "JOIN retrieval_document AS d ON d.id = r.document_id "
            "WHERE d.knowledge_base_id = %s",
            [base.pk],
        )
    if others:
        other = uuid.uuid4()
        _copy(
            "bench_chunk",
            "knowledge_base, digest, document_id, name, revision_number, metadata, text, embedding",
            ["uuid", "text", "uuid", "varchar", "int4", "text", "text", "vector"],
            (
                (other, "sha256:0", other, "other.md", 1, "{}", "", PgVector(vector))
                for part in drawn_vectors(others, seed=3)
                for vector in part
            ),
        )
    with connection.cursor() as cursor:
        cursor.execute("SET maintenance_work_mem = '2GB'")
        cursor.execute("CREATE INDEX ON bench_chunk USING hnsw (embedding vector_cosine_ops)")
        cursor.execute("CREATE INDEX ON bench_chunk (knowledge_base)")
        cursor.execute("RESET maintenance_work_mem")
        cursor.execute("ANALYZE bench_chunk")
        cursor.execute("GRANT SELECT ON bench_chunk TO PUBLIC")
