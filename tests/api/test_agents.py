from __future__ import annotations

from typing import Any

import pytest

from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written

AGENTS = "/api/v1/agents"


def test_create__slug_and_name__has_an_empty_draft(api: CheckedClient) -> None:
    response = api.post(AGENTS, {"slug": "support", "name": "Support"}, format="json")

    assert response.status_code == 201
    body = response.json()
    assert {key: body[key] for key in body if key != "createdAt"} == {
        "slug": "support",
        "name": "Support",
        "archived": False,
        "newestVersion": None,
        "draftRevision": 1,
    }
    assert api.get(f"{AGENTS}/support").json() == body


def test_create__slug_taken__is_a_conflict(api: CheckedClient) -> None:
    builders.make_agent("support")

    with nothing_written():
        response = api.post(AGENTS, {"slug": "support", "name": "Other"}, format="json")

    assert_problem(response, 409, "agent.slug_taken", field="slug", value="support")


@pytest.mark.parametrize("slug", ["Support", "-a", "ä", "a b", "a\n", "x" * 101, ""])
def test_create__slug_of_another_form__is_refused(api: CheckedClient, slug: str) -> None:
    with nothing_written():
        response = api.post(AGENTS, {"slug": slug, "name": "A"}, format="json")

    assert_problem(response, 422, "invalid", field="slug")


def test_update__name__is_kept(api: CheckedClient) -> None:
    builders.make_agent("support")

    response = api.patch(f"{AGENTS}/support", {"name": "Help desk"}, format="json")

    assert response.json()["name"] == "Help desk"
    assert api.get(f"{AGENTS}/support").json()["name"] == "Help desk"


def test_archive__by_an_admin__stops_edits_and_publishing_but_not_answers(
    api: CheckedClient,
) -> None:
    agent = builders.make_agent("support")
    builders.edit(agent, prompt="Answer.")
    builders.publish(agent)

    archived = api.patch(f"{AGENTS}/support", {"archived": True}, format="json")

    assert archived.json()["archived"] is True
    edit = api.patch(f"{AGENTS}/support/draft", {"prompt": "x"}, format="json", HTTP_IF_MATCH="*")
    assert_problem(edit, 409, "agent.archived")
    assert_problem(api.post(f"{AGENTS}/support/publish"), 409, "agent.archived")
    resolved = api.post(f"{AGENTS}/support/resolve", {"version": 1, "context": {}}, format="json")
    assert resolved.status_code == 200
    back = api.patch(f"{AGENTS}/support", {"archived": False}, format="json")
    assert back.json()["archived"] is False


def test_archive__by_a_publisher__is_forbidden(client_for: Any) -> None:
    builders.make_agent("support")

    response = client_for("publisher").patch(f"{AGENTS}/support", {"archived": True}, format="json")

    assert assert_problem(response, 403, "scope.insufficient")["required"] == "admin"


@pytest.mark.parametrize("slug", ["nobody", "Nobody", "a%00b", "%F0%9F%92%A9", "a%20b"])
@pytest.mark.parametrize("below", ["", "/draft", "/versions", "/aliases", "/tools"])
def test_agent__that_is_not_there__is_not_found(api: CheckedClient, slug: str, below: str) -> None:
    query = "?format=openai&version=1" if below == "/tools" else ""

    response = api.get(f"{AGENTS}/{slug}{below}{query}")

    assert_problem(response, 404, "agent.not_found")


def test_list__many__comes_in_pages_by_slug(api: CheckedClient) -> None:
    for slug in ("c", "a", "b"):
        builders.make_agent(slug)

    first = api.get(AGENTS, {"limit": "2"}).json()
    second = api.get(AGENTS, {"limit": "2", "cursor": first["next"]}).json()

    assert [agent["slug"] for agent in first["results"]] == ["a", "b"]
    assert [agent["slug"] for agent in second["results"]] == ["c"]


@pytest.mark.parametrize("count", [1, 4])
def test_list__however_many__takes_three_queries(
    api: CheckedClient, django_assert_num_queries: Any, count: int
) -> None:
    for _ in range(count):
        agent = builders.make_agent()
        builders.edit(agent, prompt="Answer.")
        builders.publish(agent)

    with django_assert_num_queries(3):  # the key, the page, the numbers of versions
        agents = api.get(AGENTS).json()["results"]

    assert [(agent["newestVersion"], agent["draftRevision"]) for agent in agents] == [
        (1, 2)
    ] * count
