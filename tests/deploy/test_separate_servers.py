"""The services of docker-compose.yml on a PostgreSQL and a Redis of their own, by HTTP alone."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from django.conf import settings

from registry.embedded.processes import wait_until
from tests.acceptance.instance import Client, Instance
from tests.acceptance.promise import (
    Answers,
    Shelf,
    answers,
    articles,
    change_everything,
    fill,
    questions,
)
from tests.deploy.composition import raw_compose, services, shell_words, variables_of_env
from tests.deploy.servers import Postgres, Redis
from tests.deploy.stack import Stack
from tests.folders import CHECKOUT

# Starting everything takes its time on a busy machine.
pytestmark = [pytest.mark.timeout(1800)]

_SLUG = "separate"
_DOCUMENTS = 8
_QUESTIONS = 6


@dataclass
class Published:
    """Version 1 of an agent, and what it answered at first."""

    client: Client
    shelf: Shelf
    asked: list[str]
    before: Answers

    def now(self) -> Answers:
        return answers(self.client, _SLUG, 1, self.asked)


@pytest.fixture(scope="module")
def published(stack: Stack) -> Published:
    client = stack.client("publisher")
    some = dict(list(articles().items())[:_DOCUMENTS])
    shelf = fill(client, "Store support", some)
    assert client.publish_tool(_SLUG, shelf.base) == 1
    asked = questions()[:_QUESTIONS]
    return Published(client, shelf, asked, answers(client, _SLUG, 1, asked))


def test_version__everything_changes_on_separate_servers__answers_as_before(
    published: Published, redis_server: Redis
) -> None:
    client = published.client
    change_everything(client, published.shelf)
    number = client.call("POST", f"/agents/{_SLUG}/publish", json={})["number"]
    changed = published.now()
    newer = answers(client, _SLUG, number, published.asked)
    redis_server.client.flushall()

    assert changed == published.before
    assert published.now() == published.before
    assert all(newer[question] != published.before[question] for question in published.asked)


def test_journey_script__against_the_services__finds_version_one_unchanged(stack: Stack) -> None:
    key = stack.manage("create_api_key", "--name", "journey", "--scope", "publisher").split()[-1]

    journey = subprocess.run(
        [sys.executable, "examples/journey.py", "--url", stack.url, "--key", key],
        cwd=stack.app,
        env=stack.environment("web"),
        capture_output=True,
        text=True,
        check=False,
    )

    assert journey.returncode == 0, journey.stdout + journey.stderr
    assert "version 1 answers as before: 3 of 3" in journey.stdout


def test_web__from_the_files_of_the_image__serves_pages_styles_and_schema(stack: Stack) -> None:
    before = stack.files_of_app()

    for path in (
        "/admin/login/",
        "/static/admin/css/base.css",
        "/static/registry/admin.css",
        "/api/v1/docs",
        "/api/v1/schema",
    ):
        assert httpx.get(stack.url + path, timeout=60, trust_env=False).status_code == 200, path
    ready: dict[str, Any] = {}

    def is_ready() -> bool:
        # A worker of a busy machine may take longer than a probe waits for it
        ready.update(httpx.get(f"{stack.url}/readyz", timeout=60, trust_env=False).json())
        return bool(ready["status"] == "ready")

    assert wait_until(is_ready, seconds=120), json.dumps(ready)
    assert stack.files_of_app() == before, "a service writes beside its code"


def test_web__names_it_may_be_reached_by__are_those_of_the_settings(stack: Stack) -> None:
    def status(host: str) -> int:
        return httpx.get(
            f"{stack.url}/healthz", headers={"Host": host}, timeout=60, trust_env=False
        ).status_code

    # The health check has its own name for the server, which is never refused.
    assert (status("registry.example.com"), status("localhost"), stack.health("web")) == (
        200,
        200,
        0,
    )
    assert status("elsewhere.example.com") == 400


def test_serving_role__with_its_password__owns_nothing_and_empties_nothing(
    stack: Stack, published: Published, postgres: Postgres
) -> None:
    with postgres.connect("registry_app", "registry") as app:
        owned = app.execute(
            "SELECT relname FROM pg_class WHERE relowner = 'registry_app'::regrole"
        ).fetchall()
        tables = [
            name
            for (name,) in app.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            )
        ]
        refused = {
            "TRUNCATE agents_agentversion",
            "DROP TABLE agents_agentversion",
            "ALTER TABLE agents_agentversion DISABLE TRIGGER ALL",
            "CREATE TABLE anything (id int)",
            "CREATE TEMPORARY TABLE anything (id int)",
            "SET session_replication_role = replica",
            "UPDATE agents_agentversion SET prompt = '' WHERE number = 1",
        }
        for statement in {*refused, *(f"TRUNCATE {name} CASCADE" for name in tables)}:
            with pytest.raises(psycopg.DatabaseError):
                app.execute(statement)
    with postgres.connect() as everything:
        connected = everything.execute(
            "SELECT DISTINCT usename FROM pg_stat_activity WHERE application_name = 'agent-registry'"
        ).fetchall()

    assert owned == []
    assert len(tables) > 20
    assert connected == [("registry_app",)]
    assert published.now() == published.before


def test_database__restarted_between_requests__costs_none_of_them(
    stack: Stack, published: Published, postgres: Postgres
) -> None:
    postgres.stop()
    postgres.start()

    # Every web process has a connection that is gone.
    assert all(published.now() == published.before for _ in range(3))
    _indexes_one_more(published.client, "After a restart of the database")


def test_database__down_for_a_while__is_told_and_found_again(
    stack: Stack, published: Published, postgres: Postgres
) -> None:
    check = shell_words(services(_any_values())["db"].health)
    well = postgres.run(check).returncode
    postgres.stop()

    ill = postgres.run(check).returncode
    during = published.client.send("GET", f"/knowledge-bases/{published.shelf.base}")
    not_ready = httpx.get(f"{stack.url}/readyz", timeout=60, trust_env=False)
    alive = stack.health("web")
    postgres.start()

    assert (well, ill) == (0, 2)
    assert (during.status_code, during.json()["code"]) == (503, "database.unavailable")
    assert not_ready.status_code == 503
    assert alive == 0
    assert published.now() == published.before
    _indexes_one_more(published.client, "After the database came back")
    stack.wait_until_healthy("worker")


def test_redis__stopped_during_an_upload__costs_a_hint_and_no_document(
    stack: Stack, published: Published, redis_server: Redis
) -> None:
    client = published.client
    base = client.make_base("Without a broker")
    redis_server.stop()

    uploaded = client.upload(base, "one.md", b"# One\n\nAccepted while the broker was down.\n")
    answered = published.now()
    degraded = httpx.get(f"{stack.url}/readyz", timeout=60, trust_env=False).json()
    ill = stack.health("worker")
    redis_server.start()

    assert uploaded.status_code == 202
    assert answered == published.before
    assert degraded["degraded"] == ["broker", "workers"]
    assert ill != 0
    assert client.wait_for_build(base)["currentSnapshot"]["documents"] == 1
    stack.wait_until_healthy("worker")


def test_up__with_servers_elsewhere__starts_only_web_worker_and_beat(
    stack: Stack, published: Published, postgres: Postgres, place: Path
) -> None:
    # The packaged Valkey, whatever this machine has.
    valkey = Redis(
        place / "valkey", raw_compose()["services"]["redis"]["command"][1:], program=None
    )
    here = Instance(
        place / "up",
        {
            "DATABASE_URL": postgres.url("registry_app"),
            "MIGRATION_DATABASE_URL": postgres.url("registry_owner"),
            "REDIS_URL": valkey.url,
            "MODELS_DIR": str(settings.MODELS_DIR),
        },
    )
    try:
        here.start()
        children = json.loads((place / "up" / "children.json").read_text())
        key = here.manage("create_api_key", "--name", "up", "--scope", "publisher").split()[-1]
        client = Client(here, key)
        by_up = answers(client, _SLUG, 1, published.asked)
        _indexes_one_more(client, "By up")
    finally:
        here.stop()
        valkey.stop()

    assert set(children) == {"web", "worker", "beat"}
    assert by_up == published.before
    assert not (place / "up" / "postgres").exists()


def _indexes_one_more(client: Client, name: str) -> None:
    shelf = fill(client, name, {"one.md": f"# {name}\n\nOne more document.\n".encode()})
    state = client.call("GET", f"/knowledge-bases/{shelf.base}")
    assert state["currentSnapshot"]["documents"] == 1


def _any_values() -> dict[str, str]:
    text = (CHECKOUT / ".env.example").read_text(encoding="utf-8")
    return {name: value or "any" for name, value in variables_of_env(text).items()}
