"""Every kind of bad input: a problem that names field, value and what is allowed; no row written."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from pytest_django.fixtures import Settings

from agents.contexts import MAX_DEPTH
from agents.models import Agent
from retrieval.models import KnowledgeBase
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written

BASES = "/api/v1/knowledge-bases"


@pytest.fixture
def base(db: None) -> KnowledgeBase:
    """A knowledge base that nobody has built: what is refused is refused before."""
    base = builders.make_base()
    builders.add_text(base, "returns.md", builders.RETURNS)
    return base


@pytest.fixture
def agent(db: None) -> Agent:
    """An agent with a published version that needs no knowledge base."""
    agent = builders.make_agent("support")
    builders.edit(agent, prompt="Answer.")
    builders.publish(agent)
    return agent


def _call(api: CheckedClient, agent: Agent, **body: Any) -> Any:
    body = {"version": 1, "query": "How long is the warranty?", **body}
    return api.post(f"/api/v1/agents/{agent.slug}/tools/search/call", body, format="json")


def _resolve(api: CheckedClient, agent: Agent, **body: Any) -> Any:
    return api.post(f"/api/v1/agents/{agent.slug}/resolve", body, format="json")


@pytest.mark.parametrize(
    "address",
    ["6e7c6f4e-6a4e-4d0e-9a53-0d0f0a4f6c55", "not-a-uuid", "a%00b"],
)
def test_knowledge_base__that_is_not_there__is_not_found(api: CheckedClient, address: str) -> None:
    for below in ("", "/documents", "/snapshots", "/snapshots/1"):
        response = api.get(f"{BASES}/{address}{below}")

        assert_problem(response, 404, "knowledge_base.not_found")


def test_binding__to_an_unknown_knowledge_base__is_refused(
    api: CheckedClient, agent: Agent
) -> None:
    unknown = "6e7c6f4e-6a4e-4d0e-9a53-0d0f0a4f6c55"
    with nothing_written():
        response = api.patch(
            "/api/v1/agents/support/draft",
            {"bindings": [{"knowledgeBase": unknown}]},
            format="json",
            HTTP_IF_MATCH="*",
        )

    assert_problem(
        response,
        422,
        "knowledge_base.unknown",
        field="bindings.0.knowledgeBase",
        value=unknown,
        allowed="the id of a knowledge base",
    )


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("region ==", "expression.syntax"),
        ("regoin == 'EU'", "expression.unknown_name"),
        ("   ", "expression.blank"),
    ],
)
def test_binding__wrong_expression__is_refused(
    api: CheckedClient, agent: Agent, base: KnowledgeBase, expression: str, code: str
) -> None:
    with nothing_written():
        response = api.patch(
            "/api/v1/agents/support/draft",
            {
                "contextVariables": [{"name": "region", "type": "string"}],
                "bindings": [{"knowledgeBase": str(base.pk), "expression": expression}],
            },
            format="json",
            HTTP_IF_MATCH="*",
        )

    assert_problem(response, 422, code, field="bindings.0.expression", value=expression)
    if code == "expression.unknown_name":
        assert response.json()["errors"][0]["allowed"] == ["region"]


@pytest.mark.parametrize("top_k", [0, 51, "ten", 2.5, True, -1])
def test_call__top_k_out_of_range__is_refused(api: CheckedClient, agent: Agent, top_k: Any) -> None:
    with nothing_written():
        response = _call(api, agent, topK=top_k)

    assert_problem(
        response,
        422,
        "invalid",
        field="topK",
        value=top_k,
        allowed={"minimum": 1, "maximum": 50},
    )


@pytest.mark.parametrize("floor", [1.5, -0.1, "0.3", True])
def test_call__floor_out_of_range__is_refused(api: CheckedClient, agent: Agent, floor: Any) -> None:
    with nothing_written():
        response = _call(api, agent, confidenceThreshold=floor)

    assert_problem(
        response,
        422,
        "invalid",
        field="confidenceThreshold",
        value=floor,
        allowed={"minimum": 0, "maximum": 1},
    )


@pytest.mark.parametrize("query", [None, "", "  \n", 7, ["a"]])
def test_call__query_that_is_no_text__is_refused(
    api: CheckedClient, agent: Agent, query: Any
) -> None:
    with nothing_written():
        response = _call(api, agent, query=query)

    code = "request.required" if query is None else "invalid"
    assert_problem(response, 422, code, field="query")


def test_publish__no_ready_snapshot__is_refused(api: CheckedClient) -> None:
    base = builders.make_base("Empty")
    agent = builders.make_agent("new")
    builders.edit(agent, tools=[builders.rag_tool(base)])
    with nothing_written():
        response = api.post("/api/v1/agents/new/publish")

    problem = assert_problem(response, 409, "publish.no_snapshot")
    assert problem["knowledgeBase"] == str(base.pk)
    assert "Empty" in problem["detail"]


def test_publish__outdated_snapshot__is_refused_with_figures(api: CheckedClient) -> None:
    base = builders.base_with()
    agent, _ = builders.published(base, slug="support")
    builders.edit(agent, prompt="Another prompt.")
    builders.add_text(base, "new.md", "New.")
    with nothing_written():
        response = api.post("/api/v1/agents/support/publish")

    problem = assert_problem(response, 409, "publish.snapshot_outdated")
    assert problem["knowledgeBases"] == [
        {
            "id": str(base.pk),
            "name": base.name,
            "snapshot": 1,
            "changesNotIndexed": 1,
            "building": False,
        }
    ]


@pytest.mark.parametrize("which", [{}, {"version": 1, "alias": "production"}])
@pytest.mark.parametrize("action", ["resolve", "retrieve", "tools/search/call"])
def test_version__both_or_neither_of_version_and_alias__is_refused(
    api: CheckedClient, agent: Agent, which: dict[str, Any], action: str
) -> None:
    body = {"context": {}, "query": "How long?", **which}
    if action == "resolve":
        del body["query"]
    with nothing_written():
        response = api.post(f"/api/v1/agents/support/{action}", body, format="json")

    problem = assert_problem(
        response,
        422,
        "version.ambiguous",
        field="version",
        value=which.get("version"),
        allowed="exactly one of version and alias",
    )
    assert [error["field"] for error in problem["errors"]] == ["version", "alias"]


@pytest.mark.parametrize("version", [0, -1, "latest", 1.5, True, [1]])
def test_version__that_is_no_number__is_refused(
    api: CheckedClient, agent: Agent, version: Any
) -> None:
    with nothing_written():
        response = _resolve(api, agent, version=version, context={})

    assert_problem(response, 422, "invalid", field="version")


@pytest.mark.parametrize("context", [[], "EU", 7, None, True])
@pytest.mark.parametrize("action", ["resolve", "retrieve"])
def test_context__that_is_no_object__is_refused(
    api: CheckedClient, agent: Agent, context: Any, action: str
) -> None:
    body = {"version": 1, "context": context}
    if action == "retrieve":
        body["query"] = "How long?"
    with nothing_written():
        response = api.post(f"/api/v1/agents/support/{action}", body, format="json")

    problem = assert_problem(response, 422, "invalid", field="context", allowed="object")
    if not isinstance(context, list):
        assert problem["errors"][0]["value"] == context


def test_context__over_its_size__is_refused(api: CheckedClient, agent: Agent) -> None:
    with nothing_written():
        response = _resolve(
            api, agent, version=1, context={"text": "x" * settings.MAX_CONTEXT_BYTES}
        )

    assert_problem(response, 422, "invalid", field="context", value=None)


@pytest.mark.parametrize("action", ["resolve", "retrieve"])
def test_context__nested_in_itself__is_taken_to_its_limit_and_refused_beyond(
    api: CheckedClient, agent: Agent, action: str
) -> None:
    def ask(levels: int) -> Any:
        query = "" if action == "resolve" else '"query": "lamp", '
        lists = "[" * (levels - 1) + "]" * (levels - 1)
        body = f'{{"version": 1, {query}"context": {{"a": {lists}}}}}'
        return api.post(f"/api/v1/agents/support/{action}", body, content_type="application/json")

    assert ask(MAX_DEPTH).status_code == 200
    with nothing_written():
        assert_problem(ask(MAX_DEPTH + 1), 422, "invalid", field="context", value=None)


@pytest.mark.parametrize("action", ["resolve", "retrieve", "tools/search/call"])
@pytest.mark.parametrize(
    ("context", "code", "field"),
    [
        ('{"a": 1, "a": 2}', "json.duplicate_key", "context"),
        ('{"a": {"b": 1, "c": 2, "b": 3}}', "json.duplicate_key", "context.a"),
        ('{"a": ' + "[" * 39 + "]" * 39 + "}", "json.too_deep", "(body)"),
        ('{"a": [1, 9007199254740993]}', "json.integer_too_large", "context.a.1"),
        ('{"a": ' + "9" * 5000 + "}", "json.integer_too_large", "context.a"),
        ('{"a": NaN}', "json.not_a_number", "context.a"),
        ('{"a": -Infinity}', "json.not_a_number", "context.a"),
        ('{"a": 1e999}', "json.number_too_large", "context.a"),
        ('{"a": "\\u0000"}', "json.nul", "context.a"),
        ('{"a": "\\ud800"}', "json.lone_surrogate", "context.a"),
    ],
)
def test_context__that_could_mean_two_things__is_refused_by_name(
    api: CheckedClient, agent: Agent, action: str, context: str, code: str, field: str
) -> None:
    body = f'{{"version": 1, "context": {context}}}'
    with nothing_written():
        response = api.post(
            f"/api/v1/agents/support/{action}", body, content_type="application/json"
        )

    assert_problem(response, 400, code, field=field)


def test_context__of_the_largest_size_and_depth__is_decided(
    api: CheckedClient, agent: Agent
) -> None:
    deepest = "[" * 30 + "]" * 30
    start = f'{{"deep":{deepest},"text":"'
    text = start + "x" * (settings.MAX_CONTEXT_BYTES - len(start) - 2) + '"}'

    response = api.post(
        "/api/v1/agents/support/resolve",
        f'{{"version": 1, "context": {text}}}',
        content_type="application/json",
    )

    assert response.status_code == 200


@pytest.mark.parametrize(
    ("settings_", "field", "allowed"),
    [
        ({"defaultTopK": 0}, "settings.defaultTopK", {"minimum": 1, "maximum": 50}),
        ({"defaultTopK": 51}, "settings.defaultTopK", {"minimum": 1, "maximum": 50}),
        ({"defaultTopK": None}, "settings.defaultTopK", {"minimum": 1, "maximum": 50}),
        (
            {"similarityThreshold": 1.5},
            "settings.similarityThreshold",
            {"minimum": 0, "maximum": 1},
        ),
        (
            {"maxContextLength": 499},
            "settings.maxContextLength",
            {"minimum": 500, "maximum": 16000},
        ),
        ({"rerankEnabled": "yes"}, "settings.rerankEnabled", [True, False]),
        ({"settingsMode": "on"}, "settings.settingsMode", ["recorded", "applied"]),
    ],
)
def test_settings__out_of_range__are_refused(
    api: CheckedClient, settings_: dict[str, Any], field: str, allowed: Any
) -> None:
    with nothing_written():
        response = api.post(BASES, {"name": "A", "settings": settings_}, format="json")

    value = next(iter(settings_.values()))
    assert_problem(response, 422, "invalid", field=field, value=value, allowed=allowed)


def test_settings__reranking_applied_with_a_reranker_that_is_missing__are_refused(
    api: CheckedClient, base: KnowledgeBase, settings: Settings
) -> None:
    settings.RERANK_MODEL = "no-such-reranker"
    wanted = {"rerankEnabled": True, "settingsMode": "applied"}
    with nothing_written():
        made = api.post(BASES, {"name": "A", "settings": wanted}, format="json")
        changed = api.patch(f"{BASES}/{base.pk}", {"settings": wanted}, format="json")

    for response in (made, changed):
        assert_problem(
            response,
            422,
            "reranker.not_configured",
            field="settings.rerankEnabled",
            value=True,
            allowed=[False],
        )


@pytest.mark.parametrize(
    ("chunking", "field"),
    [
        ({"strategy": "magic", "size": 200, "overlap": 20}, "chunking.strategy"),
        ({"strategy": "recursive", "size": 0, "overlap": 0}, "chunking.size"),
        ({"strategy": "recursive", "size": 100_000, "overlap": 0}, "chunking.size"),
        ({"strategy": "recursive", "size": 100, "overlap": 100}, "chunking.overlap"),
    ],
)
def test_chunking__that_cannot_be__is_refused(
    api: CheckedClient, chunking: dict[str, Any], field: str
) -> None:
    with nothing_written():
        response = api.post(BASES, {"name": "A", "chunking": chunking}, format="json")

    assert_problem(
        response, 422, response.json()["code"], field=field, value=chunking[field.split(".")[1]]
    )


def test_knowledge_base__unknown_model__names_the_known_ones(api: CheckedClient) -> None:
    with nothing_written():
        response = api.post(BASES, {"name": "A", "embeddingModel": "magic"}, format="json")

    problem = assert_problem(response, 422, "model.unknown", field="embeddingModel", value="magic")
    assert "all-MiniLM-L6-v2" in problem["errors"][0]["allowed"]
