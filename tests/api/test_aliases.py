from __future__ import annotations

from typing import Any

import pytest

from agents.models import Agent
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written

ALIASES = "/api/v1/agents/support/aliases"


@pytest.fixture
def agent(db: None) -> Agent:
    """An agent with two published versions."""
    agent = builders.make_agent("support")
    for prompt in ("One.", "Two."):
        builders.edit(agent, prompt=prompt)
        builders.publish(agent)
    return agent


def _move(api: CheckedClient, name: str = "production", **body: Any) -> Any:
    return api.put(f"{ALIASES}/{name}", body, format="json")


def test_move__new_alias__points_to_its_version(api: CheckedClient, agent: Agent) -> None:
    response = _move(api, version=1)

    assert response.status_code == 200
    assert (response.json()["name"], response.json()["version"]) == ("production", 1)
    assert api.get(f"{ALIASES}/production").json() == response.json()
    assert api.get(ALIASES).json()["results"] == [response.json()]
    resolved = api.post(
        "/api/v1/agents/support/resolve", {"alias": "production", "context": {}}, format="json"
    )
    assert resolved.json()["prompt"] == "One."


def test_move__there_and_back__leaves_a_history(api: CheckedClient, agent: Agent) -> None:
    _move(api, version=1)
    _move(api, version=2)
    _move(api, version=2)
    _move(api, version=1)

    moves = api.get(f"{ALIASES}/production/history").json()["results"]

    assert [(move["from"], move["to"]) for move in moves] == [(2, 1), (1, 2), (None, 1)]
    assert {move["actor"] for move in moves} == {"admin 0"}


def test_move__not_where_it_was_expected__is_a_conflict(api: CheckedClient, agent: Agent) -> None:
    new = _move(api, version=1, expectedVersion=None)

    with nothing_written():
        moved = _move(api, version=2, expectedVersion=2)
        exists = _move(api, version=2, expectedVersion=None)

    assert new.status_code == 200
    assert assert_problem(moved, 409, "alias.moved")["version"] == 1
    assert_problem(exists, 409, "alias.moved")
    assert _move(api, version=2, expectedVersion=1).json()["version"] == 2


def test_move__to_an_unknown_version__is_not_found(api: CheckedClient, agent: Agent) -> None:
    with nothing_written():
        response = _move(api, version=3)

    assert_problem(response, 404, "version.not_found")


@pytest.mark.parametrize("version", [None, 0, "1", "draft", 1.5, 2**40])
def test_move__to_what_is_no_version__is_refused(
    api: CheckedClient, agent: Agent, version: Any
) -> None:
    with nothing_written():
        response = _move(api, version=version)

    assert_problem(response, 422, response.json()["code"], field="version", value=version)


@pytest.mark.parametrize("name", ["Production", "a%20b", "a%00b", "x" * 101])
def test_move__name_of_another_form__is_refused(
    api: CheckedClient, agent: Agent, name: str
) -> None:
    with nothing_written():
        response = _move(api, name, version=1)

    assert_problem(response, 422, "invalid", field="name")


def test_alias__unknown__is_not_found(api: CheckedClient, agent: Agent) -> None:
    for address in ("staging", "staging/history", "a%00b", "a%00b/history"):
        assert_problem(api.get(f"{ALIASES}/{address}"), 404, "alias.not_found")


def test_move__by_an_editor__is_forbidden(client_for: Any, agent: Agent) -> None:
    response = _move(client_for("editor"), version=1)

    assert_problem(response, 403, "scope.insufficient")
    assert agent.aliases.count() == 0
