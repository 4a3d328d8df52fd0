"""Finding the chunks of a snapshot that are the best, exactly, warm or cold.

Warm, a copy on this host rules out all chunks but those that can be among the best, by a proven
bound (``retrieval.bounded_scan``). Cold, PostgreSQL scans all vectors of the snapshot (there is no
approximate index) and returns every chunk whose float32 score could, by the proven error bound,
belong to the best. Both ways, what is left is scored by the one definition in
``retrieval.scoring``, so the answer is the same to the byte.

A warm answer is true at the moment its texts are read from PostgreSQL: the same statement says
whether something of the knowledge base was purged since the copy was made, and then the copy is
dropped and the search goes to PostgreSQL.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from registry.fields import load_received
from retrieval import bounded_scan, host_copies
from retrieval.models import IndexSnapshot
from retrieval.scoring import confidence, error_bound, scores
from retrieval.vectors import Vector, from_wire, literal

logger = logging.getLogger("retrieval.host_copies")

# Where more rows are left than this, a float32 product rules out most before they are scored.
_MANY = 4096
_METADATA = "retrieval.SnapshotMember.metadata"


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
    rerank_score: float | None = None

    @property
    def confidence(self) -> float:
        return confidence(self.score)

    @property
    def rank_key(self) -> tuple[float, str, str, int]:
        """The order of every answer: no two candidates share it."""
        return (-self.score, self.chunk, str(self.document_id), self.ordinal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The best chunks in rank order, and the purge epoch of the knowledge base at that moment."""

    candidates: list[Candidate]
    epoch: uuid.UUID | None


def best(snapshot: IndexSnapshot, query: Vector, depth: int) -> list[Candidate]:
    """Return the ``depth`` best chunks of ``snapshot`` in rank order; fewer when it has fewer."""
    return rank(snapshot, query, depth).candidates


def rank(snapshot: IndexSnapshot, query: Vector, depth: int) -> Ranking:
    """Return what ``best`` returns, together with the purge epoch that it is of."""
    copy = host_copies.copies.find(snapshot)
    if copy is not None:
        found = _warm(copy, snapshot, query, depth)
        if found is not None:
            return found
        host_copies.copies.drop(snapshot, copy)
    return rank_in_database(snapshot, query, depth)


# A function, planned once per session: planning takes longer than finding some passages.
_PASSAGES = "SELECT * FROM retrieval_passages(%s, %s, %s::uuid[], %s::int[])"


@dataclass(frozen=True, slots=True)
class _Place:
    """A chunk as a copy knows it; compares by rank."""

    score: float
    chunk: str
    document_id: uuid.UUID
    ordinal: int

    @property
    def rank_key(self) -> tuple[float, str, str, int]:
        return (-self.score, self.chunk, str(self.document_id), self.ordinal)


def _warm(
    copy: host_copies.Copy, snapshot: IndexSnapshot, query: Vector, depth: int
) -> Ranking | None:
    """Return the best by a copy; None where it is no longer what PostgreSQL holds."""
    places = _places(copy, query, depth)
    if places is None:
        return None
    with connection.cursor() as cursor:
        cursor.execute(
            _PASSAGES,
            [
                snapshot.knowledge_base_id,
                snapshot.pk,
                [str(place.document_id) for place in places],
                [place.ordinal for place in places],
            ],
        )
        rows = cursor.fetchall()
    if not rows or rows[0][0] != copy.key.epoch:
        return None
    fetched = [row[1:] for row in rows if row[1] is not None]
    if [(row[0], row[1]) for row in fetched] != [
        (number, place.chunk) for number, place in enumerate(places, start=1)
    ]:
        logger.error(
            "host_copy.differs name=%s: it names chunks that are not there", copy.path.name
        )
        return None
    return Ranking(
        epoch=copy.key.epoch,
        candidates=[
            Candidate(
                score=place.score,
                chunk=place.chunk,
                document_id=place.document_id,
                document_name=row[2],
                revision=row[3],
                metadata=load_received(row[4], _METADATA),
                ordinal=place.ordinal,
                text=row[5],
                page=row[6],
                section=row[7],
                truncated=row[8],
            )
            for place, row in zip(places, fetched, strict=True)
        ],
    )


def _places(copy: host_copies.Copy, query: Vector, depth: int) -> list[_Place] | None:
    """Return the ``depth`` best in rank order; None where a score is not where it must lie."""
    rows, low, high = bounded_scan.candidates(query, copy.table, depth)
    if len(rows) > _MANY:
        near = _near(copy.vectors, rows, query, depth)
        rows, low, high = rows[near], low[near], high[near]
    exact = np.array(scores(query, copy.vectors[rows]), dtype=np.float64)
    if not ((low <= exact) & (exact <= high)).all():
        logger.critical("host_copy.bound_broken name=%s", copy.path.name)
        return None
    if len(rows) > depth:
        # Only what ties with the last or beats it needs its digest.
        last = np.partition(exact, len(exact) - depth)[len(exact) - depth]
        among = np.flatnonzero(exact >= last)
        rows, exact = rows[among], exact[among]
    found = [
        _Place(score, f"sha256:{digest.tobytes().hex()}", uuid.UUID(bytes=document.tobytes()), at)
        for score, (digest, document, at) in zip(
            exact.tolist(), _fields(copy.places[rows]), strict=True
        )
    ]
    found.sort(key=lambda place: place.rank_key)
    return found[:depth]


def _fields(places: NDArray[Any]) -> Iterator[tuple[Any, Any, int]]:
    return zip(places["digest"], places["document"], places["ordinal"].tolist(), strict=True)


def _near(
    vectors: NDArray[np.float32], rows: NDArray[np.intp], query: Vector, depth: int
) -> NDArray[np.intp]:
    """Return which of ``rows`` a float32 product leaves among the ``depth`` best."""
    products = np.concatenate(
        [vectors[rows[start : start + _MANY]] @ query for start in range(0, len(rows), _MANY)]
    ).astype(np.float64)
    if len(rows) <= depth:
        return np.arange(len(rows))
    last = np.partition(products, len(products) - depth)[len(products) - depth]
    # The threshold and the row itself may both be off by the bound.
    return np.flatnonzero(products >= last - 2 * error_bound(len(query)))


_FIND = """
WITH scored AS MATERIALIZED (
    SELECT c.id, m.id AS member_id, -(c.vector <#> %(query)s::vector) AS approximate
    FROM retrieval_snapshotmember AS m
    JOIN retrieval_chunk AS c ON c.indexed_document_id = m.indexed_document_id
    WHERE m.snapshot_id = %(snapshot)s AND c.vector IS NOT NULL
)
SELECT b.purge_epoch, c.*
FROM retrieval_knowledgebase AS b
LEFT JOIN LATERAL (
    SELECT c.digest, m.document_id, m.name, m.revision_number, m.metadata, c.ordinal,
           c.text, c.page, c.section, c.truncated, vector_send(c.vector)
    FROM scored AS s
    JOIN retrieval_chunk AS c ON c.id = s.id
    JOIN retrieval_snapshotmember AS m ON m.id = s.member_id
    WHERE s.approximate >= COALESCE(
        (SELECT approximate FROM scored ORDER BY approximate DESC OFFSET %(last)s LIMIT 1), -2
    ) - %(margin)s
) AS c ON true
WHERE b.id = %(base)s
"""


def rank_in_database(snapshot: IndexSnapshot, query: Vector, depth: int) -> Ranking:
    """Return what ``rank`` returns, from the rows alone."""
    # The threshold and the row itself may both be off by the bound.
    margin = 2 * error_bound(len(query))
    with connection.cursor() as cursor:
        cursor.execute(
            _FIND,
            {
                "query": literal(query),
                "snapshot": snapshot.pk,
                "base": snapshot.knowledge_base_id,
                "last": depth - 1,
                "margin": margin,
            },
        )
        rows = cursor.fetchall()
    found = _candidates([row[1:] for row in rows if row[1] is not None], query)
    found.sort(key=lambda candidate: candidate.rank_key)
    return Ranking(candidates=found[:depth], epoch=rows[0][0] if rows else None)


def _candidates(rows: Sequence[Sequence[Any]], query: Vector) -> list[Candidate]:
    return [
        Candidate(
            score=score,
            chunk=row[0],
            document_id=row[1],
            document_name=row[2],
            revision=row[3],
            metadata=load_received(row[4], _METADATA),
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
