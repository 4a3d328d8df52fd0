"""Evaluation sets and evaluations by URL."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from registry.models import AuditEvent
from retrieval.evaluation import claim_evaluation, start_evaluation, work_on_evaluation
from retrieval.indexing import start_build
from retrieval.knowledge_bases import update_knowledge_base
from retrieval.models import Evaluation, EvaluationQuestion, KnowledgeBase
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written

COVERED = "How long are lamps covered?"
POSTAGE = "Who pays the postage of a return?"


@pytest.fixture(autouse=True)
def time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is, it evaluates a small set at once."""
    defaults: dict[str, Any] = start_evaluation.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "at_once", 60.0)


@pytest.fixture
def base(db: None) -> KnowledgeBase:
    return builders.base_with()


def _url(base: KnowledgeBase, below: str = "questions") -> str:
    return f"/api/v1/knowledge-bases/{base.pk}/{below}"


def _post(api: CheckedClient, base: KnowledgeBase, below: str = "questions", **body: Any) -> Any:
    return api.post(_url(base, below), body, format="json")


def _id(base: KnowledgeBase, name: str) -> str:
    return str(base.documents.get(name=name).pk)


def test_question__written_read_changed_and_deleted__is_what_was_said(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    made = _post(api, base, query=COVERED, documents=["warranty.md"])
    assert made.status_code == 201
    question = made.json()
    assert question["query"] == COVERED
    assert question["documents"] == [
        {"document": _id(base, "warranty.md"), "name": "warranty.md", "pages": None, "grade": 1}
    ]
    address = f"{_url(base)}/{question['id']}"
    assert api.get(address).json() == question
    assert api.get(_url(base)).json() == {"results": [question], "next": None}

    changed = api.put(
        address,
        {
            "query": POSTAGE,
            "documents": [{"document": _id(base, "returns.md"), "pages": [2, 1], "grade": 3}],
        },
        format="json",
    )
    assert changed.json()["documents"] == [
        {"document": _id(base, "returns.md"), "name": "returns.md", "pages": [1, 2], "grade": 3}
    ]
    # What the API gives is what it takes.
    body = {key: changed.json()[key] for key in ("query", "documents")}
    assert api.put(address, body, format="json").json() == changed.json()

    assert api.delete(address).status_code == 204
    assert_problem(api.get(address), 404, "evaluation_question.not_found")
    actions = AuditEvent.objects.filter(action__startswith="evaluation_question")
    assert list(actions.order_by("pk").values_list("action", flat=True)) == [
        "evaluation_question.added",
        "evaluation_question.changed",
        "evaluation_question.deleted",
    ]


def test_questions__in_bulk__are_added_changed_and_replaced(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    first = [{"query": COVERED, "documents": ["warranty.md"]}, {"query": "?", "documents": []}]
    second = [{"query": COVERED, "documents": ["returns.md"]}, {"query": POSTAGE, "documents": []}]

    assert _post(api, base, questions=first).json() == {
        "created": 2,
        "updated": 0,
        "unchanged": 0,
        "deleted": 0,
    }
    assert _post(api, base, questions=second).json()["updated"] == 1
    replaced = api.put(_url(base), {"questions": second}, format="json")

    assert replaced.json() == {"created": 0, "updated": 0, "unchanged": 2, "deleted": 1}
    listed = api.get(_url(base), {"limit": 1}).json()
    assert [one["query"] for one in listed["results"]] == [COVERED]
    rest = api.get(_url(base), {"cursor": listed["next"]}).json()
    assert [one["query"] for one in rest["results"]] == [POSTAGE]


def test_question__that_the_set_has__is_a_conflict(api: CheckedClient, base: KnowledgeBase) -> None:
    there = _post(api, base, query=COVERED, documents=[]).json()["id"]
    other = _post(api, base, query=POSTAGE, documents=[]).json()["id"]

    with nothing_written():
        again = _post(api, base, query=COVERED, documents=["warranty.md"])
        renamed = api.put(
            f"{_url(base)}/{other}", {"query": COVERED, "documents": []}, format="json"
        )

    for response in (again, renamed):
        problem = assert_problem(response, 409, "evaluation_question.taken", field="query")
        assert problem["question"] == there


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "request.required", "query"),
        ({"query": "", "documents": []}, "invalid", "query"),
        ({"query": " \n", "documents": []}, "invalid", "query"),
        ({"query": "x" * 100_000, "documents": []}, "invalid", "query"),
        ({"query": ["a"], "documents": []}, "invalid", "query"),
        ({"query": "a"}, "request.required", "documents"),
        ({"query": "a", "documents": "warranty.md"}, "invalid", "documents"),
        ({"query": "a", "documents": ["warranty"]}, "document.unknown", "documents.0.name"),
        ({"query": "a", "documents": [{}]}, "request.required", "documents.0.name"),
        ({"query": "a", "documents": [7]}, "invalid", "documents.0"),
        ({"query": "a", "documents": [{"document": "x"}]}, "invalid", "documents.0.document"),
        (
            {"query": "a", "documents": [{"document": "6e7c6f4e-6a4e-4d0e-9a53-0d0f0a4f6c55"}]},
            "document.unknown",
            "documents.0.document",
        ),
        (
            {"query": "a", "documents": [{"name": "warranty.md", "grade": 0}]},
            "invalid",
            "documents.0.grade",
        ),
        (
            {"query": "a", "documents": [{"name": "warranty.md", "pages": "1"}]},
            "invalid",
            "documents.0.pages",
        ),
        (
            {"query": "a", "documents": [{"name": "warranty.md", "page": 1}]},
            "request.unknown_field",
            "documents.0.page",
        ),
        ({"questions": {}}, "invalid", "questions"),
        ({"questions": ["a"]}, "invalid", "questions.0"),
        ({"questions": [{"query": "a"}]}, "request.required", "questions.0.documents"),
        ({"questions": [], "query": "a"}, "request.unknown_field", "query"),
    ],
)
def test_question__wrong__is_refused_by_name(
    api: CheckedClient, base: KnowledgeBase, body: dict[str, Any], code: str, field: str
) -> None:
    with nothing_written():
        response = _post(api, base, **body)

    assert_problem(response, 422, code, field=field)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b'{"query": "a\\u0000b", "documents": []}', "json.nul"),
        (b'{"query": "a\\ud800", "documents": []}', "json.lone_surrogate"),
        (b'{"query": "a", "documents": [{"name": "x", "grade": NaN}]}', "json.not_a_number"),
    ],
)
def test_question__that_is_no_text__cannot_be_read(
    api: CheckedClient, base: KnowledgeBase, content: bytes, code: str
) -> None:
    with nothing_written():
        response = api.post(_url(base), content, content_type="application/json")

    assert_problem(response, 400, code)


def test_question__of_another_base__does_not_exist(api: CheckedClient, base: KnowledgeBase) -> None:
    other = builders.make_base()
    question = _post(api, base, query=COVERED, documents=[]).json()["id"]

    with nothing_written():
        for address in (f"{_url(other)}/{question}", f"{_url(base)}/{uuid.uuid4()}"):
            assert_problem(api.get(address), 404, "evaluation_question.not_found")
            assert_problem(api.delete(address), 404, "evaluation_question.not_found")
        response = _post(api, other, query="a", documents=[{"document": _id(base, "returns.md")}])
    assert_problem(response, 422, "document.unknown", field="documents.0.document")


def test_evaluate__small_set__answers_at_once_side_by_side(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    questions = [
        {"query": COVERED, "documents": ["warranty.md"]},
        {"query": POSTAGE, "documents": ["returns.md"]},
        {"query": "Do you sell gift cards?", "documents": []},
    ]
    _post(api, base, questions=questions)
    update_knowledge_base(
        actor=builders.ACTOR,
        knowledge_base_id=base.pk,
        values={"chunking": {"strategy": "document", "size": 200, "overlap": 0}},
    )
    builders.build(base)

    response = _post(api, base, "evaluate", snapshots=[1, 2])

    assert response.status_code == 200
    body = response.json()
    assert body["state"] == "done"
    assert body["progress"] == {"asked": 6, "of": 6}
    assert [score["snapshot"]["number"] for score in body["scores"]] == [1, 2]
    assert [score["chunking"]["strategy"] for score in body["scores"]] == ["recursive", "document"]
    assert body["scores"][0]["measures"] == {
        "nDCG@10": 1,
        "MRR@10": 1,
        "recall@5": 1,
        "recall@10": 1,
        "recall@25": 1,
        "hit@1": 1,
    }
    assert body["scores"][0]["measuredQuestions"] == 2
    assert len(body["comparisons"]) == 1
    address = f"{_url(base, 'evaluations')}/{body['id']}"
    assert api.get(address).json() == body
    listed = api.get(_url(base, "evaluations")).json()["results"]
    assert listed == [{key: value for key, value in body.items() if key != "comparisons"}]
    outcomes = api.get(f"{address}/outcomes", {"limit": 2}).json()
    assert [row["query"] for row in outcomes["results"]] == [COVERED, POSTAGE]
    assert [one["snapshot"] for one in outcomes["results"][0]["outcomes"]] == [1, 2]
    rest = api.get(f"{address}/outcomes", {"cursor": outcomes["next"]}).json()["results"]
    assert rest[0]["outcomes"][0]["measures"] is None


def test_evaluate__questions_change_afterwards__keeps_those_it_had(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    _post(api, base, query=COVERED, documents=["warranty.md"])
    before = _post(api, base, "evaluate").json()

    api.put(_url(base), {"questions": []}, format="json")

    address = f"{_url(base, 'evaluations')}/{before['id']}"
    assert api.get(address).json() == before
    assert api.get(f"{address}/outcomes").json()["results"][0]["query"] == COVERED
    assert_problem(_post(api, base, "evaluate"), 409, "evaluation.no_questions")


def test_evaluate__large_set__is_accepted_and_left_to_workers(
    api: CheckedClient, base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    _post(
        api,
        base,
        questions=[{"query": f"{COVERED} {n}", "documents": ["warranty.md"]} for n in range(9)],
    )
    # Nine questions are over this.
    defaults: dict[str, Any] = start_evaluation.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "at_once", 0.001)

    response = _post(api, base, "evaluate")

    assert response.status_code == 202
    body = response.json()
    assert body["state"] == "running"
    assert 1 <= body["progress"]["asked"] < 9
    assert body["scores"][0]["measures"] is None
    assert body["comparisons"] == []
    claim = claim_evaluation(uuid.UUID(body["id"]))
    assert claim is not None
    work_on_evaluation(claim, seconds=60)
    done = api.get(f"{_url(base, 'evaluations')}/{body['id']}").json()
    assert done["state"] == "done"
    assert done["scores"][0]["measures"]["hit@1"] == 1


def test_evaluate__repeated_with_its_key__is_one_evaluation(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    _post(api, base, query=COVERED, documents=["warranty.md"])

    first, second = (
        api.post(_url(base, "evaluate"), {}, format="json", HTTP_IDEMPOTENCY_KEY="once")
        for _ in range(2)
    )

    assert first.json() == second.json()
    assert first.json()["state"] == "done"
    assert Evaluation.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"snapshots": []}, "invalid", "snapshots"),
        ({"snapshots": 1}, "invalid", "snapshots"),
        ({"snapshots": list(range(1, 12))}, "invalid", "snapshots"),
        ({"snapshots": [1, "2"]}, "invalid", "snapshots.1"),
        ({"snapshots": [1, None]}, "invalid", "snapshots.1"),
        ({"snapshots": [1, 1]}, "invalid", "snapshots.1"),
        ({"snapshots": [1, 9]}, "snapshot.unknown", "snapshots.1"),
        ({"snapshots": [1, 2]}, "snapshot.not_ready", "snapshots.1"),
        ({"rankings": ["best"]}, "invalid", "rankings.0"),
        ({"rankings": ["dense", "dense"]}, "invalid", "rankings.1"),
        ({"rankings": "dense"}, "invalid", "rankings"),
        ({"snapshot": [1]}, "request.unknown_field", "snapshot"),
    ],
)
def test_evaluate__wrong__is_refused_by_name(
    api: CheckedClient, base: KnowledgeBase, body: dict[str, Any], code: str, field: str
) -> None:
    _post(api, base, query=COVERED, documents=["warranty.md"])
    builders.add_text(base, "new.md", "New.")
    start_build(base.pk)

    with nothing_written():
        response = _post(api, base, "evaluate", **body)

    assert_problem(response, 422, code, field=field)


def test_evaluate__base_without_a_snapshot__is_a_conflict(api: CheckedClient) -> None:
    base = builders.make_base()
    _post(api, base, query=COVERED, documents=[])

    assert_problem(_post(api, base, "evaluate"), 409, "knowledge_base.no_snapshot")


def test_evaluation__of_another_base__does_not_exist(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    other = builders.make_base()
    _post(api, base, query=COVERED, documents=["warranty.md"])
    key = _post(api, base, "evaluate").json()["id"]

    for below in ("", "/outcomes"):
        response = api.get(f"{_url(other, 'evaluations')}/{key}{below}")
        assert_problem(response, 404, "evaluation.not_found")


def test_knowledge_base__deleted__takes_its_questions_along(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    _post(api, base, query=COVERED, documents=["warranty.md"])
    _post(api, base, "evaluate")

    assert api.delete(f"/api/v1/knowledge-bases/{base.pk}").status_code == 204

    assert EvaluationQuestion.objects.count() == Evaluation.objects.count() == 0
