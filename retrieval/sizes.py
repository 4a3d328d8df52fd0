"""How much of the database snapshots and indexed documents take: texts, sections and vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db import connection

from retrieval.vectors import Vector

# Bytes of an indexed document ``i``; those that came with an import are counted when asked.
SIZE = """COALESCE(i.size, (
    SELECT COALESCE(sum(COALESCE(octet_length(c.text), 0) + COALESCE(octet_length(c.section), 0)
                        + COALESCE(4 * vector_dims(c.vector), 0)), 0)
    FROM retrieval_chunk AS c WHERE c.indexed_document_id = i.id
))"""


def size_of(passages: Iterable[tuple[str, str | None, Vector]]) -> int:
    """Return the bytes of chunks, each as text, section, vector."""
    return sum(
        len(text.encode()) + len((section or "").encode()) + 4 * len(vector)
        for text, section, vector in passages
    )


def snapshot_bytes(snapshot_ids: Sequence[int]) -> dict[int, int]:
    """Return the bytes of what each snapshot holds; what several share counts for each of them."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT m.snapshot_id, sum({SIZE}) FROM retrieval_snapshotmember AS m "
            "JOIN retrieval_indexeddocument AS i ON i.id = m.indexed_document_id "
            "WHERE m.snapshot_id = ANY(%s) GROUP BY m.snapshot_id",
            [list(snapshot_ids)],
        )
        counted = {snapshot_id: int(count) for snapshot_id, count in cursor.fetchall()}
    return {snapshot_id: counted.get(snapshot_id, 0) for snapshot_id in snapshot_ids}
