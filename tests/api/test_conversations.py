from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from agents.models import Agent
from registry.canonical import digest_json, digest_text
from retrieval.models import KnowledgeBase, QueryEmbedding
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written
from tests.traces import kept_traces

AGENT = "/api/v1/agents/support"
QUERY = "How long are lamps covered?"


@pytest.fixture
def base(db: None) -> KnowledgeBase:
    return builders.base_with("Warranty EU")


@pytest.fixture
def agent(base: KnowledgeBase) -> Agent:
    """Version 1: ``base`` in the EU, another base elsewhere; a rag tool and a function."""
    other = builders.base_with("Warranty US", us_md="# Warranty\n\nLamps are covered for a year.")
    agent = builders.make_agent("support")
    builders.edit(
        agent,
        prompt="Answer.",
        contextVariables=[
            {"name": "region", "type": "string", "values": ["EU", "US"], "required": True},
            {"name": "customer", "type": "string", "sensitive": True},
        ],
        bindings=[
            {
                "knowledgeBase": str(base.pk),
                "expression": "region == 'EU'",
                "label": "EU",
                "instruction": "Use it first.",
            },
            {"knowledgeBase": str(other.pk), "expression": "region == 'US'", "label": "US"},
        ],
        tools=[
            builders.rag_tool(base),
            {
                "type": "function",
                "name": "open_ticket",
                "description": "Open a ticket.",
                "parameters": {"type": "object", "properties": {"z": {}, "a": {}}},
            },
        ],
    )
    builders.publish(agent)
    return agent


def _post(api: CheckedClient, action: str, **body: Any) -> Any:
    return api.post(f"{AGENT}/{action}", body, format="json")


def test_resolve__context__says_what_applies_and_why(
    api: CheckedClient, agent: Agent, base: KnowledgeBase
) -> None:
    response = _post(api, "resolve", version=1, context={"region": "EU"}, conversationId="c-1")

    assert response.status_code == 200
    body = response.json()
    assert (body["agent"], body["version"], body["prompt"]) == ("support", 1, "Answer.")
    assert [(item["label"], item["applies"], item["reason"]) for item in body["bindings"]] == [
        ("EU", True, "TRUE"),
        ("US", False, "FALSE"),
    ]
    assert body["knowledgeBases"] == [
        {"id": str(base.pk), "name": "Warranty EU", "instruction": "Use it first."}
    ]
    assert [tool["name"] for tool in body["tools"]] == ["search", "open_ticket"]
    assert body["contextProblems"] == []
    trace = kept_traces().get(pk=body["traceId"])
    assert (trace.kind, trace.conversation_id, trace.version_number) == ("resolve", "c-1", 1)


def test_resolve__missing_variable__applies_nothing_and_says_so(
    api: CheckedClient, agent: Agent
) -> None:
    body = _post(api, "resolve", version=1, context={}).json()

    assert [item["reason"] for item in body["bindings"]] == ["MISSING_VARIABLE"] * 2
    assert body["knowledgeBases"] == []
    assert body["contextProblems"]


def test_resolve__known_etag__is_unchanged_and_leaves_no_trace(
    api: CheckedClient, agent: Agent
) -> None:
    first = _post(api, "resolve", version=1, context={"region": "EU"}).json()

    same = _post(api, "resolve", version=1, context={"region": "EU"}, known=first["etag"])
    other = _post(api, "resolve", version=1, context={"region": "US"}, known=first["etag"])

    assert same.json() == {"unchanged": True, "etag": first["etag"]}
    assert other.json()["etag"] != first["etag"]
    assert kept_traces().count() == 2


def test_resolve__without_a_trace__is_for_editors_and_leaves_none(
    api: CheckedClient, agent: Agent, client_for: Any
) -> None:
    body = _post(api, "resolve", version=1, context={}, trace=False).json()
    refused = _post(client_for("runtime"), "resolve", version=1, context={}, trace=False)

    assert body["traceId"] is None
    assert_problem(refused, 403, "scope.insufficient")
    assert kept_traces().count() == 0


def test_resolve__draft__is_for_editors(api: CheckedClient, agent: Agent, client_for: Any) -> None:
    builders.edit(agent, prompt="Newer.")

    body = _post(api, "resolve", version="draft", context={}).json()
    refused = _post(client_for("runtime"), "resolve", version="draft", context={})

    assert (body["version"], body["digest"], body["prompt"]) == ("draft", None, "Newer.")
    assert_problem(refused, 403, "scope.insufficient")


def test_resolve__unknown_version_or_alias__is_not_found(api: CheckedClient, agent: Agent) -> None:
    with nothing_written():
        version = _post(api, "resolve", version=9, context={})
        alias = _post(api, "resolve", alias="production", context={})

    assert_problem(version, 404, "version.not_found")
    assert_problem(alias, 404, "alias.not_found")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"known": 7}, "known"),
        ({"trace": "no"}, "trace"),
        ({"conversationId": 7}, "conversationId"),
        ({"conversationId": "x" * 201}, "conversationId"),
    ],
)
def test_resolve__wrong_member__is_refused(
    api: CheckedClient, db: None, body: dict[str, Any], field: str
) -> None:
    agent = builders.make_agent("support")
    builders.edit(agent, prompt="Answer.")
    builders.publish(agent)

    with nothing_written():
        response = _post(api, "resolve", version=1, context={}, **body)

    assert_problem(response, 422, "invalid", field=field)


def test_call__rag_tool__returns_passages_with_citations(
    api: CheckedClient, agent: Agent, base: KnowledgeBase
) -> None:
    response = _post(
        api,
        "tools/search/call",
        version=1,
        query=QUERY,
        topK=1,
        conversationId="c-1",
        context={"region": "EU", "customer": "Ada", "undeclared": 1},
    )

    assert response.status_code == 200
    body = response.json()
    assert list(body) == [
        "results",
        "knowledgeBase",
        "snapshot",
        "applied",
        "belowThreshold",
        "receipt",
        "traceId",
    ]
    (result,) = body["results"]
    assert "two years" in result["passage"]
    assert (result["document"]["name"], result["document"]["revision"]) == ("warranty.md", 1)
    assert result["page"] is None
    assert "Warranty" in result["section"]
    assert body["knowledgeBase"] == {"id": str(base.pk), "name": "Warranty EU"}
    assert body["applied"]["topK"] == {"value": 1, "source": "call"}
    assert body["applied"]["confidenceThreshold"] == {"value": 0.3, "source": "default"}
    kept = kept_traces().get(pk=body["traceId"]).arguments
    assert kept["context"]["region"] == "EU"
    assert "undeclared" not in kept["context"]
    assert "Ada" not in json.dumps(kept)


def test_call__answer__has_the_receipt_that_anybody_can_recompute(
    api: CheckedClient, agent: Agent
) -> None:
    body = _post(api, "tools/search/call", version=1, query=QUERY).json()

    results = []
    for result in body["results"]:
        passage = result.pop("passage")
        results.append({**result, "passageDigest": digest_text(passage)})
    assert body["receipt"] == digest_json(
        {
            "schema": 1,
            "kind": "retrieval",
            "snapshotDigest": body["snapshot"]["digest"],
            "queryDigest": digest_text(QUERY),
            "applied": body["applied"],
            "results": results,
            "belowThreshold": body["belowThreshold"],
        }
    )


def test_call__again_after_documents_changed__is_byte_identical(
    api: CheckedClient, agent: Agent, base: KnowledgeBase
) -> None:
    first = _post(api, "tools/search/call", version=1, query=QUERY).json()
    document = base.documents.get(name="warranty.md")
    builders.replace_text(base, document, "Lamps are covered for nine years.")
    api.patch(f"/api/v1/knowledge-bases/{base.pk}", {"name": "Renamed"}, format="json")
    builders.build(base)

    again = _post(api, "tools/search/call", version=1, query=QUERY).json()
    draft = _post(api, "tools/search/call", version="draft", query=QUERY).json()

    for body in (first, again):
        del body["traceId"]
    assert json.dumps(again) == json.dumps(first)
    assert "nine years" in draft["results"][0]["passage"]


def test_call__high_floor__explains_its_empty_result(api: CheckedClient, agent: Agent) -> None:
    body = _post(api, "tools/search/call", version=1, query=QUERY, confidenceThreshold=1).json()

    assert body["results"] == []
    assert body["belowThreshold"]["count"] == 2
    assert 0 < body["belowThreshold"]["best"] < 1


def test_call__null_count_and_floor__count_as_not_given(api: CheckedClient, agent: Agent) -> None:
    given = _post(
        api, "tools/search/call", version=1, query=QUERY, topK=None, confidenceThreshold=None
    ).json()
    omitted = _post(api, "tools/search/call", version=1, query=QUERY).json()

    assert given["receipt"] == omitted["receipt"]


def test_call__count_over_25__is_capped_and_says_so(api: CheckedClient, agent: Agent) -> None:
    body = _post(api, "tools/search/call", version=1, query=QUERY, topK=50).json()

    assert body["applied"]["topK"] == {"value": 25, "source": "cap"}


def test_call__unknown_tool_or_function__is_refused(api: CheckedClient, agent: Agent) -> None:
    with nothing_written():
        unknown = _post(api, "tools/magic/call", version=1, query=QUERY)
        function = _post(api, "tools/open_ticket/call", version=1, query=QUERY)

    assert_problem(unknown, 404, "tool.not_found")
    assert_problem(
        function, 422, "tool.not_callable", field="tool", value="open_ticket", allowed=["search"]
    )


def test_call__draft_whose_base_has_no_snapshot__is_a_conflict(api: CheckedClient) -> None:
    base = builders.make_base("Empty")
    agent = builders.make_agent("support")
    builders.edit(agent, tools=[builders.rag_tool(base)])

    response = _post(api, "tools/search/call", version="draft", query=QUERY)

    assert_problem(response, 409, "knowledge_base.no_snapshot")


def test_retrieve__context__asks_what_applies_in_groups(
    api: CheckedClient, agent: Agent, base: KnowledgeBase
) -> None:
    response = _post(api, "retrieve", version=1, context={"region": "EU"}, query=QUERY, topK=1)

    assert response.status_code == 200
    body = response.json()
    (group,) = body["groups"]
    assert (group["label"], group["knowledgeBase"]["id"]) == ("EU", str(base.pk))
    assert "two years" in group["results"][0]["passage"]
    assert body["receipt"] == digest_json(
        {"schema": 1, "kind": "groups", "groups": [group["receipt"]]}
    )
    assert kept_traces().get(pk=body["traceId"]).kind == "retrieve"


def test_retrieve__nothing_applies__has_no_groups(api: CheckedClient, agent: Agent) -> None:
    body = _post(api, "retrieve", version=1, context={}, query=QUERY).json()

    assert body["groups"] == []
    assert body["receipt"]


def test_retrieve__one_base_fails__keeps_the_others_results(api: CheckedClient) -> None:
    good, empty = builders.base_with("Good"), builders.make_base("Empty")
    agent = builders.make_agent("support")
    builders.edit(agent, bindings=[{"knowledgeBase": str(base.pk)} for base in (good, empty)])

    body = _post(api, "retrieve", version="draft", context={}, query=QUERY).json()

    assert body["groups"][0]["results"]
    assert body["groups"][1]["error"]["code"] == "knowledge_base.no_snapshot"
    assert body["receipt"] is None


@pytest.mark.parametrize(
    ("form", "schema_of"),
    [
        ("openai", lambda tool: tool["function"]["parameters"]),
        ("anthropic", lambda tool: tool["input_schema"]),
        ("mcp", lambda tool: tool["inputSchema"]),
    ],
)
def test_tools__each_format__is_what_its_clients_take(
    api: CheckedClient, agent: Agent, form: str, schema_of: Any
) -> None:
    body = api.get(f"{AGENT}/tools", {"format": form, "version": "1"}).json()

    search, ticket = body["results"]
    assert body["next"] is None
    assert set(schema_of(search)["properties"]) == {"query", "topK", "confidenceThreshold"}
    assert list(schema_of(ticket)["properties"]) == ["z", "a"]
    assert "no “match”" in json.dumps(search, ensure_ascii=False) or "no match" in json.dumps(
        search, ensure_ascii=False
    )


def test_tools__by_alias__are_those_of_its_version(api: CheckedClient, agent: Agent) -> None:
    api.put(f"{AGENT}/aliases/production", {"version": 1}, format="json")

    body = api.get(f"{AGENT}/tools", {"format": "mcp", "alias": "production"}).json()

    assert [tool["name"] for tool in body["results"]] == ["search", "open_ticket"]


def test_tools__wrong_query__is_refused(api: CheckedClient, agent: Agent) -> None:
    no_format = api.get(f"{AGENT}/tools", {"version": "1"})
    magic = api.get(f"{AGENT}/tools", {"version": "1", "format": "magic"})
    neither = api.get(f"{AGENT}/tools", {"format": "mcp"})
    no_number = api.get(f"{AGENT}/tools", {"format": "mcp", "version": "one"})
    nul = api.get(f"{AGENT}/tools?format=mcp&alias=a%00b")

    allowed = ["openai", "anthropic", "mcp"]
    assert_problem(no_format, 422, "invalid", field="format", allowed=allowed)
    assert_problem(magic, 422, "invalid", field="format", value="magic", allowed=allowed)
    assert_problem(neither, 422, "version.ambiguous", field="version", value=None)
    assert_problem(no_number, 422, "invalid", field="version", value="one")
    assert_problem(nul, 400, "json.nul", field="alias")


def test_call__repeated__takes_four_queries_and_writes_only_its_trace(
    api: CheckedClient, agent: Agent, django_assert_num_queries: Any
) -> None:
    _post(api, "tools/search/call", version=1, query=QUERY)
    stored = QueryEmbedding.objects.count()

    # The key, the agent, the question's vector (a copy of it, once it is committed), the search.
    with django_assert_num_queries(4):
        body = _post(api, "tools/search/call", version=1, query=QUERY).json()

    assert QueryEmbedding.objects.count() == stored
    assert kept_traces().filter(pk=uuid.UUID(body["traceId"])).exists()


def test_resolve__repeated__takes_two_queries(
    api: CheckedClient, agent: Agent, django_assert_num_queries: Any
) -> None:
    _post(api, "resolve", version=1, context={"region": "EU"})

    with django_assert_num_queries(2):  # the key, the agent; none where a server keeps them fresh
        _post(api, "resolve", version=1, context={"region": "EU"})


@pytest.mark.parametrize("form", ["openai", "anthropic", "mcp"])
def test_resolve__in_a_format__has_the_tools_that_its_clients_take(
    api: CheckedClient, agent: Agent, form: str
) -> None:
    listed = api.get(f"{AGENT}/tools", {"format": form, "version": "1"}).json()["results"]

    body = _post(api, "resolve", version=1, context={"region": "EU"}, format=form).json()
    plain = _post(api, "resolve", version=1, context={"region": "EU"}, format=None).json()

    assert body["tools"] == listed
    assert body["etag"] != plain["etag"]
    assert [tool["type"] for tool in plain["tools"]] == ["rag", "function"]


def test_resolve__unknown_format__is_refused(api: CheckedClient, agent: Agent) -> None:
    with nothing_written():
        refused = _post(api, "resolve", version=1, context={}, format="magic")

    assert_problem(
        refused,
        422,
        "invalid",
        field="format",
        value="magic",
        allowed=["openai", "anthropic", "mcp"],
    )
