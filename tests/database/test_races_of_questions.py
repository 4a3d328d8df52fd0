"""Askers that meet each other and the removal of old questions: one question, one vector."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from registry.access import create_api_key
from registry.errors import TooMany
from registry.models import ApiKey
from retrieval.embedding_models import known_model
from retrieval.models import EmbeddingModel, NewQuestions, QueryEmbedding
from retrieval.pruning import prune_questions
from retrieval.question_cache import CACHE
from retrieval.questions import Question, QuestionVector, vector_of
from tests import builders
from tests.database.threads import Running, other_session, together, waiting
from tests.worker import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

QUESTION = Question(query="Who lives in the third house?")


@pytest.fixture
def model(transactional_db: None, settings: Any) -> EmbeddingModel:
    settings.QUESTIONS_KEPT_DAYS = 0
    CACHE.forget()
    return known_model("all-MiniLM-L6-v2")


@pytest.fixture
def drafted(model: EmbeddingModel) -> QueryEmbedding:
    """A draft's question, embedded by a runtime that differs from this one in the last bit."""
    there = vector_of(model, Question(query="Another"), keep=False).vector.copy()
    there[0] = np.nextafter(there[0], np.float32(1), dtype=np.float32)
    return QueryEmbedding.objects.create(
        model=model, query_digest=QUESTION.digest, vector=there, provenance="another runtime"
    )


def bits(vector: Any) -> bytes:
    return np.asarray(vector, dtype="<f4").tobytes()


def test_question__removed_between_the_look_and_the_mark__comes_back_as_it_was(
    model: EmbeddingModel, drafted: QueryEmbedding
) -> None:
    with other_session() as sweep:
        sweep.execute("DELETE FROM retrieval_queryembedding WHERE id = %s", [drafted.pk])
        asking = Running(partial(vector_of, model, QUESTION, keep=True))
        wait_until(lambda: waiting() >= 1)
        sweep.commit()
        found = asking.end()

    assert isinstance(found, QuestionVector)
    row = QueryEmbedding.objects.get(query_digest=QUESTION.digest)
    assert row.pk != drafted.pk
    assert (row.kept, row.provenance) == (True, "another runtime")
    assert bits(found.vector) == bits(row.vector) == bits(drafted.vector)


def test_question__being_marked_while_old_ones_are_removed__stays(
    model: EmbeddingModel, drafted: QueryEmbedding
) -> None:
    with other_session() as marking:
        marking.execute(
            "UPDATE retrieval_queryembedding SET kept = true WHERE id = %s", [drafted.pk]
        )
        assert prune_questions() == 1  # the other one: whoever is marked now is not waited for
        marking.commit()
    assert prune_questions() == 0
    assert QueryEmbedding.objects.get().kept


def test_question__asked_and_removed_by_many_at_once__has_one_vector(
    model: EmbeddingModel, drafted: QueryEmbedding
) -> None:
    works = [partial(vector_of, model, QUESTION, keep=True)] * 6 + [prune_questions] * 3
    outcomes = together(*works)
    assert [one for one in outcomes if isinstance(one, Exception)] == []
    row = QueryEmbedding.objects.get(query_digest=QUESTION.digest)
    assert row.kept
    assert {bits(one.vector) for one in outcomes[:6]} == {bits(row.vector)}


def test_limit__reached_by_many_at_once__is_not_passed(
    one_hour: None, model: EmbeddingModel, settings: Any
) -> None:
    settings.NEW_QUESTIONS_PER_HOUR = 3
    create_api_key(actor=builders.ACTOR, name="busy", scope="runtime")
    key = ApiKey.objects.get().pk
    questions = [Question(query=f"Question {number}?") for number in range(8)]
    outcomes = together(
        *(partial(vector_of, model, one, keep=True, asker=key) for one in questions)
    )
    assert (
        sorted(type(one).__name__ for one in outcomes) == ["QuestionVector"] * 3 + ["TooMany"] * 5
    )
    assert QueryEmbedding.objects.count() == NewQuestions.objects.get().count == 3
    assert all(one.retry_after <= 3600 for one in outcomes if isinstance(one, TooMany))


def test_question__asked_by_many_keys_at_once__is_counted_once(model: EmbeddingModel) -> None:
    for name in ("one", "two", "three"):
        create_api_key(actor=builders.ACTOR, name=name, scope="runtime")
    keys = ApiKey.objects.values_list("pk", flat=True)
    outcomes = together(
        *(partial(vector_of, model, QUESTION, keep=True, asker=key) for key in keys)
    )
    assert len({bits(one.vector) for one in outcomes}) == 1
    assert sum(NewQuestions.objects.values_list("count", flat=True)) == 1
