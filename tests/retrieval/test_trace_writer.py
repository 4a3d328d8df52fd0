"""Traces are written after the answer, in groups, by a real thread on a connection of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import connection

from retrieval import traces
from retrieval.models import Trace
from retrieval.trace_writer import APPLICATION_NAME, TraceWriter
from tests.database.threads import other_session
from tests.folders import CHECKOUT
from tests.servers import INSTANCE
from tests.traces import kept_traces
from tests.worker import wait_until

pytestmark = pytest.mark.django_db
_LOCK = "LOCK TABLE retrieval_trace IN SHARE MODE"


def _trace(**values: Any) -> Trace:
    return Trace(**{"kind": "resolve", "agent_slug": "support", **values})


def _stored(session: psycopg.Connection, ids: Sequence[uuid.UUID]) -> list[tuple[Any, ...]]:
    session.rollback()
    return session.execute(
        "SELECT id, at, xmin::text FROM retrieval_trace WHERE id = ANY(%s)", [list(ids)]
    ).fetchall()


def _is_stored(session: psycopg.Connection, trace_id: uuid.UUID) -> bool:
    return bool(_stored(session, [trace_id]))


@pytest.fixture
def small() -> Iterator[TraceWriter]:
    """A writer with room for two."""
    writer = TraceWriter(most_waiting=2)
    yield writer
    writer.stop()


def test_trace__once_recorded__is_found_by_every_session_within_a_second() -> None:
    took = []
    with other_session() as session:
        for _ in range(5):
            began = time.monotonic()
            trace_id = traces.record_trace(_trace())
            wait_until(partial(_is_stored, session, trace_id))
            took.append(time.monotonic() - began)

    # The quickest: what a busy machine adds is not the writer's
    assert min(took) < 1


def test_trace__every_member__is_kept_as_it_was_given() -> None:
    given = _trace(
        kind="call",
        api_key_name="shop",
        draft_revision=7,
        manifest_digest="sha256:" + "0" * 64,
        conversation_id="c-1",
        arguments={"query": "“ß” \\ \U0001f600", "topK": None, "z": 1, "a": [1.5, True]},
        decisions=[{"label": 'EU "\\u0000" \0 \x1f'}],
        context_problems=[{"variable": "region"}],
        groups=[{"results": []}],
        receipt="sha256:" + "1" * 64,
    )
    traces.record_trace(given)

    kept = kept_traces().get(pk=given.pk)

    for field in Trace._meta.concrete_fields:
        assert getattr(kept, field.attname) == getattr(given, field.attname), field.name
    assert list(kept.arguments) == ["query", "topK", "z", "a"]


def test_trace__database_does_not_take_it_now__the_caller_does_not_wait() -> None:
    with other_session() as session:
        session.execute(_LOCK)
        trace_id = traces.record_trace(_trace())  # whoever waited would wait for ever
        assert not traces.writer.flush(seconds=0.5)
        session.rollback()
        assert traces.flush_traces()
        stored = _stored(session, [trace_id])

    assert len(stored) == 1


def test_traces__many_at_once__are_written_in_few_transactions() -> None:
    with other_session() as session:
        # Held up, so that however slow this is, they are many at once
        session.execute(_LOCK)
        ids = [traces.record_trace(_trace()) for _ in range(300)]
        session.rollback()
        assert traces.flush_traces()
        stored = _stored(session, ids)
    assert len(stored) == 300
    assert len({transaction for *_, transaction in stored}) <= 4


def test_queue__full__lets_the_caller_write_itself(
    small: TraceWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "writer", small)
    with other_session() as session:
        session.execute(_LOCK)
        waiting = [traces.record_trace(_trace()) for _ in range(2)]
        assert not small.put(_trace())
        session.rollback()
        assert small.flush()
        assert len(_stored(session, waiting)) == 2


def test_trace__where_the_queue_is_full__is_there_when_the_answer_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(traces, "writer", TraceWriter(most_waiting=0))

    trace_id = traces.record_trace(_trace())

    assert Trace.objects.filter(pk=trace_id).exists()


def test_writer__its_connection_is_cut__writes_each_trace_once_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    traces.record_trace(_trace())
    assert traces.flush_traces()
    with other_session() as session:
        _end_the_writer(session)

    second = traces.record_trace(_trace())

    assert traces.flush_traces()
    assert kept_traces().filter(pk=second).count() == 1
    assert "traces.not_written_yet" in caplog.text


def test_writer__database_lets_nobody_in__waits_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with _nobody_let_in():
        ids = [traces.record_trace(_trace()) for _ in range(3)]
        wait_until(lambda: "traces.not_written_yet waiting=" in caplog.text)
        assert not traces.writer.flush(seconds=1)
    assert traces.flush_traces()

    assert kept_traces().filter(pk__in=ids).count() == 3


def test_writer__database_away_when_the_process_ends__says_what_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with _nobody_let_in():
        lost = traces.record_trace(_trace())
        traces.writer.stop(seconds=0.5)
        # Its thread may be late on a busy machine
        wait_until(lambda: f"traces.lost count=1 ids={lost}" in caplog.text)


def test_writer__one_trace_is_refused__the_others_of_its_group_are_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ids = [
        traces.record_trace(_trace()),
        traces.record_trace(_trace(conversation_id="x" * 300)),
        traces.record_trace(_trace(conversation_id="a\0b")),
        traces.record_trace(_trace(arguments={"x": float("nan")})),
        traces.record_trace(_trace()),
    ]

    assert traces.flush_traces()

    with other_session() as session:
        stored = {one for one, *_ in _stored(session, ids)}
    assert stored == {ids[0], ids[4]}
    for refused in ids[1:4]:
        assert f"traces.refused id={refused}" in caplog.text


_PROGRAM = """
import django; django.setup()
import multiprocessing, os, signal, sys, time
from retrieval.models import Trace
from retrieval.traces import record_trace

def record(label):
    record_trace(Trace(kind="resolve", agent_slug="ends", conversation_id=label))

def child():
    record("forked child")

record("parent")
if sys.argv[1] == "fork":
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start(); process.join()
"""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("how", "expected"), [("end", ["parent"]), ("fork", ["forked child", "parent"])]
)
def test_process__ends__writes_what_it_recorded(how: str, expected: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, how],
        cwd=CHECKOUT,
        env={**os.environ, "DATABASE_NAME": connection.settings_dict["NAME"]},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    labels = kept_traces().filter(agent_slug="ends").values_list("conversation_id", flat=True)
    assert sorted(labels) == expected


def _end_the_writer(session: psycopg.Connection) -> None:
    """Cut the connection of this database's writer of traces."""
    session.execute(
        "SELECT pg_terminate_backend(pid, 120000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = %s",
        [APPLICATION_NAME],
    )


@contextmanager
def _nobody_let_in() -> Iterator[None]:
    """The writer's connection is cut, and the database lets nobody in, until the end of the block."""
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    traces.record_trace(_trace())
    assert traces.flush_traces()
    with other_session() as session:
        session.autocommit = True
        _allow_connections(name, allowed=False)
        try:
            _end_the_writer(session)
            yield
        finally:
            _allow_connections(name, allowed=True)


def _allow_connections(name: str, *, allowed: bool) -> None:
    with psycopg.connect(INSTANCE.postgres_dsn("owner", "postgres"), autocommit=True) as session:
        session.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {allowed}")
