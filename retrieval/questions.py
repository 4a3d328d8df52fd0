"""What is asked, checked, and the one vector it has.

A question's vector is computed once per model, kept in PostgreSQL and read back from there before
anything is ranked: two runtimes differ in the last bits, and stored bits do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from registry import requests
from registry.canonical import digest_text
from registry.errors import Invalid, Unavailable
from registry.strict_json import check_text
from retrieval.encoders import Encoder, encoder_for
from retrieval.models import EmbeddingModel, QueryEmbedding
from retrieval.vectors import Vector

MAX_QUERY_CHARACTERS = 32_000
MEMBERS = ("query", "topK", "confidenceThreshold")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query with the caller's count (1…50) and floor (0…1; 0 is none); None: not said."""

    query: str
    top_k: int | None = None
    confidence_threshold: float | None = None

    @property
    def digest(self) -> str:
        """The digest of the query's exact UTF-8."""
        return digest_text(self.query)

    def arguments(self) -> dict[str, Any]:
        """Return what was asked, as a trace keeps it."""
        return {
            "query": self.query,
            "topK": self.top_k,
            "confidenceThreshold": self.confidence_threshold,
        }


def read_question(body: Mapping[str, Any]) -> Question:
    """Return the question of a request. Raises Invalid naming the field and what is allowed."""
    query = requests.text(body, "query", longest=MAX_QUERY_CHARACTERS)
    return Question(
        query=check_text(query, field="query"),
        top_k=requests.integer(body, "topK", least=1, most=50),
        confidence_threshold=requests.number(body, "confidenceThreshold", least=0, most=1),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionVector:
    """The stored vector, and whether the model read only the beginning of the question."""

    vector: Vector
    truncated: bool


def vector_of(model: EmbeddingModel, question: Question, *, keep: bool) -> QuestionVector:
    """Return the one vector of ``question``, stored before it is used.

    ``keep`` is True for questions to published versions: their row stays as long as any version
    pins the model. Its first sight is committed, durably, before this returns; later ones write
    nothing. Raises Unavailable (``model.not_available``) for a new question to a model that is
    not installed; one asked before is answered all the same.
    """
    row = _stored(model, question)
    if row is None:
        encoder = _encoder_of(model)
        QueryEmbedding.objects.bulk_create(
            [
                QueryEmbedding(
                    model=model,
                    query_digest=question.digest,
                    vector=encoder.encode_query(question.query),
                    truncated=encoder.query_tokens(question.query) > encoder.max_tokens,
                    kept=keep,
                    provenance=encoder.provenance,
                )
            ],
            ignore_conflicts=True,
        )
        row = _stored(model, question)
        if row is None:
            raise Invalid.field("query", question.query, "could not be stored; ask again")
    if keep and not row.kept:
        QueryEmbedding.objects.filter(pk=row.pk, kept=False).update(kept=True)
    return _read(row)


def vector_again(model: EmbeddingModel, question: Question) -> QuestionVector:
    """Return the vector of ``question`` from its row, past every cache, writing nothing.

    One that has been forgotten (drafts' questions are, after a while) is computed anew. Raises
    Unavailable (``model.not_available``) where that cannot be.
    """
    row = _stored(model, question)
    if row is not None:
        return _read(row)
    encoder = _encoder_of(model)
    return QuestionVector(
        vector=encoder.encode_query(question.query),
        truncated=encoder.query_tokens(question.query) > encoder.max_tokens,
    )


def _encoder_of(model: EmbeddingModel) -> Encoder:
    encoder = encoder_for(model.name)
    if encoder.fingerprint != model.fingerprint:
        raise Unavailable(
            f"The model {model.name!r} is installed with other weights than those pinned.",
            code="model.not_available",
            model=model.name,
            fingerprint=model.fingerprint,
        )
    return encoder


def _read(row: QueryEmbedding) -> QuestionVector:
    return QuestionVector(vector=np.asarray(row.vector, dtype=np.float32), truncated=row.truncated)


def _stored(model: EmbeddingModel, question: Question) -> QueryEmbedding | None:
    return QueryEmbedding.objects.filter(model=model, query_digest=question.digest).first()
