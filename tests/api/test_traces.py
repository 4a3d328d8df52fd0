from __future__ import annotations

from typing import Any

import pytest

from registry.models import ApiKey
from tests import builders
from tests.agents.tampering import tamper
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem
from tests.traces import kept_traces

TRACES = "/api/v1/traces"


def _agent(slug: str) -> None:
    agent = builders.make_agent(slug)
    builders.edit(agent, prompt="Answer.")
    builders.publish(agent)


def _resolve(api: CheckedClient, slug: str = "support", conversation: str = "") -> str:
    body = {"version": 1, "context": {}, "conversationId": conversation or None}
    trace_id: str = api.post(f"/api/v1/agents/{slug}/resolve", body, format="json").json()[
        "traceId"
    ]
    return trace_id


def test_trace__of_a_call__has_arguments_results_and_their_texts(api: CheckedClient) -> None:
    base = builders.base_with()
    _, version = builders.published(base, slug="support")
    called = api.post(
        "/api/v1/agents/support/tools/search/call",
        {"version": 1, "query": "How long are lamps covered?", "conversationId": "c-1"},
        format="json",
    ).json()

    trace = api.get(f"{TRACES}/{called['traceId']}").json()

    assert (trace["kind"], trace["agent"], trace["version"]) == ("call", "support", 1)
    assert (trace["manifestDigest"], trace["conversationId"]) == (version.digest, "c-1")
    assert trace["arguments"]["query"] == "How long are lamps covered?"
    assert trace["receipt"] == called["receipt"]
    (group,) = trace["groups"]
    assert [result["passage"] for result in group["results"]] == [
        result["passage"] for result in called["results"]
    ]


def test_trace__of_a_failed_group__has_its_error(api: CheckedClient) -> None:
    base = builders.make_base("Empty")
    agent = builders.make_agent("support")
    builders.edit(agent, bindings=[{"knowledgeBase": str(base.pk)}])
    answer = api.post(
        "/api/v1/agents/support/retrieve",
        {"version": "draft", "context": {}, "query": "Anything?"},
        format="json",
    ).json()

    trace = api.get(f"{TRACES}/{answer['traceId']}").json()

    assert trace["version"] == "draft"
    assert trace["groups"][0]["error"]["code"] == "knowledge_base.no_snapshot"
    assert trace["receipt"] is None


def test_list__texts__are_left_to_the_detail(api: CheckedClient) -> None:
    base = builders.base_with()
    builders.published(base, slug="support")
    api.post(
        "/api/v1/agents/support/tools/search/call",
        {"version": 1, "query": "How long are lamps covered?"},
        format="json",
    )

    response = api.get(TRACES)

    assert "two years" not in response.content.decode()
    assert response.json()["results"][0]["groups"][0]["results"][0]["confidence"]


def test_list__filters__give_what_matches_all(api: CheckedClient) -> None:
    _agent("support")
    _agent("sales")
    one = _resolve(api, "support", "c-1")
    two = _resolve(api, "support", "c-2")
    three = _resolve(api, "sales", "c-1")

    def found(**query: str) -> set[str]:
        return {item["id"] for item in api.get(TRACES, query).json()["results"]}

    assert found() == {one, two, three}
    assert found(agent="support") == {one, two}
    assert found(conversationId="c-1") == {one, three}
    assert found(agent="support", conversationId="c-1") == {one}
    assert found(kind="resolve") == {one, two, three}
    assert found(kind="call") == set()


def test_list__unknown_kind__is_refused(api: CheckedClient) -> None:
    response = api.get(TRACES, {"kind": "magic"})

    assert_problem(
        response,
        422,
        "invalid",
        field="kind",
        value="magic",
        allowed=["resolve", "retrieve", "call"],
    )


def test_list__many__comes_in_pages_newest_first(api: CheckedClient) -> None:
    _agent("support")
    made = [_resolve(api) for _ in range(5)]

    seen: list[str] = []
    query = {"limit": "2"}
    while True:
        body = api.get(TRACES, query).json()
        seen += [item["id"] for item in body["results"]]
        if body["next"] is None:
            break
        query["cursor"] = body["next"]

    assert seen == made[::-1]


@pytest.mark.parametrize("count", [1, 4])
def test_list__however_many__takes_two_queries(
    api: CheckedClient, django_assert_num_queries: Any, count: int
) -> None:
    _agent("support")
    for _ in range(count):
        _resolve(api)

    with django_assert_num_queries(2):  # the key, the page
        response = api.get(TRACES)

    assert len(response.json()["results"]) == count


def test_traces__runtime_key__sees_what_it_made_itself(client_for: Any) -> None:
    _agent("support")
    mine, other, editor = client_for("runtime"), client_for("runtime"), client_for("editor")
    own, foreign = _resolve(mine), _resolve(other)

    listed = [item["id"] for item in mine.get(TRACES).json()["results"]]

    assert listed == [own]
    assert mine.get(f"{TRACES}/{own}").status_code == 200
    assert_problem(mine.get(f"{TRACES}/{foreign}"), 404, "trace.not_found")
    assert len(editor.get(TRACES).json()["results"]) == 2


def test_traces__key_limited_to_agents__sees_theirs_only(client_for: Any) -> None:
    _agent("support")
    _agent("sales")
    admin = client_for("admin")
    support, sales = _resolve(admin, "support"), _resolve(admin, "sales")
    limited = client_for("editor", agents=["support"])

    listed = [item["id"] for item in limited.get(TRACES).json()["results"]]

    assert listed == [support]
    assert_problem(limited.get(f"{TRACES}/{sales}"), 404, "trace.not_found")
    assert limited.get(TRACES, {"agent": "sales"}).json()["results"] == []


@pytest.mark.parametrize("address", ["x", "a%00b", "6e7c6f4e-6a4e-4d0e-9a53-0d0f0a4f6c55"])
def test_trace__unknown__is_not_found(api: CheckedClient, address: str) -> None:
    assert_problem(api.get(f"{TRACES}/{address}"), 404, "trace.not_found")
    assert kept_traces().count() == 0


def _called(api: CheckedClient, **body: Any) -> str:
    answer = api.post(
        "/api/v1/agents/support/tools/search/call",
        {"version": 1, "query": "How long are lamps covered?", **body},
        format="json",
    )
    trace_id: str = answer.json()["traceId"]
    return trace_id


def test_replay__of_a_call__is_identical_for_who_made_it(client_for: Any) -> None:
    builders.published(builders.base_with(), slug="support")
    mine, other = client_for("runtime"), client_for("runtime")
    trace_id = _called(mine)

    replayed = mine.post(f"{TRACES}/{trace_id}/replay", {}, format="json")

    assert replayed.status_code == 200
    assert replayed.json() == {"identical": True, "partial": None}
    assert_problem(other.post(f"{TRACES}/{trace_id}/replay"), 404, "trace.not_found")


def test_replay__of_a_drafts_call__is_for_editors(client_for: Any) -> None:
    builders.published(builders.base_with(), slug="support")
    editor = client_for("editor")
    trace_id = _called(editor, version="draft")
    key = ApiKey.objects.get(name=kept_traces().get(pk=trace_id).api_key_name)
    by_editor = editor.post(f"{TRACES}/{trace_id}/replay")
    key.scope = "runtime"
    key.save()

    refused = editor.post(f"{TRACES}/{trace_id}/replay")

    assert by_editor.json() == {"identical": True, "partial": None}
    assert_problem(refused, 403, "scope.insufficient")


def test_replay__of_what_was_changed_below_the_triggers__names_the_rank(
    api: CheckedClient,
) -> None:
    builders.published(builders.base_with(), slug="support")
    trace_id = _called(api)
    tamper("retrieval_chunk", "text = replace(text, 'two', 'ten') WHERE text LIKE '%two years%'")

    body = api.post(f"{TRACES}/{trace_id}/replay").json()

    assert not body["identical"]
    found = body["firstDifference"]
    assert (found["rank"], found["document"], found["field"]) == (1, "warranty.md", "passageDigest")
    assert (found["cause"], found["position"]) == ("rows.changed", 0)


def test_replay__with_a_body_or_of_nothing__is_refused(api: CheckedClient) -> None:
    builders.published(builders.base_with(), slug="support")
    trace_id = _called(api)

    assert api.post(f"{TRACES}/{trace_id}/replay", {"x": 1}, format="json").status_code == 422
    assert_problem(api.post(f"{TRACES}/nothing/replay"), 404, "trace.not_found")
