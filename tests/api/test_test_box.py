"""The test box by URL: answers, notices, diagnosis, and every kind of bad input."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.indexing import start_build
from retrieval.models import KnowledgeBase
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written
from tests.endpoint import KEY, Endpoint

COVERED = "How long are lamps covered?"


@pytest.fixture
def base(db: None) -> KnowledgeBase:
    return builders.base_with()


def _ask(api: CheckedClient, base: KnowledgeBase, **body: Any) -> Any:
    return api.post(f"/api/v1/knowledge-bases/{base.pk}/test", body, format="json")


def test_test_box__with_an_answer__has_text_citations_and_no_diagnosis(
    api: CheckedClient, base: KnowledgeBase, endpoint: Endpoint
) -> None:
    endpoint.text = "Lamps are covered for two years from the day of purchase [1] [9]."

    response = _ask(api, base, query=COVERED, answer=True)

    body = response.json()
    assert body["answer"] == {"text": endpoint.text, "model": "a-model", "citations": [1]}
    assert body["answerNotice"] is None
    assert body["diagnosis"] == []
    assert body["results"][0]["document"]["name"] == "warranty.md"
    # The model was given what was returned, and nothing that was cut off.
    user = endpoint.requests[0]["messages"][1]["content"]
    assert all(result["passage"] in user for result in body["results"])
    cut = [one["passage"] for one in body["candidates"] if not one["kept"]]
    assert not any(passage in user for passage in cut)
    assert KEY not in response.content.decode()


def test_test_box__answer_that_no_passage_supports__is_diagnosed(
    api: CheckedClient, base: KnowledgeBase, endpoint: Endpoint
) -> None:
    endpoint.text = "Lamps are covered for nine years [1]."

    asked = _ask(api, base, query=COVERED, confidenceThreshold=0, answer=True)
    [finding] = asked.json()["diagnosis"]

    assert finding["code"] == "answer.unsupported"
    assert "nine years" in finding["why"]


@pytest.mark.parametrize(
    ("mood", "configured", "code"),
    [
        ({"status": 500}, {}, "answer.failed"),
        ({"delay": 20.0}, {"ANSWER_TIMEOUT_SECONDS": 1}, "answer.slow"),
        ({}, {"ANSWER_MODEL": "none"}, "answer.no_model"),
    ],
)
def test_test_box__no_failing_or_slow_model__shows_the_passages_all_the_same(
    api: CheckedClient,
    base: KnowledgeBase,
    endpoint: Endpoint,
    settings: Any,
    mood: dict[str, Any],
    configured: dict[str, Any],
    code: str,
) -> None:
    for name, value in mood.items():
        setattr(endpoint, name, value)
    for name, value in configured.items():
        setattr(settings, name, value)
    plain = _ask(api, base, query=COVERED).json()

    response = _ask(api, base, query=COVERED, answer=True)

    assert response.status_code == 200
    body = response.json()
    assert body["answer"] is None
    assert body["answerNotice"]["code"] == code
    assert KEY not in response.content.decode()
    assert {**body, "answerNotice": None} == plain


def test_test_box__nothing_returned__asks_no_model(
    api: CheckedClient, base: KnowledgeBase, endpoint: Endpoint
) -> None:
    body = _ask(api, base, query=COVERED, confidenceThreshold=1, answer=True).json()

    assert body["answerNotice"]["code"] == "answer.no_passages"
    assert [finding["code"] for finding in body["diagnosis"]] == ["floor.cuts_everything"]
    assert endpoint.requests == []


def test_test_box__local_model__answers(
    api: CheckedClient, base: KnowledgeBase, local_model: None
) -> None:
    body = _ask(api, base, query=COVERED, topK=1, answer=True).json()

    assert body["answerNotice"] is None or body["answerNotice"]["code"] == "answer.cut", body
    assert body["answer"]["model"] == "SmolLM2-135M-Instruct"
    assert set(body["answer"]["citations"]) <= {1}


@pytest.mark.parametrize("query", [None, "", " \n\t", "x" * 100_000, 7, ["a"], {"a": 1}])
def test_test_box__query_that_is_none__is_refused(
    api: CheckedClient, base: KnowledgeBase, query: Any
) -> None:
    with nothing_written():
        response = _ask(api, base, query=query)

    assert_problem(response, 422, "request.required" if query is None else "invalid", field="query")


@pytest.mark.parametrize(
    ("content", "code", "field"),
    [
        (b'{"query": "a\\u0000b"}', "json.nul", "query"),
        (b'{"query": "a\\ud800"}', "json.lone_surrogate", "query"),
        (b'{"query": "\\udc00\\ud800"}', "json.lone_surrogate", "query"),
        (b'{"query": "a", "confidenceThreshold": NaN}', "json.not_a_number", "confidenceThreshold"),
        (
            b'{"query": "a", "confidenceThreshold": -Infinity}',
            "json.not_a_number",
            "confidenceThreshold",
        ),
        (
            b'{"query": "a", "confidenceThreshold": 1e999}',
            "json.number_too_large",
            "confidenceThreshold",
        ),
        (b'{"query": "\xff"}', "json.not_utf8", None),
    ],
)
def test_test_box__what_is_no_text_or_number__cannot_be_read(
    api: CheckedClient, base: KnowledgeBase, content: bytes, code: str, field: str | None
) -> None:
    with nothing_written():
        response = api.post(
            f"/api/v1/knowledge-bases/{base.pk}/test", content, content_type="application/json"
        )

    assert_problem(response, 400, code, field=field)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"confidenceThreshold": 1.01}, "confidenceThreshold"),
        ({"confidenceThreshold": -0.5}, "confidenceThreshold"),
        ({"topK": 51}, "topK"),
        ({"topK": 0}, "topK"),
        ({"snapshot": 0}, "snapshot"),
        ({"snapshot": 1.5}, "snapshot"),
        ({"snapshot": "sha256:" + "0" * 64}, "snapshot"),
        ({"answer": "yes"}, "answer"),
        ({"answer": None}, "answer"),
        ({"rerank": True}, "rerank"),
    ],
)
def test_test_box__member_that_is_wrong__is_refused_by_name(
    api: CheckedClient, base: KnowledgeBase, body: dict[str, Any], field: str
) -> None:
    with nothing_written():
        response = _ask(api, base, query=COVERED, **body)

    code = "request.unknown_field" if field == "rerank" else "invalid"
    assert_problem(response, 422, code, field=field)


def test_test_box__snapshot_of_another_base_or_not_ready__is_refused(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    other = builders.base_with()
    builders.add_text(other, "new.md", "New.")
    builders.build(other)
    builders.add_text(other, "newer.md", "Newer.")
    start_build(other.pk)

    with nothing_written():
        of_other = _ask(api, base, query=COVERED, snapshot=2)
        building = _ask(api, other, query=COVERED, snapshot=3)

    assert_problem(of_other, 404, "snapshot.not_found")
    assert assert_problem(building, 409, "snapshot.not_ready")["state"] == "building"


def test_test_box__question_over_what_the_model_reads__says_that_it_was_cut(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    body = _ask(api, base, query=f"{COVERED} " * 400, topK=1).json()

    assert body["applied"]["queryTokens"] == {"value": 256, "source": "cap"}
    assert body["results"][0]["document"]["name"] == "warranty.md"


@pytest.mark.parametrize(
    "query",
    [
        "灯具的保修期是多久?",
        "Wie lange gilt die Garantie für Lampen?",
        "ما هي مدة ضمان المصابيح؟",
        "🔦" * 50,
        "\u202e\u0301\ufeff",
    ],
)
def test_test_box__language_the_model_was_not_trained_for__works(
    api: CheckedClient, base: KnowledgeBase, query: str
) -> None:
    response = _ask(api, base, query=query, confidenceThreshold=0)

    assert response.status_code == 200
    assert response.json()["results"]
