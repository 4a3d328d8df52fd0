"""The real servers that the tests run on: one PostgreSQL and one Valkey per test run.

Loaded as a plugin before Django's settings are: the data folder must be known by then. The
process that starts the run owns the servers; each xdist process has its own database.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from registry.embedded.instance import Instance
from registry.embedded.postgres import PostgresServer, start_postgres
from registry.embedded.valkey import ValkeyServer, start_valkey

IS_OWNER = "PYTEST_XDIST_WORKER" not in os.environ

if IS_OWNER:
    for name in (
        *("DATABASE_URL", "REDIS_URL", "BROKER_URL", "EMBEDDING_MODEL", "RERANK_MODEL"),
        *("ANSWER_BASE_URL", "ANSWER_MODEL", "ANSWER_API_KEY"),
    ):
        os.environ.pop(name, None)
    # Searchable by the unprivileged user that PostgreSQL runs as under root; listable by none.
    FOLDER = Path(tempfile.mkdtemp(prefix="registry-tests-"))
    FOLDER.chmod(0o711)
    os.environ["DATA_DIR"] = str(FOLDER / "data")
    # Migrations and the attacks of tests/database need the tables' owner.
    os.environ["DATABASE_ROLE"] = "owner"
    # What gives up after seconds in service would fail tests on a machine that is only busy.
    for name in ("DATABASE_CONNECT_TIMEOUT", "RETRIEVE_SECONDS"):
        os.environ[name] = "120"
    os.environ["DATABASE_LOCK_TIMEOUT_MS"] = "120000"
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "registry.settings")

INSTANCE = Instance(Path(os.environ["DATA_DIR"]))
# Each xdist process has a database of its own in Valkey, as it has in PostgreSQL.
_NUMBER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) + 1
BROKER_URL = f"{INSTANCE.broker_url}?virtual_host={_NUMBER}"
os.environ["BROKER_URL"] = BROKER_URL
os.environ["REDIS_URL"] = f"{INSTANCE.redis_url}?db={_NUMBER}"
_running: list[PostgresServer | ValkeyServer] = []


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: Any) -> None:
    if not IS_OWNER or config.option.collectonly or config.option.help:
        return
    _running.append(start_postgres(INSTANCE, durable=False))
    _running.append(start_valkey(INSTANCE))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: Any) -> None:
    if not IS_OWNER:
        return
    while _running:
        _running.pop().stop()
    shutil.rmtree(FOLDER, ignore_errors=True)
