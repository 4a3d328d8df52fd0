from __future__ import annotations

from typing import Any

import pytest

from retrieval.indexing import start_build
from retrieval.models import KnowledgeBase
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written
from tests.traces import kept_traces


def _base(base: KnowledgeBase) -> str:
    return f"/api/v1/knowledge-bases/{base.pk}"


def test_list__several_snapshots__are_newest_first_with_who_holds_them(
    api: CheckedClient,
) -> None:
    base = builders.base_with()
    builders.published(base, slug="support")
    builders.add_text(base, "new.md", "New.")
    builders.build(base)

    newest, oldest = api.get(f"{_base(base)}/snapshots").json()["results"]

    assert (newest["number"], newest["current"], newest["pinnedBy"]) == (2, True, [])
    assert (oldest["number"], oldest["current"], oldest["pinnedBy"]) == (1, False, ["support v1"])
    assert (newest["documents"], oldest["documents"]) == (3, 2)
    assert oldest["chunking"] == {"strategy": "recursive", "size": 200, "overlap": 20}
    assert api.get(f"{_base(base)}/snapshots/1").json() == oldest


def test_snapshot__held_by_an_agent_outside_the_key__does_not_name_it(client_for: Any) -> None:
    base = builders.base_with()
    builders.published(base, slug="secret")
    limited = client_for("editor", agents=["mine"], knowledge_bases=[base.pk])

    shown = limited.get(f"{_base(base)}/snapshots/1").json()

    assert shown["pinnedBy"] == ["another agent"]


@pytest.mark.parametrize("number", ["0", "7", "99999999999", "9" * 5000])
def test_snapshot__unknown_number__is_not_found(api: CheckedClient, number: str) -> None:
    base = builders.make_base()

    response = api.get(f"{_base(base)}/snapshots/{number}")

    assert response.status_code == 404
    assert response["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("count", [1, 3])
def test_list__however_many__takes_five_queries(
    api: CheckedClient, django_assert_num_queries: Any, count: int
) -> None:
    base = builders.make_base()
    for number in range(count):
        builders.add_text(base, f"{number}.md", f"Number {number}.")
        builders.build(base)

    with django_assert_num_queries(5):  # the key, the base, the page, the pins, the sizes
        response = api.get(f"{_base(base)}/snapshots")

    assert len(response.json()["results"]) == count


def test_cancel__running_build__serves_what_was_served(api: CheckedClient) -> None:
    base = builders.base_with()
    builders.add_text(base, "new.md", "New.")
    start_build(base.pk)

    response = api.post(f"{_base(base)}/snapshots/2/cancel")

    assert (response.status_code, response.json()["state"]) == (200, "cancelled")
    shown = api.get(_base(base)).json()
    assert shown["currentSnapshot"]["number"] == 1
    assert shown["build"] is None


def test_cancel__ended_snapshot__is_a_conflict(api: CheckedClient) -> None:
    base = builders.base_with()

    with nothing_written():
        response = api.post(f"{_base(base)}/snapshots/1/cancel")

    assert assert_problem(response, 409, "snapshot.not_building")["state"] == "ready"


def test_test_box__question__answers_like_a_tool_with_all_candidates(api: CheckedClient) -> None:
    base = builders.base_with()

    response = api.post(
        f"{_base(base)}/test",
        {"query": "How long are lamps covered?", "topK": 2, "confidenceThreshold": 0.5},
        format="json",
    )

    assert response.status_code == 200
    body = response.json()
    assert body["results"][0]["document"]["name"] == "warranty.md"
    assert body["traceId"] is None
    assert [candidate["kept"] for candidate in body["candidates"]] == [True, False]
    kept = [dict(candidate) for candidate in body["candidates"] if candidate.pop("kept")]
    assert kept == body["results"]
    assert body["belowThreshold"]["count"] == 1
    assert body["applied"]["topK"] == {"value": 2, "source": "call"}
    assert kept_traces().count() == 0


def test_test_box__earlier_snapshot__answers_from_it(api: CheckedClient) -> None:
    base = builders.base_with()
    builders.add_text(base, "new.md", "Lamps are covered for nine years.")
    builders.build(base)
    question = {"query": "How long are lamps covered?", "topK": 1}

    now = api.post(f"{_base(base)}/test", question, format="json").json()
    then = api.post(f"{_base(base)}/test", {**question, "snapshot": 1}, format="json").json()

    assert now["results"][0]["document"]["name"] == "new.md"
    assert then["results"][0]["document"]["name"] == "warranty.md"
    assert then["snapshot"]["number"] == 1


def test_test_box__no_snapshot_yet__is_a_conflict(api: CheckedClient) -> None:
    base = builders.make_base()

    response = api.post(f"{_base(base)}/test", {"query": "Anything?"}, format="json")

    assert_problem(response, 409, "knowledge_base.no_snapshot")


def test_test_box__unknown_or_unready_snapshot__is_refused(api: CheckedClient) -> None:
    base = builders.base_with()
    builders.add_text(base, "new.md", "New.")
    start_build(base.pk)

    unknown = api.post(f"{_base(base)}/test", {"query": "x", "snapshot": 9}, format="json")
    building = api.post(f"{_base(base)}/test", {"query": "x", "snapshot": 2}, format="json")
    no_number = api.post(f"{_base(base)}/test", {"query": "x", "snapshot": "1"}, format="json")

    assert_problem(unknown, 404, "snapshot.not_found")
    assert_problem(building, 409, "snapshot.not_ready")
    assert_problem(no_number, 422, "invalid", field="snapshot", value="1")


def test_test_box__runtime_key__is_forbidden(client_for: Any) -> None:
    base = builders.make_base()

    response = client_for("runtime").post(f"{_base(base)}/test", {"query": "x"}, format="json")

    assert_problem(response, 403, "scope.insufficient")
