"""What is asked, checked, and the one vector it has.

A question's vector is computed once per model, kept in PostgreSQL and read back from there before
anything is ranked: two runtimes differ in the last bits, and stored bits do not.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db import connection, transaction

from registry import requests
from registry.canonical import digest_text
from registry.errors import Unavailable
from registry.strict_json import check_text
from retrieval.encoders import Encoder, encoder_for
from retrieval.models import EmbeddingModel, QueryEmbedding
from retrieval.question_cache import CACHE
from retrieval.question_limits import Room, Used
from retrieval.vectors import Vector, from_wire, literal

_ATTEMPTS = 10
# Functions, planned once per session: each new question comes by here.
_FIND = "SELECT * FROM retrieval_find_question(%s, %s, %s, %s, %s)"
_STORE = (
    "SELECT * FROM retrieval_store_question(%s, %s, %s::vector, %s, %s, %s, %s, %s, %s, %s, %s)"
)

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


def vector_of(
    model: EmbeddingModel, question: Question, *, keep: bool, asker: uuid.UUID | None = None
) -> QuestionVector:
    """Return the one vector of ``question``, stored before it is used.

    ``keep`` is True for questions to published versions: their row stays as long as any version
    pins the model. Its first sight is committed, durably, before this returns (where the caller
    has no transaction open); later ones write nothing. ``asker`` is the API key on whose account
    a new question goes. Raises Unavailable (``model.not_available``) and TooMany
    (``questions.limit_reached``) for a new question; one asked before is answered all the same.
    """
    copy = CACHE.get(model, question.digest)
    if copy is not None:
        return QuestionVector(vector=copy[0], truncated=copy[1])
    row = _stored_for_good(model, question, keep=keep, asker=asker)
    found = _read(row)
    if row.kept:
        CACHE.put_after_commit(model, question.digest, found.vector, truncated=found.truncated)
    return found


def _stored_for_good(
    model: EmbeddingModel, question: Question, *, keep: bool, asker: uuid.UUID | None
) -> QueryEmbedding:
    """Return the question's row; with ``keep``, only once it is certain that it stays."""
    earlier: QueryEmbedding | None = None
    for _ in range(_ATTEMPTS):
        room = Room.of(asker)
        row, used = _look_up(model, question, room)
        if row is None and earlier is None:
            room.require(used)
            # None where another asker was faster, be it to the question or to the last room for
            # one: the next look tells.
            made = _insert(_embedded(model, question), keep=keep, room=room)
            if made is not None:
                return made
        elif row is None and earlier is not None:
            # A draft's old question was removed between the look and the mark. Its vector comes
            # back as it was: it may have been used.
            _insert(earlier, keep=keep, room=Room.of(None))
        elif row is not None:
            if row.kept or not keep or _mark_kept(row):
                return row
            earlier = row
    raise Unavailable("The question could not be stored; ask again.", code="question.not_stored")


def _embedded(model: EmbeddingModel, question: Question) -> QueryEmbedding:
    encoder = _encoder_of(model)
    computed = _computed(encoder, question)
    return QueryEmbedding(
        model=model,
        query_digest=question.digest,
        vector=computed.vector,
        truncated=computed.truncated,
        provenance=encoder.provenance,
    )


def _computed(encoder: Encoder, question: Question) -> QuestionVector:
    # Counted first: an encoder that has just counted a text need not tokenise it again.
    truncated = encoder.query_tokens(question.query) > encoder.max_tokens
    return QuestionVector(vector=encoder.encode_query(question.query), truncated=truncated)


def _insert(row: QueryEmbedding, *, keep: bool, room: Room) -> QueryEmbedding | None:
    """Insert a row unless there is one or ``room`` is used up; counted where it is new.

    Returns it as PostgreSQL has it, durably committed where no transaction is open.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _STORE,
            [
                row.model_id,
                row.query_digest,
                literal(np.asarray(row.vector, dtype=np.float32)),
                keep,
                row.truncated,
                row.provenance,
                *room.arguments,
                *room.limits,
            ],
        )
        return _row(row.model, row.query_digest, cursor.fetchone()[:5])


def _mark_kept(row: QueryEmbedding) -> bool:
    """Mark a row as kept; False where it was removed, or marked by another, since it was read."""
    with transaction.atomic(), connection.cursor() as cursor:
        # This commit is durable, whatever the session or the server says.
        cursor.execute("SET LOCAL synchronous_commit TO on")
        row.kept = bool(QueryEmbedding.objects.filter(pk=row.pk, kept=False).update(kept=True))
    return row.kept


def vector_again(model: EmbeddingModel, question: Question) -> QuestionVector:
    """Return the vector of ``question`` from its row, past every cache, writing nothing.

    One that has been forgotten (drafts' questions are, after a while) is computed anew. Raises
    Unavailable (``model.not_available``) where that cannot be.
    """
    row, _ = _look_up(model, question, Room.of(None))
    if row is not None:
        return _read(row)
    return _computed(_encoder_of(model), question)


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


def _look_up(
    model: EmbeddingModel, question: Question, room: Room
) -> tuple[QueryEmbedding | None, Used]:
    """Return the question's row; without one, how many new questions the asker has asked."""
    with connection.cursor() as cursor:
        cursor.execute(_FIND, [model.pk, question.digest, *room.arguments])
        *columns, of_hour, of_day = cursor.fetchone()
    return _row(model, question.digest, columns), Used(of_hour, of_day)


def _row(model: EmbeddingModel, query_digest: str, columns: Sequence[Any]) -> QueryEmbedding | None:
    pk, vector, kept, truncated, provenance = columns
    if pk is None:
        return None
    return QueryEmbedding(
        pk=pk,
        model=model,
        query_digest=query_digest,
        vector=from_wire(vector),
        kept=kept,
        truncated=truncated,
        provenance=provenance,
    )
