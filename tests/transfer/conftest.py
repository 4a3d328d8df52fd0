"""A second, empty installation: another database on the same server."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client

from agents.groups import stop_threads
from agents.serving import _version_id
from retrieval.traces import writer
from tests.servers import INSTANCE
from tests.transfer.world import World, make_world

Elsewhere = Callable[[], AbstractContextManager[None]]
_numbers = itertools.count(1)


def administer(statement: str) -> None:
    with psycopg.connect(INSTANCE.postgres_dsn("owner", "postgres"), autocommit=True) as session:
        session.execute(statement)


@contextmanager
def database(name: str) -> Iterator[None]:
    """Run the block on another database."""
    here = connection.settings_dict["NAME"]
    _switch(name)
    try:
        yield
    finally:
        _switch(here)


def _switch(name: str) -> None:
    # Traces that wait belong to the database that answered.
    writer.stop()
    stop_threads()
    connection.close()
    connection.settings_dict["NAME"] = name
    # Agents keep their ids when they move, and a process serves one database in its life.
    _version_id.cache_clear()


@pytest.fixture
def empty_database(transactional_db: None) -> Iterator[str]:
    """The name of a database as an installation has it that was just migrated."""
    source = connection.settings_dict["NAME"]
    name = f"{source}_elsewhere_{next(_numbers)}"
    connection.close()
    # Threads that earlier tests started (lookups, copies, groups) hold sessions of their own.
    administer(f'ALTER DATABASE "{source}" ALLOW_CONNECTIONS false')
    try:
        administer(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
            f"WHERE datname = '{source}' AND backend_type = 'client backend'"
        )
        administer(f'CREATE DATABASE "{name}" TEMPLATE "{source}"')
    finally:
        administer(f'ALTER DATABASE "{source}" ALLOW_CONNECTIONS true')
    yield name
    connection.close()
    administer(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def elsewhere(empty_database: str) -> Elsewhere:
    """A function that runs a block in the other installation, empty at first."""
    return lambda: database(empty_database)


@pytest.fixture
def world(empty_database: str) -> World:
    return make_world()


@pytest.fixture
def admin_client_for() -> Callable[[], Client]:
    """Return a function that makes a browser of an admin of the installation at hand."""

    def make() -> Client:
        client = Client()
        client.force_login(get_user_model().objects.create_superuser("boss", password="x"))
        return client

    return make


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Where an export may write."""
    return tmp_path / "support-1.agent"
