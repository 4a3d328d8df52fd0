"""Real transactions side by side: threads with connections of their own, in a chosen order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from django.db import connection, connections

from retrieval.models import KnowledgeBase
from tests.servers import INSTANCE
from tests.worker import wait_until

SECONDS = 120


@dataclass
class Running:
    """A function in a thread; ``outcome`` is what it returned or the exception it raised."""

    work: Callable[[], Any]
    outcome: Any = None
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.outcome = self.work()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.outcome = error
        finally:
            connections.close_all()

    def end(self) -> Any:
        """Wait for the end and return the outcome."""
        self.thread.join(SECONDS)
        assert not self.thread.is_alive(), "the thread is stuck"
        return self.outcome


def together(*works: Callable[[], Any]) -> list[Any]:
    """Run functions at the same time, from one starting line; return their outcomes in order."""
    line = threading.Barrier(len(works))

    def from_the_line(work: Callable[[], Any]) -> Callable[[], Any]:
        def start() -> Any:
            line.wait(SECONDS)
            return work()

        return start

    running = [Running(from_the_line(work)) for work in works]
    return [one.end() for one in running]


def queued(lock: str, *works: Callable[[], Any]) -> list[Any]:
    """Hold ``lock`` (a SELECT … FOR …), let each work queue up behind it in order, release it.

    PostgreSQL serves those who wait for a row in the order in which they came.
    """
    with other_session() as holder:
        holder.execute(lock)
        running = []
        for work in works:
            running.append(Running(work))
            wait_until(lambda: waiting() >= len(running), seconds=SECONDS)
        holder.commit()
        return [one.end() for one in running]


def lock_of_base(base: KnowledgeBase) -> str:
    """Return the lock that publishing, building, pruning and deleting a knowledge base meet at."""
    return f"SELECT 1 FROM retrieval_knowledgebase WHERE id = '{base.pk}' FOR UPDATE"


@contextmanager
def other_session() -> Iterator[psycopg.Connection]:
    """A plain session of the tables' owner; what it did not commit is undone."""
    dsn = INSTANCE.postgres_dsn("owner", connection.settings_dict["NAME"])
    with psycopg.connect(dsn) as opened:
        try:
            yield opened
        finally:
            opened.rollback()


def waiting() -> int:
    """How many sessions of this test's database wait for a lock now."""
    with connection.cursor() as cursor:
        # Inside a transaction PostgreSQL shows the sessions as they were at the first look.
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        found: int = cursor.fetchone()[0]
    return found
