"""What each scope may do, over every documented operation, and what limits a key further."""

from __future__ import annotations

from typing import Any

import pytest

from registry import openapi
from registry.access import SCOPES, revoke_api_key
from registry.models import ApiKey
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written

# The least scope that each operation needs; every other operation needs an editor.
RUNTIME = {
    "resolve",
    "retrieve",
    "callTool",
    "listTools",
    "listTraces",
    "getTrace",
    "replayTrace",
}
ADMIN = {"purgeDocument"}
PUBLISHER = {"publish", "restoreVersion", "moveAlias", "verifyVersion"}

_NOWHERE = {
    "slug": "nobody",
    "name": "nothing",
    "number": "1",
    "other": "2",
    "knowledge_base_id": "6e7c6f4e-6a4e-4d0e-9a53-0d0f0a4f6c55",
    "document_id": "6e7c6f4e-6a4e-4d0e-9a53-0d0f0a4f6c55",
    "question_id": "6e7c6f4e-6a4e-4d0e-9a53-0d0f0a4f6c55",
    "evaluation_id": "6e7c6f4e-6a4e-4d0e-9a53-0d0f0a4f6c55",
    "trace_id": "6e7c6f4e-6a4e-4d0e-9a53-0d0f0a4f6c55",
}


def _operations() -> list[tuple[str, str, str]]:
    return [
        (operation["operationId"], method, path)
        for path, methods in openapi.document()["paths"].items()
        for method, operation in methods.items()
    ]


def _needs(operation_id: str) -> str:
    if operation_id in RUNTIME:
        return "runtime"
    if operation_id in ADMIN:
        return "admin"
    return "publisher" if operation_id in PUBLISHER else "editor"


def _request(client: CheckedClient, method: str, path: str) -> Any:
    return getattr(client, method)(path.format(**_NOWHERE), {}, format="json")


@pytest.mark.parametrize("scope", SCOPES)
def test_scope__each_operation__is_allowed_exactly_from_its_scope_on(
    client_for: Any, scope: str
) -> None:
    client = client_for(scope)

    for operation_id, method, path in _operations():
        if method == "get":
            response = client.get(path.format(**_NOWHERE))
        else:
            response = _request(client, method, path)

        allowed = SCOPES.index(scope) >= SCOPES.index(_needs(operation_id))
        assert (response.status_code != 403) is allowed, (operation_id, response.content)


def test_no_key__each_operation__is_refused(db: None) -> None:
    client = CheckedClient()

    with nothing_written():
        for _, method, path in _operations():
            response = (
                _request(client, method, path)
                if method != "get"
                else client.get(path.format(**_NOWHERE))
            )

            assert_problem(response, 401, "authentication.required")
            assert response["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("Bearer reg_" + "x" * 43, "authentication.failed"),
        ("Bearer x", "authentication.failed"),
        ("Bearer", "authentication.malformed"),
        ("Basic dXNlcjpwYXNz", "authentication.malformed"),
    ],
)
def test_key__that_is_none__is_refused(db: None, header: str, code: str) -> None:
    response = CheckedClient(HTTP_AUTHORIZATION=header).get("/api/v1/agents")

    assert_problem(response, 401, code)


def test_key__revoked__is_refused_at_once(client_for: Any) -> None:
    client = client_for("admin")
    assert client.get("/api/v1/agents").status_code == 200

    revoke_api_key(actor=builders.ACTOR, key_id=ApiKey.objects.get().pk)

    assert_problem(client.get("/api/v1/agents"), 401, "authentication.failed")


def test_limited_key__other_agents_and_bases__do_not_exist_for_it(client_for: Any) -> None:
    mine, other = builders.make_base("Mine"), builders.make_base("Other")
    builders.make_agent("support")
    builders.make_agent("sales")
    client = client_for("admin", agents=["support"], knowledge_bases=[mine.pk])

    agents = client.get("/api/v1/agents").json()["results"]
    bases = client.get("/api/v1/knowledge-bases").json()["results"]

    assert [agent["slug"] for agent in agents] == ["support"]
    assert [base["name"] for base in bases] == ["Mine"]
    with nothing_written():
        for path in ("/api/v1/agents/sales", "/api/v1/agents/sales/draft"):
            assert_problem(client.get(path), 404, "agent.not_found")
        assert_problem(client.post("/api/v1/agents/sales/publish"), 404, "agent.not_found")
        below = f"/api/v1/knowledge-bases/{other.pk}"
        for path in (below, f"{below}/documents", f"{below}/snapshots"):
            assert_problem(client.get(path), 404, "knowledge_base.not_found")
        assert_problem(client.delete(below), 404, "knowledge_base.not_found")


def test_limited_key__binding_a_base_outside_it__is_refused_as_unknown(client_for: Any) -> None:
    mine, other = builders.make_base("Mine"), builders.make_base("Other")
    builders.make_agent("support")
    client = client_for("editor", agents=["support"], knowledge_bases=[mine.pk])

    def bind(base: Any) -> Any:
        return client.patch(
            "/api/v1/agents/support/draft",
            {"bindings": [{"knowledgeBase": str(base.pk)}]},
            format="json",
            HTTP_IF_MATCH="*",
        )

    assert bind(mine).status_code == 200
    assert_problem(bind(other), 422, "knowledge_base.unknown", field="bindings.0.knowledgeBase")


def test_limited_key__base_bound_by_another__stays_bound_when_it_edits(client_for: Any) -> None:
    other = builders.make_base("Other")
    agent = builders.make_agent("support")
    builders.edit(agent, bindings=[{"knowledgeBase": str(other.pk)}])
    client = client_for("editor", agents=["support"])

    response = client.patch(
        "/api/v1/agents/support/draft", {"prompt": "New."}, format="json", HTTP_IF_MATCH="*"
    )

    assert response.status_code == 200
    assert response.json()["bindings"][0]["knowledgeBase"] == str(other.pk)


def test_limited_key__making_what_it_would_not_see__is_forbidden(client_for: Any) -> None:
    client = client_for("admin", agents=["support"])

    with nothing_written():
        base = client.post("/api/v1/knowledge-bases", {"name": "A"}, format="json")
        agent = client.post("/api/v1/agents", {"slug": "sales"}, format="json")
    own = client.post("/api/v1/agents", {"slug": "support"}, format="json")

    assert_problem(base, 403, "scope.insufficient")
    assert_problem(agent, 403, "scope.insufficient")
    assert own.status_code == 201


def test_key__limited_to_no_agents__sees_none(client_for: Any) -> None:
    builders.make_agent("support")
    client = client_for("admin", agents=[])

    assert client.get("/api/v1/agents").json()["results"] == []
    assert_problem(client.get("/api/v1/agents/support"), 404, "agent.not_found")


def test_runtime_key__version_with_bases_outside_it__answers(client_for: Any) -> None:
    base = builders.base_with()
    builders.published(base, slug="support")
    client = client_for("runtime", agents=["support"])

    response = client.post(
        "/api/v1/agents/support/tools/search/call",
        {"version": 1, "query": "How long are lamps covered?"},
        format="json",
    )

    assert response.json()["results"]
