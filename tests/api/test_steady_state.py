"""What is kept in a web server's process: nothing is looked up twice, nothing is seen late."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
import pytest

from agents.aliases import move_alias
from agents.models import Agent
from registry import lookups
from registry.access import create_api_key, revoke_api_key
from registry.models import ApiKey
from tests import builders
from tests.web import running_web

SEEN_WITHIN = 2.0


@pytest.fixture
def agent(transactional_db: None) -> Agent:
    """Versions 1 and 2, which differ in their prompt; ``production`` points to 1."""
    base = builders.base_with("Returns")
    agent, _ = builders.published(
        base, slug="support", bindings=[{"knowledgeBase": str(base.pk), "expression": "n > 0"}]
    )
    builders.edit(agent, prompt="The second.")
    builders.publish(agent)
    move_alias(actor=builders.ACTOR, agent=agent, name="production", number=1)
    return agent


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a web server does in its process, with time for a thread that runs late."""
    monkeypatch.setattr(lookups, "MAX_AGE", 5.0)
    lookups.keep_fresh()
    yield
    lookups.stop_keeping_fresh()


def test_resolve__steady_state__makes_no_query_in_the_request(
    agent: Agent, fresh: None, client_for: Any, django_assert_num_queries: Any
) -> None:
    client = client_for("runtime")
    number = iter(range(10_000))

    def resolve(**which: Any) -> Any:
        body = {"context": {"n": next(number)}, **which}
        return client.post("/api/v1/agents/support/resolve", body, format="json")

    resolve(alias="production")
    etag = resolve(version=2).json()["etag"]
    ends = time.monotonic() + 2 * lookups.MAX_AGE

    with django_assert_num_queries(0):
        while time.monotonic() < ends:
            by_alias, by_number = resolve(alias="production"), resolve(version=2)
            unchanged = resolve(version=2, known=etag)
            assert by_alias.json()["version"] == 1
            assert by_number.json()["prompt"] == "The second."
            assert unchanged.status_code == 200
            time.sleep(0.05)


def _last_missed(change: Callable[[], object], is_seen: Callable[[], bool]) -> float:
    """Return how long after ``change`` the last request was begun that did not see it.

    However slow the machine is, one that begins later than what a server keeps is old must see it.
    """
    change()
    changed = time.monotonic()
    missed, seen = 0.0, 0
    while seen < 8 or time.monotonic() - changed < SEEN_WITHIN:
        after = time.monotonic() - changed
        assert after < 60
        if is_seen():
            seen += after >= SEEN_WITHIN
        else:
            missed, seen = after, 0
    return missed


def test_change__made_by_another_process__is_seen_by_every_server_within_two_seconds(
    agent: Agent,
) -> None:
    """Asked over new connections, which the two server processes share."""
    key = create_api_key(actor=builders.ACTOR, name="runtime", scope="runtime")

    with running_web(workers=2) as url:

        def answers(status: int, version: int | None) -> bool:
            answer = httpx.post(
                f"{url}/api/v1/agents/support/resolve",
                json={"alias": "production", "context": {}},
                headers={"Authorization": f"Bearer {key}"},
                timeout=60,
                trust_env=False,
            )
            return answer.status_code == status and answer.json().get("version") == version

        assert all(answers(200, 1) for _ in range(8))
        moved = [
            _last_missed(
                partial(move_alias, actor=builders.ACTOR, agent=agent, name="production", number=n),
                partial(answers, 200, n),
            )
            for n in (2, 1)
        ]
        revoked = _last_missed(
            partial(revoke_api_key, actor=builders.ACTOR, key_id=ApiKey.objects.get().pk),
            partial(answers, 401, None),
        )

    assert max(moved) < SEEN_WITHIN
    assert revoked < SEEN_WITHIN


def test_new_key_and_alias__asked_for_before_they_exist__work_at_once(
    agent: Agent, fresh: None, client_for: Any
) -> None:
    client = client_for("runtime")
    body = {"alias": "staging", "context": {}}
    before = client.post("/api/v1/agents/support/resolve", body, format="json")

    move_alias(actor=builders.ACTOR, agent=agent, name="staging", number=2)
    after = client.post("/api/v1/agents/support/resolve", body, format="json")

    assert (before.status_code, after.status_code) == (404, 200)
