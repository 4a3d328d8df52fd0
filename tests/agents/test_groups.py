"""Several knowledge bases are asked at once; one that fails or hangs loses nobody else's results."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from agents.groups import stop_threads
from agents.models import Agent
from agents.tools import retrieve_attached
from agents.versions import Runnable, runnable
from retrieval.models import KnowledgeBase
from retrieval.questions import Question
from tests import builders
from tests.builders import ACCESS
from tests.database.threads import Running, other_session, waiting
from tests.worker import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
QUERY = Question(query="How long are lamps covered?")
_OTHER_CONNECTIONS = (
    "FROM pg_stat_activity WHERE datname = current_database() "
    "AND application_name = 'agent-registry' AND pid != pg_backend_pid()"
)
NAMES = ["Delta", "Alpha", "Charlie", "Bravo", "Echo", "Foxtrot"]


@pytest.fixture(autouse=True)
def own_threads() -> Iterator[None]:
    """No thread has a connection with the limits of another test."""
    stop_threads()
    yield
    stop_threads()


@pytest.fixture
def bases() -> list[KnowledgeBase]:
    return [
        builders.base_with(
            name, returns_md=builders.RETURNS, own_md=f"# {name}\n\nLamps of {name} are covered."
        )
        for name in NAMES
    ]


@pytest.fixture
def version(bases: list[KnowledgeBase]) -> Runnable:
    agent: Agent = builders.make_agent("support")
    builders.edit(agent, bindings=[{"knowledgeBase": str(base.pk)} for base in bases])
    return runnable(agent, builders.publish(agent))


@pytest.fixture
def row_rules() -> Iterator[Any]:
    """Return a function that makes reading one knowledge base's row (None: any) do something."""

    def rule(base: KnowledgeBase | None, action: str) -> None:
        which = f"'{base.pk}'" if base else "id"
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE POLICY rule ON retrieval_knowledgebase USING "
                f"(CASE WHEN id = {which} THEN {action} ELSE true END)"
            )
            cursor.execute("ALTER TABLE retrieval_knowledgebase ENABLE ROW LEVEL SECURITY")
            cursor.execute("ALTER TABLE retrieval_knowledgebase FORCE ROW LEVEL SECURITY")

    yield rule
    with connection.cursor() as cursor:
        cursor.execute("DROP POLICY IF EXISTS rule ON retrieval_knowledgebase")
        cursor.execute("ALTER TABLE retrieval_knowledgebase NO FORCE ROW LEVEL SECURITY")
        cursor.execute("ALTER TABLE retrieval_knowledgebase DISABLE ROW LEVEL SECURITY")


def _retrieve(version: Runnable, question: Question = QUERY) -> dict[str, Any]:
    return retrieve_attached(version=version, context={}, question=question, access=ACCESS)


def _names(answer: dict[str, Any]) -> list[str]:
    return [group["knowledgeBase"]["name"] for group in answer["groups"]]


def test_retrieve__at_once__answers_in_order_with_the_receipts_of_one_after_the_other(
    version: Runnable,
) -> None:
    with transaction.atomic():
        one_by_one = _retrieve(version)

    at_once = [_retrieve(version) for _ in range(3)]

    assert _names(at_once[0]) == NAMES
    for answer in at_once:
        assert answer["groups"] == one_by_one["groups"]
        assert answer["receipt"] == one_by_one["receipt"]


def test_retrieve__new_question_at_once__has_one_vector(version: Runnable) -> None:
    question = Question(query="A question that nobody has asked yet?")

    first, again = _retrieve(version, question), _retrieve(version, question)

    assert first["receipt"] == again["receipt"]


def test_retrieve__bases_that_are_slow__are_waited_for_together(
    version: Runnable, bases: list[KnowledgeBase], row_rules: Any, settings: Any
) -> None:
    settings.RETRIEVE_SECONDS = 120
    _retrieve(version)
    row_rules(None, "pg_advisory_xact_lock_shared(7) IS NOT NULL")

    with other_session() as holder:
        holder.execute("SELECT pg_advisory_xact_lock(7)")
        running = Running(lambda: _retrieve(version))
        wait_until(lambda: waiting() == settings.RETRIEVE_PARALLELISM)
        holder.rollback()
        answer = running.end()

    assert all(group["receipt"] for group in answer["groups"])


def test_retrieve__database_error_in_one_group__is_told_there_and_logged(
    version: Runnable,
    bases: list[KnowledgeBase],
    row_rules: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = _retrieve(version)
    row_rules(bases[2], "1 / (length(name) - length(name)) = 1")

    with caplog.at_level(logging.ERROR):
        answer = _retrieve(version)

    assert _names(answer) == NAMES
    failed = answer["groups"][2]
    assert set(failed) == {"knowledgeBase", "error"}
    assert (failed["error"]["code"], failed["error"]["status"]) == ("database.unavailable", 503)
    assert answer["receipt"] is None
    others = [group for place, group in enumerate(answer["groups"]) if place != 2]
    assert others == [group for place, group in enumerate(whole["groups"]) if place != 2]
    logged = [one for one in caplog.records if "retrieve.group_failed" in one.message]
    assert len(logged) == 1
    assert logged[0].exc_info
    assert str(bases[2].pk) in logged[0].message


def test_retrieve__base_that_hangs__is_given_up_in_time_and_its_thread_comes_back(
    version: Runnable, bases: list[KnowledgeBase], row_rules: Any, settings: Any
) -> None:
    settings.RETRIEVE_SECONDS = 10
    _retrieve(version)
    # As when the database was restarted: the threads' next connections have the limit too.
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_terminate_backend(pid, 60000) {_OTHER_CONNECTIONS}")
    row_rules(bases[0], "pg_sleep(200) IS NOT NULL")
    started = time.monotonic()

    answer = _retrieve(version)

    took = time.monotonic() - started
    hung = answer["groups"][0]
    assert (hung["error"]["code"], hung["error"]["seconds"]) == ("retrieve.timed_out", 10)
    assert hung["error"]["detail"] == "Delta did not answer within 10 seconds."
    assert all(group["receipt"] for group in answer["groups"][1:])
    assert 10 <= took < 120
    started = time.monotonic()
    stop_threads()
    assert time.monotonic() - started < 120


def test_retrieve__threads__are_few_and_let_go_of_their_connections(version: Runnable) -> None:
    for _ in range(5):
        _retrieve(version)
    names = [one.name for one in threading.enumerate() if one.name.startswith("retrieve")]
    opened = _other_connections()
    stop_threads()

    assert len(names) <= 4
    assert opened >= len(names)
    wait_until(lambda: _other_connections() == 0)


def _other_connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) {_OTHER_CONNECTIONS}")
        return int(cursor.fetchone()[0])
