"""Which words the chunks of a snapshot have, from the rows: what lexical evidence is made of.

They are counted when a document is indexed and kept with it. Where they are missing, or of an
older form, they are counted from the texts, with the same result.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from functools import lru_cache

from django.db import connection

from retrieval.candidates import Candidate
from retrieval.extractor import segments_of
from retrieval.lexical import PassageTerms, TermStatistics, document_statistics, is_readable
from retrieval.models import Chunk, IndexedDocument, IndexSnapshot
from retrieval.segments import counted_text, joined_text

_AT_ONCE = 500


def statistics_of(snapshot: IndexSnapshot, *, again: bool = False) -> TermStatistics:
    """Return the term statistics of a snapshot, which never change; kept in process.

    With ``again`` they are read anew.
    """
    return (_statistics.__wrapped__ if again else _statistics)(snapshot.pk)


@lru_cache(maxsize=64)
def _statistics(snapshot_id: int) -> TermStatistics:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT i.id, i.term_statistics FROM retrieval_snapshotmember AS m
            JOIN retrieval_indexeddocument AS i ON i.id = m.indexed_document_id
            WHERE m.snapshot_id = %s
            """,
            [snapshot_id],
        )
        rows = cursor.fetchall()
    return TermStatistics.of(_kept_or_counted(*row) for row in rows)


def terms_of(
    snapshot: IndexSnapshot, candidates: Sequence[Candidate], asked: Sequence[int]
) -> list[PassageTerms]:
    """Return the words of each candidate; of a truncated one those of all that it stands for.

    Its text is short of them, so they come from its document's statistics: a truncated chunk is
    the one chunk of its document. Only ``asked`` terms are sure to be among them.
    """
    truncated = {one.document_id for one in candidates if one.truncated}
    counted = _statistics_of_documents(snapshot, truncated) if truncated else {}
    # A draft's snapshot may be pruned meanwhile, and takes its statistics along.
    return [
        PassageTerms.of_document(counted[one.document_id], asked)
        if one.truncated and one.document_id in counted
        else PassageTerms.of(one.text)
        for one in candidates
    ]


def counted_texts(indexed_id: int, document: str) -> Iterator[str]:
    """Yield for each chunk of an indexed document the text whose words count for it.

    ``document`` is its extraction's text. Chunks that were purged have none.
    """
    chunks = Chunk.objects.filter(indexed_document=indexed_id, text__isnull=False)
    rows = chunks.order_by("ordinal").values_list("text", "start", "truncated")
    for text, start, truncated in rows.iterator(_AT_ONCE):
        yield counted_text(text or "", start, truncated=truncated, document=document)


def _statistics_of_documents(
    snapshot: IndexSnapshot, documents: set[uuid.UUID]
) -> dict[uuid.UUID, bytes]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT m.document_id, i.id, i.term_statistics FROM retrieval_snapshotmember AS m
            JOIN retrieval_indexeddocument AS i ON i.id = m.indexed_document_id
            WHERE m.snapshot_id = %s AND m.document_id = ANY(%s)
            """,
            [snapshot.pk, list(documents)],
        )
        rows = cursor.fetchall()
    return {document_id: _kept_or_counted(*row) for document_id, *row in rows}


def _kept_or_counted(indexed_id: int, kept: bytes | None) -> bytes:
    packed = bytes(kept or b"")
    if is_readable(packed):
        return packed
    indexed = IndexedDocument.objects.select_related("extraction").get(pk=indexed_id)
    document = joined_text(segments_of(indexed.extraction))
    return document_statistics(counted_texts(indexed_id, document))
