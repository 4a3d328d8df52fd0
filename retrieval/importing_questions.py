"""Bringing in from an archive what questions came to: their vectors, and scores of reranking.

What was said here before stays: versions here have answered with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from registry.archives import ArchiveReader, refused
from retrieval.archive_format import (
    QUESTION_VECTORS,
    QUESTIONS,
    SCORES,
    little_endian,
    read_vector,
)
from retrieval.models import EmbeddingModel, QueryEmbedding, RerankScore

_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedQuestions:
    """``different``: asked here before, with a vector that is not the same to the bit."""

    added: int
    different: int


def import_questions(reader: ArchiveReader) -> ImportedQuestions:
    """Bring in the vectors of questions; one that was asked here before keeps its own.

    A question has one vector for ever, and versions here have answered with it.
    """
    added = different = 0
    with reader.stream(QUESTION_VECTORS) as vectors:
        for batch in reader.batches(QUESTIONS, _BATCH):
            rows = _questions(batch, vectors)
            before = _stored(rows)
            QueryEmbedding.objects.bulk_create(rows, ignore_conflicts=True)
            for row in rows:
                here = before.get((row.model_id, row.query_digest))
                added += here is None
                different += here is not None and here != little_endian(row.vector)
            QueryEmbedding.objects.filter(
                pk__in=[found.pk for found in _found(rows) if not found.kept]
            ).update(kept=True)
        if vectors.read(1):
            raise refused(f"{QUESTION_VECTORS} is longer than its list.", code="damaged")
    return ImportedQuestions(added=added, different=different)


def import_scores(reader: ArchiveReader) -> ImportedQuestions:
    """Bring in what cross-encoders said; what was said here before stays, as with questions."""
    added = different = 0
    for batch in reader.batches(SCORES, _BATCH):
        wanted = {
            (reranker, query, chunk): RerankScore(
                reranker=reranker,
                query_digest=query,
                chunk_digest=chunk,
                score=score,
                provenance=provenance,
            )
            for reranker, query, chunk, score, provenance in batch
        }
        before = {
            (one.reranker, one.query_digest, one.chunk_digest): one.score
            for one in RerankScore.objects.filter(
                query_digest__in={query for _, query, _ in wanted},
                chunk_digest__in={chunk for *_, chunk in wanted},
            )
        }
        RerankScore.objects.bulk_create(wanted.values(), ignore_conflicts=True)
        added += len(wanted.keys() - before.keys())
        different += sum(before.get(key, row.score) != row.score for key, row in wanted.items())
    return ImportedQuestions(added=added, different=different)


def _questions(said: Iterable[Any], vectors: IO[bytes]) -> list[QueryEmbedding]:
    models = {model.fingerprint: model for model in EmbeddingModel.objects.all()}
    rows = []
    for fingerprint, digest, truncated, provenance in said:
        model = models[fingerprint]
        rows.append(
            QueryEmbedding(
                model=model,
                query_digest=digest,
                vector=read_vector(vectors, model.dimensions, QUESTION_VECTORS),
                truncated=truncated,
                provenance=provenance,
                kept=True,
            )
        )
    return rows


def _found(rows: Iterable[QueryEmbedding]) -> list[QueryEmbedding]:
    digests: dict[int, list[str]] = {}
    for row in rows:
        digests.setdefault(row.model_id, []).append(row.query_digest)
    return [
        found
        for model_id, wanted in digests.items()
        for found in QueryEmbedding.objects.filter(model_id=model_id, query_digest__in=wanted)
    ]


def _stored(rows: Iterable[QueryEmbedding]) -> dict[tuple[int, str], bytes]:
    return {
        (found.model_id, found.query_digest): little_endian(np.asarray(found.vector))
        for found in _found(rows)
    }
