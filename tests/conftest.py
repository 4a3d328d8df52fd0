"""Fixtures on real services. States are reached by the real use cases, never by writing rows."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as configured
from django.db import connection
from django.utils import timezone
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from rest_framework.test import APIClient

from agents.groups import stop_threads
from registry.access import create_api_key
from registry.actors import Actor
from retrieval import question_cache, trace_writer
from retrieval.extraction import sandbox
from retrieval.host_copies import copies
from retrieval.question_cache import CACHE
from retrieval.traces import writer
from tests import builders
from tests.endpoint import KEY, Endpoint, running_endpoint
from tests.traces import forget_traces
from tests.worker import Worker, running_worker

# Of the writer of traces, of the questions' copies, of the bindings that are asked at once, of what
# is split over cores, and of the library that draws progress bars.
THREADS_THAT_STAY = ("trace-writer", "question-cache", "retrieve", "cores", "tqdm_monitor")
PATIENCE_SECONDS = 120

# The same examples in every run, however slow the machine: a test that fails has a cause in what
# changed. `--hypothesis-profile=default` draws others.
hypothesis_settings.register_profile(
    "same",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
hypothesis_settings.load_profile("same")

# More than any machine takes: what a test is not about may take as long as it does.
ANSWER_SECONDS = 240

# What gives up soon in service waits in tests: the machine may only be busy.
question_cache._PATIENCE_SECONDS = trace_writer.FLUSH_SECONDS = 120.0
sandbox._REPLY_SLACK_SECONDS = 300.0

_NAME = re.compile(r"test_[a-z0-9_]+?__[a-z0-9_]+?__[a-z0-9_]+")


def pytest_configure() -> None:
    """Let no xdist process remove the copies of another, nor give up a broker that is slow."""
    for name in ("socket_timeout", "socket_connect_timeout"):
        configured.CELERY_BROKER_TRANSPORT_OPTIONS[name] = 120
    configured.HOST_COPIES_DIR = configured.DATA_DIR / f"copies-{os.getpid()}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Hold every test's name to test_<subject>__<condition>__<outcome>."""
    for item in items:
        name = getattr(item, "originalname", None) or item.name
        if isinstance(item, pytest.Function) and not _NAME.fullmatch(name):
            raise pytest.UsageError(
                f"{item.nodeid}: a test is called test_<subject>__<condition>__<outcome>"
            )


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: object) -> Iterator[None]:
    """Let the flush between tests pass the triggers that refuse TRUNCATE, and nothing else.

    At the end nobody may hold on to the database.
    """
    plain = connection.ops.sql_flush

    def flush(style: Any, tables: Sequence[str], **options: Any) -> list[str]:
        named = [connection.ops.quote_name(table) for table in tables]
        return [
            *(f"ALTER TABLE {table} DISABLE TRIGGER USER;" for table in named),
            *plain(style, tables, **options),
            *(f"ALTER TABLE {table} ENABLE TRIGGER USER;" for table in named),
        ]

    setattr(connection.ops, "sql_flush", flush)  # noqa: B010 - a method, for this run only
    yield
    stop_threads()


@pytest.fixture(scope="session", autouse=True)
def own_place_for_answers() -> None:
    """Let no answer of another xdist process keep those of this one waiting."""
    configured.ANSWER_LOCKS_DIR = configured.DATA_DIR / f"answers-{os.getpid()}"


@pytest.fixture(autouse=True)
def threads_end() -> Iterator[None]:
    """Fail a test that leaves a thread behind: it would read the next test's database.

    Those that may stay only wait until a test gives them something, and have done it when it ends.
    """
    before = set(threading.enumerate())
    yield
    copies.stop()
    CACHE.wait_until_copied()
    left = [
        thread
        for thread in threading.enumerate()
        if thread not in before and not thread.name.startswith(THREADS_THAT_STAY)
    ]
    for thread in left:
        thread.join(PATIENCE_SECONDS)
    assert not [thread.name for thread in left if thread.is_alive()]


@pytest.fixture(autouse=True)
def traces_are_forgotten() -> Iterator[None]:
    """Remove the traces of a test: they are committed by their writer, whatever the test does."""
    before = writer.taken
    yield
    if writer.taken != before:
        forget_traces()


@pytest.fixture
def one_hour() -> None:
    """Wait for the next hour where this one ends soon: what is counted by the hour begins anew."""
    now = timezone.now()
    left = timedelta(hours=1) - (now - now.replace(minute=0, second=0, microsecond=0))
    if left < timedelta(minutes=2):
        # A second more: the clock by which a process sleeps is not the one that tells the hour.
        time.sleep(left.total_seconds() + 1)


@pytest.fixture
def actor() -> Actor:
    return builders.ACTOR


@pytest.fixture
def client_class() -> type[APIClient]:
    return APIClient


@pytest.fixture
def client_for(db: None, client_class: type[APIClient]) -> Callable[..., APIClient]:
    """Return a function that makes an API client with a key of a scope."""

    def make(scope: str = "admin", **limits: Any) -> APIClient:
        made.append(f"{scope} {len(made)}")
        key = create_api_key(actor=builders.ACTOR, name=made[-1], scope=scope, **limits)
        return client_class(HTTP_AUTHORIZATION=f"Bearer {key}")

    made: list[str] = []
    return make


@pytest.fixture
def api(client_for: Callable[..., APIClient]) -> APIClient:
    """An API client with a key of scope admin."""
    return client_for("admin")


@pytest.fixture
def local_model(settings: Any) -> None:
    """The model that answers where no endpoint is set, with time enough on any machine."""
    settings.ANSWER_TIMEOUT_SECONDS = ANSWER_SECONDS


@pytest.fixture
def endpoint(settings: Any) -> Iterator[Endpoint]:
    """A server of a model that answers, to which the settings point."""
    with running_endpoint() as server:
        settings.ANSWER_BASE_URL = server.url
        settings.ANSWER_MODEL = "a-model"
        settings.ANSWER_API_KEY = KEY
        settings.ANSWER_TIMEOUT_SECONDS = ANSWER_SECONDS
        yield server


@pytest.fixture
def worker(transactional_db: None) -> Iterator[Worker]:
    """A real Celery worker process on this test's database, through a real broker."""
    with running_worker() as process:
        yield process
