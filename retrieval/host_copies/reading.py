"""A snapshot's vectors out of PostgreSQL, as a host copy keeps them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from django.db import connection, transaction
from numpy.typing import NDArray

from retrieval.host_copies.files import PLACE, NotCopyable
from retrieval.models import IndexSnapshot, KnowledgeBase
from retrieval.vectors import Vector

_PARSED_AT_ONCE = 8 * 1024 * 1024
# Signature, flags, length of the header's extension: PostgreSQL's binary COPY format.
_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_HEADER_BYTES = len(_SIGNATURE) + 8
_TRAILER = b"\xff\xff"

_ROWS = """
COPY (
    SELECT decode(substr(c.digest, 8), 'hex'), m.document_id, c.ordinal, c.vector
    FROM retrieval_snapshotmember AS m
    JOIN retrieval_chunk AS c ON c.indexed_document_id = m.indexed_document_id
    WHERE m.snapshot_id = %s AND c.vector IS NOT NULL
) TO STDOUT (FORMAT binary)
"""


def epoch_of(knowledge_base_id: uuid.UUID) -> uuid.UUID | None:
    """Return which purges the contents of a knowledge base have seen; None: none yet."""
    return (
        KnowledgeBase.objects.values_list("purge_epoch", flat=True)
        .filter(pk=knowledge_base_id)
        .first()
    )


@contextmanager
def one_moment() -> Iterator[None]:
    """Let everything that is read inside be of one moment."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def parts_of(snapshot: IndexSnapshot) -> Iterator[tuple[NDArray[Any], Vector]]:
    """Yield (places, vectors) of all chunks that have a vector, in no particular order.

    Raises ``NotCopyable`` for rows of another form, and where a chunk that was not purged is
    missing.
    """
    row = _row_type(snapshot.model.dimensions)
    count = 0
    with connection.cursor() as cursor, cursor.copy(_ROWS, [snapshot.pk]) as stream:
        for content in _whole_rows(stream, row.itemsize):
            rows = np.frombuffer(content, dtype=row)
            _require_form(rows, row)
            places = np.empty(len(rows), dtype=PLACE)
            for name in ("digest", "document", "ordinal"):
                places[name] = rows[name]
            count += len(rows)
            yield places, rows["vector"].astype(np.float32)
    if count != snapshot.chunk_count and epoch_of(snapshot.knowledge_base_id) is None:
        raise NotCopyable(f"there are {count} chunks of {snapshot.chunk_count}")


def _row_type(dimensions: int) -> np.dtype[Any]:
    """Return a row as PostgreSQL sends it: each field after its length, numbers big-endian."""
    return np.dtype(
        [
            ("fields", ">i2"),
            ("digest_length", ">i4"),
            ("digest", "V32"),
            ("document_length", ">i4"),
            ("document", "V16"),
            ("ordinal_length", ">i4"),
            ("ordinal", ">i4"),
            ("vector_length", ">i4"),
            ("vector_dimensions", ">i2"),
            ("vector_unused", ">i2"),
            ("vector", ">f4", (dimensions,)),
        ]
    )


def _require_form(rows: NDArray[Any], row: np.dtype[Any]) -> None:
    dimensions = row["vector"].shape[0]
    wanted = {
        "fields": 4,
        "digest_length": 32,
        "document_length": 16,
        "ordinal_length": 4,
        "vector_length": 4 + 4 * dimensions,
        "vector_dimensions": dimensions,
    }
    if not all((rows[name] == value).all() for name, value in wanted.items()):
        raise NotCopyable("a digest or a vector has another length than the others")


def _whole_rows(stream: Iterable[Any], row_bytes: int) -> Iterator[bytes]:
    """Yield what comes without header and trailer, cut between rows."""
    buffer = bytearray()
    begun = False
    for piece in stream:
        buffer += piece
        if not begun and len(buffer) >= _HEADER_BYTES:
            if buffer[: len(_SIGNATURE)] != _SIGNATURE:
                raise NotCopyable("the server sends another format")
            del buffer[:_HEADER_BYTES]
            begun = True
        if begun and len(buffer) >= _PARSED_AT_ONCE:
            whole = len(buffer) // row_bytes * row_bytes
            yield bytes(buffer[:whole])
            del buffer[:whole]
    whole = len(buffer) // row_bytes * row_bytes
    if buffer[whole:] != _TRAILER:
        raise NotCopyable("a row has another length than the others")
    if whole:
        yield bytes(buffer[:whole])
