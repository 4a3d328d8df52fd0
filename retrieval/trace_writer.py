"""Writing traces in groups, so that no answer waits for a disk.

Each process has a bounded queue and one thread with a database connection of its own, which
inserts what has come together at least four times a second. These commits do not wait for the
disk (``synchronous_commit = off``): a power cut loses at most the newest second of traces, and a
killed process what it had not yet written, a quarter of a second's worth.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice
from multiprocessing.util import Finalize
from typing import Any

import psycopg
from django.db import connection as request_connection
from django.db import models

from registry.fields import ReceivedJSONField
from retrieval.models import Trace

logger = logging.getLogger("retrieval.traces")

MOST_WAITING = 1000
GROUP_SECONDS = 0.2
MOST_IN_A_GROUP = 200
RETRY_SECONDS = 0.5
EXIT_SECONDS = 8.0
FLUSH_SECONDS = 5.0
APPLICATION_NAME = "agent-registry traces"
_COMPLAIN_EVERY_SECONDS = 10.0

_FIELDS = tuple(Trace._meta.concrete_fields)


class TraceWriter:
    """The queue and the thread, which starts with the first trace of a process.

    The queue is emptied when the process ends, where it ends by returning or by a signal that its
    server handles. A forked child starts with an empty queue; the parent's traces stay its own.
    """

    def __init__(self, *, most_waiting: int = MOST_WAITING) -> None:
        self._most_waiting = most_waiting
        self._closed = False
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Trace] = deque()
        self._thread: threading.Thread | None = None
        self._registered = False
        self._ending = False
        self._give_up_at = 0.0
        self._put = 0
        self._settled = 0
        self._wanted = 0

    def put(self, trace: Trace) -> bool:
        """Take a trace to write soon; False where the caller must write it itself.

        It must when the queue is full (the database has been slow or away) or the process ends.
        """
        with self._changed:
            if self._closed or len(self._waiting) >= self._most_waiting:
                return False
            self._waiting.append(trace)
            self._put += 1
            if self._thread is None or not self._thread.is_alive():
                self._start()
            if len(self._waiting) in (1, MOST_IN_A_GROUP):
                self._changed.notify_all()
        return True

    @property
    def taken(self) -> int:
        """How many traces this process has put here so far."""
        return self._put

    def flush(self, *, seconds: float | None = None) -> bool:
        """Wait until all that was put so far is written; False where that took longer.

        It may take ``seconds``, FLUSH_SECONDS where nothing is said.
        """
        with self._changed:
            target = self._put
            if self._settled >= target:
                return True
            self._wanted = max(self._wanted, target)
            self._changed.notify_all()
            return self._changed.wait_for(
                lambda: self._settled >= target, FLUSH_SECONDS if seconds is None else seconds
            )

    def stop(self, *, seconds: float = EXIT_SECONDS) -> None:
        """Write what is waiting and end the thread; the next trace starts another.

        What cannot be written within ``seconds`` is given up, with an error in the log.
        """
        with self._changed:
            thread = self._thread
            self._ending = True
            self._give_up_at = time.monotonic() + seconds
            self._changed.notify_all()
        if thread is not None:
            thread.join(seconds + 2)
            if thread.is_alive():
                logger.critical("traces.lost count=%s: the database hangs", len(self._waiting))
                return
        with self._changed:
            self._thread, self._ending = None, False

    def close(self) -> None:
        """Stop for good: later traces are written by those who bring them."""
        self._closed = True
        self.stop()

    def _start(self) -> None:
        # A daemon: the interpreter would otherwise wait for it before it calls what is registered.
        self._thread = threading.Thread(target=self._run, name="trace-writer", daemon=True)
        self._thread.start()
        if not self._registered:
            # Called at the end of an ordinary process and of a forked or spawned one alike; the
            # module atexit is not asked in forked ones.
            Finalize(None, self.close, exitpriority=100)
            self._registered = True

    def _run(self) -> None:
        database = _Database()
        try:
            while group := self._next_group():
                self._write(database, group)
        finally:
            database.disconnect()

    def _next_group(self) -> list[Trace]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ending)
            self._changed.wait_for(self._is_due, GROUP_SECONDS)
            return list(islice(self._waiting, MOST_IN_A_GROUP))

    def _is_due(self) -> bool:
        return (
            self._ending
            or self._settled < self._wanted
            or len(self._waiting) >= min(MOST_IN_A_GROUP, self._most_waiting)
        )

    def _write(self, database: _Database, group: Sequence[Trace]) -> None:
        complain_at = 0.0
        while True:
            try:
                database.insert(group)
            except psycopg.Error as error:
                database.disconnect()
                if time.monotonic() >= complain_at:
                    complain_at = time.monotonic() + _COMPLAIN_EVERY_SECONDS
                    logger.error("traces.not_written_yet waiting=%s %s", len(self._waiting), error)
                if not self._wait_for_another_try():
                    logger.critical(
                        "traces.lost count=%s ids=%s",
                        len(group),
                        ",".join(str(trace.pk) for trace in group),
                    )
                    break
            else:
                break
        with self._changed:
            for _ in group:
                self._waiting.popleft()
            self._settled += len(group)
            self._changed.notify_all()

    def _wait_for_another_try(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._ending, RETRY_SECONDS)
            if self._ending:
                left = self._give_up_at - time.monotonic()
                self._changed.wait_for(lambda: False, min(RETRY_SECONDS, max(0.0, left)))
                return left > 0
            return True


class _Database:
    """A connection of the thread's own, made when it is needed."""

    def __init__(self) -> None:
        self._connection: psycopg.Connection[Any] | None = None

    def insert(self, group: Sequence[Trace]) -> None:
        """Insert traces in one statement; what the database refuses is logged and left out."""
        rows = [row for trace in group if (row := _row(trace)) is not None]
        try:
            self._execute(rows)
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            if len(group) == 1:
                logger.critical("traces.refused id=%s %s", group[0].pk, error)
                return
            for trace in group:
                self.insert([trace])

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _execute(self, rows: Sequence[str]) -> None:
        if not rows:
            return
        if self._connection is None:
            self._connection = psycopg.connect(
                **{
                    **request_connection.get_connection_params(),
                    "application_name": APPLICATION_NAME,
                    "autocommit": True,
                }
            )
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit TO off")
            cursor.execute(_INSERT, [f"[{','.join(rows)}]"])


def _row(trace: Trace) -> str | None:
    """Return a trace as one JSON object by column; None, with an error in the log, for none."""
    try:
        row = json.dumps(
            {field.column: _value(field, getattr(trace, field.attname)) for field in _FIELDS},
            ensure_ascii=False,
            separators=(",", ":"),
        )
        row.encode()
    except (TypeError, ValueError) as error:
        logger.critical("traces.refused id=%s %s", trace.pk, error)
        return None
    return row


def _value(field: models.Field[Any, Any], value: Any) -> Any:
    if isinstance(field, ReceivedJSONField):
        # As text within the text: it is kept as it stands, escaped NULs in it too.
        return field.get_prep_value(value)
    if isinstance(field, models.UUIDField | models.DateTimeField) and value is not None:
        return str(value)
    return value


def _column(field: models.Field[Any, Any]) -> str:
    is_json = isinstance(field, ReceivedJSONField)
    return f"{field.column} {'text' if is_json else field.db_type(request_connection)}"


def _selected(field: models.Field[Any, Any]) -> str:
    cast = f"::{field.db_type(request_connection)}" if isinstance(field, ReceivedJSONField) else ""
    return field.column + cast


# One JSON text for the group: as arrays, each quotation mark in it costs a call of Python.
# A commit may have succeeded although its connection broke: the second try inserts nothing then.
_INSERT = (
    f"INSERT INTO {Trace._meta.db_table} ({', '.join(field.column for field in _FIELDS)}) "
    f"SELECT {', '.join(map(_selected, _FIELDS))} "
    f"FROM json_to_recordset(%s) AS r ({', '.join(map(_column, _FIELDS))}) "
    "ON CONFLICT (id) DO NOTHING"
)
