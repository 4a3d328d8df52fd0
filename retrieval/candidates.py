"""Finding the chunks of a snapshot that can be among the best, exactly.

PostgreSQL scans all vectors of the snapshot (there is no approximate index) and returns every
chunk whose float32 score could, by the proven error bound, belong to the best ``depth``. Those
are scored again by the one definition in ``retrieval.scoring``.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from django.db import connection

from retrieval.models import IndexSnapshot
from retrieval.scoring import confidence, error_bound, scores
from retrieval.vectors import Vector, from_wire, literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A chunk with its score and what a citation of it needs."""

    score: float
    chunk: str
    document_id: uuid.UUID
    document_name: str
    revision: int
    metadata: Any
    ordinal: int
    text: str
    page: int | None
    section: str | None
    truncated: bool

    @property
    def confidence(self) -> float:
        return confidence(self.score)

    @property
    def rank_key(self) -> tuple[float, str, str, int]:
        """The order of every answer: no two candidates share it."""
        return (-self.score, self.chunk, str(self.document_id), self.ordinal)


_FIND = """
WITH scored AS MATERIALIZED (
    SELECT c.id, m.id AS member_id, -(c.vector <#> %(query)s::vector) AS approximate
    FROM retrieval_snapshotmember AS m
    JOIN retrieval_chunk AS c ON c.indexed_document_id = m.indexed_document_id
    WHERE m.snapshot_id = %(snapshot)s AND c.vector IS NOT NULL
)
SELECT c.digest, m.document_id, m.name, m.revision_number, m.metadata, c.ordinal,
       c.text, c.page, c.section, c.truncated, vector_send(c.vector)
FROM scored AS s
JOIN retrieval_chunk AS c ON c.id = s.id
JOIN retrieval_snapshotmember AS m ON m.id = s.member_id
WHERE s.approximate >= COALESCE(
    (SELECT approximate FROM scored ORDER BY approximate DESC OFFSET %(last)s LIMIT 1), -2
) - %(margin)s
"""


def best(snapshot: IndexSnapshot, query: Vector, depth: int) -> list[Candidate]:
    """Return the ``depth`` best chunks of ``snapshot`` in rank order; fewer when it has fewer."""
    # The threshold and the row itself may both be off by the bound.
    margin = 2 * error_bound(len(query))
    with connection.cursor() as cursor:
        cursor.execute(
            _FIND,
            {
                "query": literal(query),
                "snapshot": snapshot.pk,
                "last": depth - 1,
                "margin": margin,
            },
        )
        rows = cursor.fetchall()
    found = [
        Candidate(
            score=score,
            chunk=row[0],
            document_id=row[1],
            document_name=row[2],
            revision=row[3],
            metadata=json.loads(row[4]),
            ordinal=row[5],
            text=row[6],
            page=row[7],
            section=row[8],
            truncated=row[9],
        )
        for row, score in zip(
            rows, scores(query, [from_wire(row[10]) for row in rows]), strict=True
        )
    ]
    found.sort(key=lambda candidate: candidate.rank_key)
    return found[:depth]
