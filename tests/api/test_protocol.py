"""What does not reach a use case: addresses, methods, content types, bugs."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from agents.views.agents import Agents
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem


@pytest.mark.parametrize(
    "address", ["/", "/api", "/api/v1", "/api/v2/agents", "/api/v1/agents/", "/api/v1/a/b/c"]
)
def test_address__unknown__is_a_problem_document(client: Client, address: str) -> None:
    assert_problem(client.get(address), 404, "not_found")


def test_address__unknown_in_the_admin__is_a_page(admin_client: Client) -> None:
    response = admin_client.get("/admin/nothing/here/")

    assert response.status_code == 404
    assert response["Content-Type"].startswith("text/html")


@pytest.mark.parametrize(
    ("method", "address"),
    [
        ("delete", "/api/v1/agents"),
        ("put", "/api/v1/agents"),
        ("options", "/api/v1/agents"),
        ("post", "/api/v1/agents/support/draft"),
        ("get", "/api/v1/agents/support/publish"),
        ("delete", "/api/v1/traces"),
    ],
)
def test_method__wrong__is_named_whatever_the_scope(
    client_for: Any, method: str, address: str
) -> None:
    response = getattr(client_for("runtime"), method)(address)

    assert_problem(response, 405, "request.method_not_allowed")
    assert response["Allow"]


def test_head__of_a_list__is_like_get_without_a_body(api: CheckedClient) -> None:
    response = api.head("/api/v1/agents")

    assert response.status_code == 200


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "application/x-yaml"])
def test_content_type__not_taken__is_a_problem(api: CheckedClient, content_type: str) -> None:
    response = api.post("/api/v1/agents", b'{"slug": "a"}', content_type=content_type)

    assert_problem(response, 415, "request.unsupported_media_type")


def test_content_type__multipart_where_json_is_due__is_a_problem(api: CheckedClient) -> None:
    response = api.post("/api/v1/agents", {"slug": "a"}, format="multipart")

    assert_problem(response, 415, "request.unsupported_media_type")


def test_multipart__without_a_boundary__is_a_problem(api: CheckedClient) -> None:
    base = builders.make_base()
    response = api.post(
        f"/api/v1/knowledge-bases/{base.pk}/documents", b"x", content_type="multipart/form-data"
    )

    assert_problem(response, 400, "request.parse_error")


def test_body__in_chunks_of_unknown_length__is_refused_not_ignored(api: CheckedClient) -> None:
    response = api.generic(
        "POST",
        "/api/v1/agents",
        "",
        content_type="application/json",
        HTTP_TRANSFER_ENCODING="chunked",
    )

    assert_problem(response, 411, "request.length_required")


@pytest.mark.parametrize("accept", ["text/html", "application/problem+json", "x/y", "*/*"])
def test_accept__whatever_it_says__answers_json(api: CheckedClient, accept: str) -> None:
    assert api.get("/api/v1/agents", HTTP_ACCEPT=accept)["Content-Type"] == "application/json"
    problem = api.get("/api/v1/agents/nobody", HTTP_ACCEPT=accept)
    assert_problem(problem, 404, "agent.not_found")


def test_text__beyond_ascii__comes_back_as_utf_8(api: CheckedClient) -> None:
    response = api.post("/api/v1/agents", {"slug": "a", "name": "Größe ✓ 𝄞"}, format="json")

    assert "Größe ✓ 𝄞".encode() in response.content


def test_host__not_allowed__is_a_problem(client: Client) -> None:
    response = client.get("/api/v1/agents", HTTP_HOST="evil.example")

    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"


def test_bug__in_a_view__is_a_problem_without_its_details(
    api: CheckedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(Agents, "get", broken)

    response = api.get("/api/v1/agents")

    assert_problem(response, 500, "internal_error")
    assert "secret" not in response.content.decode()


def test_bug__outside_the_api__is_a_problem_too(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr("registry.openapi.document", broken)
    client.raise_request_exception = False

    response = client.get("/api/v1/schema")

    assert_problem(response, 500, "internal_error")


def test_database__that_does_not_answer__is_unavailable(
    api: CheckedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def timed_out(*_: Any, **__: Any) -> None:
        raise OperationalError("canceling statement due to lock timeout")

    monkeypatch.setattr(Agents, "get", timed_out)

    assert_problem(api.get("/api/v1/agents"), 503, "database.unavailable")
