"""Writing a document cut and embedded, with all its chunks, in as few statements as it takes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import connection, transaction
from django.utils import timezone

from retrieval.chunking import Piece
from retrieval.claims import Claim, ClaimLost
from retrieval.models import IndexedDocument
from retrieval.vectors import Vector, to_wire

# The piece stays locked until the transaction ends: a claim that is held now is held then.
_INSERT = """
INSERT INTO retrieval_indexeddocument
    (extraction_id, chunking, model_id, digest, chunk_count, term_statistics, size, sealed,
     created_at)
SELECT %(extraction)s, %(chunking)s, %(model)s, %(digest)s, %(chunks)s, %(statistics)s, %(size)s,
       FALSE, %(now)s
FROM retrieval_buildpiece
WHERE id = %(piece)s AND claim = %(claim)s AND state = 'waiting' FOR NO KEY UPDATE
RETURNING id
"""
_SEAL = """
WITH sealed AS (
    UPDATE retrieval_indexeddocument SET sealed = TRUE WHERE id = %(indexed)s
    RETURNING id, chunk_count
)
UPDATE retrieval_buildpiece AS p
SET state = 'done', indexed_document_id = sealed.id, chunks_done = sealed.chunk_count,
    claim = NULL, holder = '', leased_until = NULL, ended_at = %(now)s
FROM sealed WHERE p.id = %(piece)s
"""
# Binary: a vector as text is nine times as long, and is parsed figure by figure.
_COPY = """
COPY retrieval_chunk (indexed_document_id, model_id, ordinal, text, page, section, start, "end",
                      truncated, digest, text_digest, vector, vector_digest)
FROM STDIN WITH (FORMAT BINARY)
"""
_HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_END = struct.pack(">h", -1)
_FIELDS = struct.Struct(">h")
_LENGTH = struct.Struct(">i")
_BIGINT = struct.Struct(">q")
_INTEGER = struct.Struct(">i")
_NULL = _LENGTH.pack(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChunk:
    """A piece of a text with its vector, and the digests of both."""

    piece: Piece
    digest: str
    text_digest: str
    vector: Vector
    vector_digest: str


def write_indexed_document(
    claim: Claim, indexed: IndexedDocument, chunks: Sequence[NewChunk]
) -> None:
    """Insert ``indexed`` with its chunks, seal it and end the piece, in one transaction.

    Raises ClaimLost, with nothing written.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            _INSERT,
            {
                "piece": claim.piece_id,
                "claim": claim.token,
                "extraction": indexed.extraction_id,
                "chunking": indexed.chunking,
                "model": indexed.model_id,
                "digest": indexed.digest,
                "chunks": indexed.chunk_count,
                "statistics": bytes(indexed.term_statistics or b"") or None,
                "size": indexed.size,
                "now": timezone.now(),
            },
        )
        inserted = cursor.fetchone()
        if inserted is None:
            raise ClaimLost
        (indexed.pk,) = inserted
        with connection.wrap_database_errors, cursor.copy(_COPY) as copy:
            copy.write(_HEADER)
            for row in _rows(indexed, chunks):
                copy.write(row)
            copy.write(_END)
        cursor.execute(
            _SEAL, {"indexed": indexed.pk, "piece": claim.piece_id, "now": timezone.now()}
        )
    indexed.sealed = True


def _rows(indexed: IndexedDocument, chunks: Iterable[NewChunk]) -> Iterable[bytes]:
    for ordinal, chunk in enumerate(chunks):
        piece = chunk.piece
        fields = (
            _BIGINT.pack(indexed.pk),
            _BIGINT.pack(indexed.model_id),
            _INTEGER.pack(ordinal),
            piece.text.encode(),
            None if piece.page is None else _INTEGER.pack(piece.page),
            None if piece.section is None else piece.section.encode(),
            _INTEGER.pack(piece.start),
            _INTEGER.pack(piece.end),
            b"\x01" if piece.truncated else b"\x00",
            chunk.digest.encode(),
            chunk.text_digest.encode(),
            to_wire(chunk.vector),
            chunk.vector_digest.encode(),
        )
        yield _FIELDS.pack(len(fields)) + b"".join(
            _NULL if field is None else _LENGTH.pack(len(field)) + field for field in fields
        )
