"""One vector per question: where it is kept, where it is copied, and what is not believed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import redis
from django.conf import settings as configured
from django.db import transaction

from retrieval import question_cache
from retrieval.embedding_models import known_model
from retrieval.models import EmbeddingModel, QueryEmbedding
from retrieval.pruning import prune_questions
from retrieval.question_cache import CACHE
from retrieval.questions import Question, QuestionVector, vector_of

pytestmark = pytest.mark.django_db(transaction=True)

QUESTION = Question(query="Who lives in the third house?")
OTHER = Question(query="Who lives in the fourth house?")


@pytest.fixture
def model(transactional_db: None) -> Iterator[EmbeddingModel]:
    CACHE.forget()  # and that Redis is left alone, where an earlier test did without it
    yield known_model("all-MiniLM-L6-v2")
    CACHE.wait_until_copied()
    CACHE.forget()


@pytest.fixture
def keys(model: EmbeddingModel) -> Any:
    """Redis, and a function that gives the keys of cached questions in it."""
    client = redis.Redis.from_url(configured.REDIS_URL)
    for key in client.scan_iter("question:*"):
        client.delete(key)

    def names() -> list[bytes]:
        CACHE.wait_until_copied()
        return list(client.scan_iter("question:*"))

    return client, names


def asked(model: EmbeddingModel, question: Question = QUESTION) -> QuestionVector:
    return vector_of(model, question, keep=True)


def stored(question: Question = QUESTION) -> QueryEmbedding:
    return QueryEmbedding.objects.get(query_digest=question.digest)


def same(one: QuestionVector, other: QuestionVector) -> bool:
    return one.vector.tobytes() == other.vector.tobytes() and one.truncated == other.truncated


def test_question__asked_of_a_version__is_asked_the_database_once(
    model: EmbeddingModel, keys: Any, django_assert_num_queries: Any
) -> None:
    first = asked(model)
    assert stored().kept
    with django_assert_num_queries(0):
        assert same(asked(model), first)
    CACHE.wait_until_copied()
    CACHE.forget()  # another process, or this one started anew
    with django_assert_num_queries(0):
        assert same(asked(model), first)
    assert first.vector.tobytes() == np.asarray(stored().vector, dtype="<f4").tobytes()


def test_question__with_redis_flushed_and_a_cold_process__comes_from_the_database(
    model: EmbeddingModel, keys: Any, django_assert_num_queries: Any
) -> None:
    client, names = keys
    first = asked(model)
    client.delete(*names())
    CACHE.forget()
    with django_assert_num_queries(1):
        assert same(asked(model), first)
    assert len(names()) == 1


@pytest.mark.parametrize(
    "poison",
    ["", "short", "long", "another", "flipped", "truncation", "zeros"],
)
def test_question__with_a_poisoned_copy__comes_from_the_database(
    model: EmbeddingModel, keys: Any, poison: str
) -> None:
    client, names = keys
    asked(model, OTHER)
    (other_key,) = names()
    first = asked(model)
    (key,) = set(names()) - {other_key}
    good = client.get(key)
    client.set(
        key,
        {
            "": b"",
            "short": good[:-4],
            "long": good + b"\0\0\0\0",
            "another": client.get(other_key),
            "flipped": good[:-1] + bytes([good[-1] ^ 1]),
            "truncation": good[:32] + bytes([good[32] ^ 1]) + good[33:],
            "zeros": bytes(len(good)),
        }[poison],
    )
    CACHE.forget()

    assert same(asked(model), first)

    CACHE.wait_until_copied()
    assert client.get(key) == good


def test_question__of_another_installation_in_the_same_redis__is_not_believed(
    model: EmbeddingModel, keys: Any, settings: Any, django_assert_num_queries: Any
) -> None:
    first = asked(model)
    CACHE.wait_until_copied()
    CACHE.forget()
    settings.SECRET_KEY = "another"
    with django_assert_num_queries(1):
        assert same(asked(model), first)


def test_question__of_a_draft__is_not_copied_and_marked_by_the_first_version(
    model: EmbeddingModel, keys: Any
) -> None:
    _, names = keys
    drafted = vector_of(model, QUESTION, keep=False)
    assert (stored().kept, names()) == (False, [])
    vector_of(model, QUESTION, keep=False)

    assert same(asked(model), drafted)

    assert stored().kept
    assert len(names()) == 1


def test_question__in_a_transaction_that_is_undone__leaves_no_copy(
    model: EmbeddingModel, keys: Any
) -> None:
    _, names = keys
    with transaction.atomic():
        asked(model)
        transaction.set_rollback(True)
    assert names() == []
    assert CACHE.get(model, QUESTION.digest) is None
    assert not QueryEmbedding.objects.exists()


def test_question__with_redis_down__is_answered(
    model: EmbeddingModel, keys: Any, settings: Any
) -> None:
    first = asked(model)
    CACHE.forget()
    settings.REDIS_URL = "unix:///nowhere/at/all.sock"
    assert same(asked(model), first)
    assert same(asked(model, OTHER), asked(model, OTHER))
    assert stored(OTHER).kept


def test_cache__over_its_size__forgets_the_least_recently_used(
    model: EmbeddingModel, settings: Any
) -> None:
    settings.QUESTION_CACHE_SIZE = 2
    settings.QUESTION_CACHE_SECONDS = 0
    third = Question(query="Who lives in the fifth house?")
    for question in (QUESTION, OTHER, QUESTION, third):
        asked(model, question)
    assert CACHE.get(model, OTHER.digest) is None
    assert CACHE.get(model, QUESTION.digest) is not None
    assert CACHE.get(model, third.digest) is not None


def test_cache__switched_off__holds_nothing(
    model: EmbeddingModel, keys: Any, settings: Any, django_assert_num_queries: Any
) -> None:
    settings.QUESTION_CACHE_SIZE = settings.QUESTION_CACHE_SECONDS = 0
    asked(model)
    with django_assert_num_queries(1):
        asked(model)
    assert keys[1]() == []


def test_old_questions__of_drafts__go_and_those_of_versions_stay(
    model: EmbeddingModel, settings: Any
) -> None:
    asked(model)
    vector_of(model, OTHER, keep=False)
    assert prune_questions() == 0
    settings.QUESTIONS_KEPT_DAYS = 0
    assert (prune_questions(dry_run=True), prune_questions(), prune_questions()) == (1, 1, 0)
    assert stored().kept
    assert QueryEmbedding.objects.count() == 1


def test_database__asked_who_it_is__differs_by_cluster_and_database() -> None:
    system, _, oid = question_cache._database(configured.DATABASES["default"]["NAME"]).partition(
        "."
    )
    assert int(system) > 0
    assert int(oid) > 0
