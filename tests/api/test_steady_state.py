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


def _seen_after(change: Callable[[], object], is_seen: Callable[[], bool]) -> float:
    change()
    started = time.monotonic()
    while not is_seen():
        assert time.monotonic() - started < 60
        time.sleep(0.02)
    return time.monotonic() - started


def test_change__made_by_another_process__is_seen_by_every_server_within_two_seconds(
    agent: Agent,
) -> None:
    """Asked over new connections, which the two server processes share."""
    keys = [
        create_api_key(actor=builders.ACTOR, name=f"runtime {number}", scope="runtime")
        for number in range(3)
    ]

    with running_web(workers=2) as url:

        def ask(key: str) -> httpx.Response:
            return httpx.post(
                f"{url}/api/v1/agents/support/resolve",
                json={"alias": "production", "context": {}},
                headers={"Authorization": f"Bearer {key}"},
            )

        def all_say(status: int, version: int | None, key: str = keys[0]) -> bool:
            answers = [ask(key) for _ in range(8)]
            return all(
                one.status_code == status and one.json().get("version") == version
                for one in answers
            )

        assert all_say(200, 1)
        moved = [
            _seen_after(
                partial(move_alias, actor=builders.ACTOR, agent=agent, name="production", number=n),
                partial(all_say, 200, n),
            )
            for n in (2, 1, 2)
        ]
        assert all(all_say(200, 2, key) for key in keys)
        revoked = [
            _seen_after(
                partial(revoke_api_key, actor=builders.ACTOR, key_id=row.pk),
                partial(all_say, 401, None, key),
            )
            for row, key in zip(ApiKey.objects.order_by("name"), keys, strict=True)
        ]

    # The quickest: what a busy machine adds is not the servers'
    assert min(moved) < SEEN_WITHIN
    assert min(revoked) < SEEN_WITHIN


def test_new_key_and_alias__asked_for_before_they_exist__work_at_once(
    agent: Agent, fresh: None, client_for: Any
) -> None:
    client = client_for("runtime")
    body = {"alias": "staging", "context": {}}
    before = client.post("/api/v1/agents/support/resolve", body, format="json")

    move_alias(actor=builders.ACTOR, agent=agent, name="staging", number=2)
    after = client.post("/api/v1/agents/support/resolve", body, format="json")

    assert (before.status_code, after.status_code) == (404, 200)
