from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from agents.models import Agent, AgentVersion
from registry.admin_base import ReadOnlyAdmin
from registry.models import AuditEvent
from retrieval.models import Document, IndexSnapshot, KnowledgeBase, Trace
from tests import builders
from tests.admin.pages import address_of, text_of
from tests.agents.tampering import tamper

pytestmark = pytest.mark.django_db

READ_ONLY = ("AgentVersion", "IndexSnapshot", "EmbeddingModel", "Trace", "AuditEvent")


@pytest.fixture
def world() -> dict[str, Any]:
    """One object of each kind that has a page."""
    base = builders.base_with("Returns")
    agent, version = builders.published(base, slug="support")
    return {
        "base": base,
        "agent": agent,
        "version": version,
        "document": Document.objects.get(name="returns.md"),
        "snapshot": IndexSnapshot.objects.get(),
        "event": AuditEvent.objects.first(),
    }


def _urls(world: dict[str, Any]) -> list[str]:
    def of(obj: Any, *pages: str) -> list[str]:
        return [address_of(obj, page) for page in pages]

    return [
        "/admin/",
        *of(
            world["base"],
            *("change", "build", "settings", "upload", "test_box", "delete"),
            *("evaluation", "evaluation_import", "evaluation_add"),
        ),
        *of(world["document"], "change", "segments", "replace", "delete", "purge"),
        *of(world["snapshot"], "change"),
        *of(world["base"].model, "change"),
        *of(world["agent"], *("change", "draft", "context", "publish", "aliases", "settings")),
        *of(world["version"], "change", "restore"),
        *of(world["event"], "change"),
        *(
            f"/admin/{model}/"
            for model in (
                *("retrieval/knowledgebase", "retrieval/document", "retrieval/indexsnapshot"),
                *("retrieval/embeddingmodel", "retrieval/trace", "agents/agent"),
                *("agents/agentversion", "registry/apikey", "registry/auditevent"),
                *("auth/user", "auth/group"),
            )
        ),
        "/admin/retrieval/knowledgebase/add/",
        "/admin/agents/agent/add/",
        "/admin/registry/apikey/add/",
    ]


def test_pages__for_a_superuser__all_answer(browser: Client, world: dict[str, Any]) -> None:
    answers = {url: browser.get(url).status_code for url in _urls(world)}

    assert set(answers.values()) == {200}, answers


def test_pages__for_nobody__lead_to_the_login(client: Client, world: dict[str, Any]) -> None:
    answers = {url: client.get(url).headers.get("Location", "") for url in _urls(world)}

    assert all(where.startswith("/admin/login/") for where in answers.values()), answers


def test_pages__for_staff_without_permissions__are_closed(
    client: Client, world: dict[str, Any]
) -> None:
    client.force_login(User.objects.create_user("eve", is_staff=True))

    answers = {url: client.get(url).status_code for url in _urls(world) if url != "/admin/"}

    assert set(answers.values()) == {403}, answers


def test_pages__for_staff_who_may_only_look__change_nothing(
    client: Client, world: dict[str, Any]
) -> None:
    eve = User.objects.create_user("eve", is_staff=True)
    eve.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    client.force_login(eve)
    before = AuditEvent.objects.count()

    answers = {
        url: client.post(url, {"name": "x", "slug": "x", "version": "1"}).status_code
        for url in _urls(world)
        if not url.endswith(("/test-box/", "/context/", "/build/", "/admin/"))
        and url.count("/") > 4
    }

    assert AuditEvent.objects.count() == before
    draft = address_of(world["agent"], "draft")
    assert "Answer from the passages." in client.get(draft).content.decode()
    assert b"Save the draft" not in client.get(draft).content
    assert set(answers.values()) == {200, 403}, answers


@pytest.mark.parametrize("name", READ_ONLY)
def test_immutable_models__every_permission_to_write__is_off(name: str, rf: Any) -> None:
    request = rf.get("/")
    request.user = User.objects.create_superuser("ada")

    found = next(
        model_admin for model, model_admin in admin.site._registry.items() if model.__name__ == name
    )

    assert isinstance(found, ReadOnlyAdmin)
    assert found.has_view_permission(request)
    assert not found.has_add_permission(request)
    assert not found.has_change_permission(request)
    assert not found.has_delete_permission(request)


@pytest.mark.parametrize(
    "model", [KnowledgeBase, Document, IndexSnapshot, Trace, Agent, AgentVersion, AuditEvent]
)
def test_models__every_way_past_the_use_cases__is_closed(model: Any, rf: Any) -> None:
    found: Any = admin.site.get_model_admin(model)
    request = rf.get("/")
    request.user = User.objects.create_superuser("ada")

    with pytest.raises(NotImplementedError):
        found.save_model(request, model(), None, False)
    with pytest.raises(NotImplementedError):
        found.delete_model(request, model())
    assert "delete_selected" not in found.get_actions(request)


@pytest.fixture
def called(api: Any, world: dict[str, Any]) -> Any:
    """The answer of a tool call."""
    return api.post(
        "/api/v1/agents/support/tools/search/call",
        {"version": 1, "query": "How many days do I have to send a parcel back?"},
        format="json",
    ).json()


def test_trace__of_a_call__is_shown_with_its_passages(browser: Client, called: Any) -> None:
    page = browser.get(reverse("admin:retrieval_trace_change", args=[called["traceId"]]))

    said = text_of(page)
    assert called["receipt"] in said
    assert called["results"][0]["passage"].split("\n")[0] in said
    assert "support, v1" in said


def test_trace__replayed__says_whether_it_is_answered_as_it_was(
    browser: Client, called: Any
) -> None:
    address = reverse("admin:retrieval_trace_replay", args=[called["traceId"]])

    asked = browser.get(address)
    same = text_of(browser.post(address))
    tamper(
        "retrieval_chunk",
        "text = replace(text, '30 days', '31 days') WHERE text LIKE '%30 days%'",
    )
    other = text_of(browser.post(address))

    assert asked.status_code == 302
    assert "identical asked again, it is answered as it was" in same
    assert "differs" in other
    assert "Returns, rank 1, returns.md, chunk 0, passageDigest" in other
    assert "returns.md, chunk 0: its text is not what was sealed. rows.changed" in other
