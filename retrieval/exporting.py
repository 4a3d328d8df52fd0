"""Writing a pinned snapshot, and the questions its model was asked, into an archive.

Everything that an answer is made of goes along to the bit: the bytes of revisions, segments,
chunks, vectors. What was purged goes as purged: digests, no content.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from django.db import connection

from registry.archives import ArchiveWriter
from retrieval.archive_format import (
    QUESTION_VECTORS,
    QUESTIONS,
    SCORES,
    described_model,
    folder_of,
    little_endian,
)
from retrieval.models import EmbeddingModel, IndexSnapshot, Purge, SnapshotMember
from retrieval.vectors import from_wire

# Documents may be large.
_CONTENTS_AT_ONCE = 5
_ROWS_AT_ONCE = 500

Progress = Callable[[int], object]

_CHUNKS = """
SELECT text, page, section, start, "end", truncated, digest, text_digest, vector_digest
FROM retrieval_chunk WHERE indexed_document_id = %s ORDER BY ordinal
"""
_VECTORS = """
SELECT vector_send(vector) FROM retrieval_chunk
WHERE indexed_document_id = %s AND vector IS NOT NULL ORDER BY ordinal
"""
_QUESTIONS = """
SELECT query_digest, truncated, provenance FROM retrieval_queryembedding
WHERE model_id = %s AND kept ORDER BY query_digest
"""
_QUESTION_VECTORS = """
SELECT vector_send(vector) FROM retrieval_queryembedding
WHERE model_id = %s AND kept ORDER BY query_digest
"""
_SCORES = """
SELECT reranker, query_digest, chunk_digest, score, provenance FROM retrieval_rerankscore
WHERE reranker = ANY(%s) AND chunk_digest IN (
    SELECT c.digest FROM retrieval_snapshotmember AS m
    JOIN retrieval_chunk AS c ON c.indexed_document_id = m.indexed_document_id
    WHERE m.snapshot_id = ANY(%s)
) ORDER BY reranker, query_digest, chunk_digest
"""


class _Target(Protocol):
    def write(self, content: bytes) -> None: ...


def export_snapshot(
    writer: ArchiveWriter, snapshot: IndexSnapshot, *, progress: Progress
) -> dict[str, Any]:
    """Write ``snapshot`` and return its description; the caller's transaction sees one state.

    ``progress`` is told the number of chunks that were written since the last time.
    """
    folder = folder_of(str(snapshot.knowledge_base_id))
    writer.write_lines(f"{folder}/documents.jsonl", _documents(snapshot))
    writer.write_lines(f"{folder}/segments.jsonl", _segments(snapshot))
    with writer.member(f"{folder}/contents.bin") as target:
        for member in _members(snapshot, at_once=_CONTENTS_AT_ONCE):
            target.write(bytes(member.indexed_document.extraction.revision.content or b""))
    writer.write_lines(f"{folder}/chunks.jsonl", _chunks(snapshot, progress))
    with writer.member(f"{folder}/vectors.bin") as target:
        for indexed_id, _ in _indexed_documents(snapshot):
            _write_vectors(target, _VECTORS, indexed_id)
    return {
        "id": str(snapshot.knowledge_base_id),
        "model": described_model(snapshot.model),
        "snapshot": {
            "number": snapshot.number,
            "digest": snapshot.digest,
            "chunking": snapshot.chunking,
            "documents": snapshot.document_count,
            "chunks": snapshot.chunk_count,
            "failed": snapshot.failed_count,
        },
    }


def export_questions(writer: ArchiveWriter, models: Iterable[EmbeddingModel]) -> int:
    """Write the vectors of all questions that published versions were asked by ``models``.

    Questions themselves stay behind: only their digests go along. Returns how many there are.
    """
    wanted = sorted(models, key=lambda model: model.fingerprint)
    count = writer.write_lines(
        QUESTIONS,
        ([model.fingerprint, *row] for model in wanted for row in _rows(_QUESTIONS, model.pk)),
    )
    with writer.member(QUESTION_VECTORS) as target:
        for model in wanted:
            _write_vectors(target, _QUESTION_VECTORS, model.pk)
    return count


def export_scores(
    writer: ArchiveWriter, snapshots: Iterable[IndexSnapshot], rerankers: Iterable[str]
) -> int:
    """Write what cross-encoders, by their fingerprints, said of questions and these snapshots."""
    ids = [snapshot.pk for snapshot in snapshots]
    return writer.write_lines(SCORES, _rows(_SCORES, sorted(set(rerankers)), ids))


def _members(snapshot: IndexSnapshot, *, at_once: int) -> Iterator[SnapshotMember]:
    return (
        SnapshotMember.objects.filter(snapshot=snapshot)
        .select_related("indexed_document__extraction__revision")
        .order_by("document_id")
        .iterator(chunk_size=at_once)
    )


def _indexed_documents(snapshot: IndexSnapshot) -> Iterator[tuple[int, int]]:
    """Yield the key and the number of chunks of each."""
    return (
        SnapshotMember.objects.filter(snapshot=snapshot)
        .order_by("document_id")
        .values_list("indexed_document_id", "indexed_document__chunk_count")
        .iterator(chunk_size=_ROWS_AT_ONCE)
    )


def _documents(snapshot: IndexSnapshot) -> Iterator[dict[str, Any]]:
    for member in _members(snapshot, at_once=_CONTENTS_AT_ONCE):
        indexed = member.indexed_document
        extraction = indexed.extraction
        revision = extraction.revision
        yield {
            "id": str(member.document_id),
            "name": member.name,
            "metadata": member.metadata,
            "revision": {
                "number": revision.number,
                "sha256": revision.sha256,
                "size": revision.size,
                "mediaType": revision.media_type,
                "notice": revision.notice,
            },
            "extraction": {
                "recipe": extraction.recipe,
                "pages": extraction.pages,
                "notices": extraction.notices,
                "digest": extraction.digest,
            },
            "indexed": {
                "chunking": indexed.chunking,
                "digest": indexed.digest,
                "chunks": indexed.chunk_count,
                "termStatistics": (
                    None
                    if indexed.term_statistics is None
                    else b64encode(indexed.term_statistics).decode()
                ),
            },
            "purges": (
                [
                    {"reason": purge.reason, "at": purge.at.isoformat()}
                    for purge in Purge.objects.filter(revision_id=revision.pk)
                ]
                if revision.content is None
                else None
            ),
        }


def _segments(snapshot: IndexSnapshot) -> Iterator[Any]:
    for member in _members(snapshot, at_once=_CONTENTS_AT_ONCE):
        yield member.indexed_document.extraction.segments


def _chunks(snapshot: IndexSnapshot, progress: Progress) -> Iterator[tuple[Any, ...]]:
    for indexed_id, count in _indexed_documents(snapshot):
        yield from _rows(_CHUNKS, indexed_id)
        progress(count)


def _write_vectors(target: _Target, query: str, key: int) -> None:
    for (sent,) in _rows(query, key):
        target.write(little_endian(from_wire(sent)))


def _rows(query: str, *values: int | list[int] | list[str]) -> Iterator[tuple[Any, ...]]:
    """Yield rows without having them all in memory; inside a transaction."""
    with connection.chunked_cursor() as cursor:
        cursor.execute(query, values)
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            yield from rows
