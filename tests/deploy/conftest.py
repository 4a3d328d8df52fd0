"""Servers apart from the registry, and the registry's services on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.composition import raw_compose
from tests.deploy.servers import Postgres, Redis
from tests.deploy.stack import Stack
from tests.folders import passable_folder


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    with passable_folder() as path:
        yield path


@pytest.fixture(scope="session")
def postgres(place: Path) -> Iterator[Postgres]:
    """The database's container after its first start: made by its options, with its script run."""
    environment = raw_compose()["services"]["db"]["environment"]
    server = Postgres(place / "db", initdb_options=environment["POSTGRES_INITDB_ARGS"].split())
    try:
        server.create_roles()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def redis_server(place: Path) -> Iterator[Redis]:
    server = Redis(place / "redis", raw_compose()["services"]["redis"]["command"][1:])
    yield server
    server.stop()


@pytest.fixture(scope="module")
def stack(place: Path, postgres: Postgres, redis_server: Redis) -> Iterator[Stack]:
    """Every service of ours, started in the order of the compose file and found well."""
    running = Stack(place, postgres, redis_server)
    try:
        running.run("migrate")
        running.start("web", "worker", "beat")
        yield running
    finally:
        running.stop()
