from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from registry.models import ApiKey
from retrieval.models import NewQuestions, QueryEmbedding
from retrieval.question_limits import forget_old_counts
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem

pytestmark = pytest.mark.usefixtures("one_hour")

CALL = "/api/v1/agents/support/tools/search/call"
RETRIEVE = "/api/v1/agents/support/retrieve"


@pytest.fixture
def runtime(db: None, client_for: Any, settings: Any) -> CheckedClient:
    settings.NEW_QUESTIONS_PER_HOUR = 2
    base = builders.base_with("Returns")
    builders.published(base, slug="support")
    client: CheckedClient = client_for("runtime")
    return client


def _ask(client: CheckedClient, query: str, address: str = CALL, **more: Any) -> Any:
    return client.post(address, {"version": 1, "query": query, **more}, format="json")


def test_new_questions__over_the_limit__are_429_and_known_ones_answered(
    runtime: CheckedClient, client_for: Any
) -> None:
    assert _ask(runtime, "One?").status_code == 200
    assert _ask(runtime, "Two?").status_code == 200

    refused = _ask(runtime, "Three?")

    body = assert_problem(refused, 429, "questions.limit_reached")
    assert (body["limit"], body["window"]) == (2, "hour")
    assert 0 < int(refused["Retry-After"]) == body["retryAfter"] <= 3600
    assert QueryEmbedding.objects.count() == 2
    assert _ask(runtime, "One?").status_code == 200
    assert _ask(client_for("runtime"), "Three?").status_code == 200
    # Asked by another meanwhile: not new any more.
    assert _ask(runtime, "Three?").status_code == 200


def test_retrieve__over_the_limit__is_429_as_a_whole(runtime: CheckedClient) -> None:
    for query in ("One?", "Two?"):
        assert _ask(runtime, query, RETRIEVE, context={}).status_code == 200

    refused = _ask(runtime, "Three?", RETRIEVE, context={})

    assert_problem(refused, 429, "questions.limit_reached")


def test_test_box__over_the_limit__is_429(client_for: Any, settings: Any) -> None:
    settings.NEW_QUESTIONS_PER_HOUR = 1
    base = builders.base_with("Returns")
    client = client_for("editor")
    address = f"/api/v1/knowledge-bases/{base.pk}/test"
    assert client.post(address, {"query": "One?"}, format="json").status_code == 200

    refused = client.post(address, {"query": "Two?"}, format="json")

    assert_problem(refused, 429, "questions.limit_reached")


def test_new_questions__over_the_days_limit__wait_for_the_next_day(
    runtime: CheckedClient, settings: Any
) -> None:
    settings.NEW_QUESTIONS_PER_HOUR, settings.NEW_QUESTIONS_PER_DAY = 0, 3
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    key = ApiKey.objects.get()
    for hour, count in ((midnight, 2), (midnight - timedelta(hours=1), 9)):
        NewQuestions.objects.create(api_key=key, hour=hour, count=count)
    assert _ask(runtime, "One?").status_code == 200

    body = assert_problem(_ask(runtime, "Two?"), 429, "questions.limit_reached")

    assert (body["limit"], body["window"]) == (3, "day")
    assert 0 < body["retryAfter"] <= 86_400


def test_new_questions__without_a_limit__are_answered(
    runtime: CheckedClient, settings: Any
) -> None:
    settings.NEW_QUESTIONS_PER_HOUR = settings.NEW_QUESTIONS_PER_DAY = 0
    assert [_ask(runtime, f"{one}?").status_code for one in range(4)] == [200] * 4


def test_counts__of_days_ago__are_forgotten(runtime: CheckedClient) -> None:
    _ask(runtime, "One?")
    old = timezone.now() - timedelta(days=3)
    NewQuestions.objects.create(api_key=ApiKey.objects.get(), hour=old, count=1)
    assert forget_old_counts() == 1
    assert NewQuestions.objects.get().count == 1
