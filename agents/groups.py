"""Asking several knowledge bases at once: one group for each, in order, whatever happens to others.

Each is asked by a thread of a bounded pool with a database connection of its own. One that fails
or takes too long says so in its group and keeps nobody else from answering.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

from django.conf import settings
from django.db import DatabaseError, InterfaceError, close_old_connections, connection
from psycopg.errors import QueryCanceled

from agents.versions import Binding, Runnable
from registry.errors import RegistryError, TooMany, Unavailable, problem
from retrieval import search
from retrieval.questions import Question, vector_of

logger = logging.getLogger("agents.retrieve")

# How much longer than the database may take for a statement a group is waited for.
_GRACE_SECONDS = 0.5


class Group(NamedTuple):
    """What one knowledge base answered: for the caller, for the trace; no receipt if it failed."""

    answer: dict[str, Any]
    traced: dict[str, Any]
    receipt: str | None


class _Asked(NamedTuple):
    """One question to a version, and on whose account."""

    version: Runnable
    question: Question
    asker: uuid.UUID | None


def ask_all(
    version: Runnable,
    bindings: Sequence[Binding],
    question: Question,
    *,
    asker: uuid.UUID | None = None,
) -> list[Group]:
    """Ask the knowledge base of each binding; the groups are in the order of the bindings.

    Within a transaction, whose rows other connections may not see, one after the other. Raises
    TooMany where ``asker``, an API key, has asked too many new questions.
    """
    asked = _Asked(version, question, asker)
    if connection.in_atomic_block:
        return [_ask(asked, binding) for binding in bindings]
    _know_vector(asked, bindings)
    futures = [(binding, _pool.submit(asked, binding)) for binding in bindings]
    ends = time.monotonic() + settings.RETRIEVE_SECONDS + _GRACE_SECONDS
    return [_result(asked, binding, future, ends) for binding, future in futures]


def _know_vector(asked: _Asked, bindings: Sequence[Binding]) -> None:
    """Compute the question's vector once where several groups need the same."""
    version = asked.version
    targets = [version.targets.get(binding.values.knowledge_base) for binding in bindings]
    needed = Counter(target.snapshot.model for target in targets if target is not None)
    for model, count in needed.items():
        if count > 1:
            try:
                vector_of(model, asked.question, keep=version.number is not None, asker=asked.asker)
            except TooMany:
                raise
            except RegistryError:
                # What is wrong with a model is said by the groups that need it.
                continue


def _result(asked: _Asked, binding: Binding, future: Future[Group], ends: float) -> Group:
    try:
        return future.result(timeout=max(0.0, ends - time.monotonic()))
    except TimeoutError:
        # One that has begun goes on until the database cancels its statement.
        future.cancel()
        logger.error(
            "retrieve.timed_out agent=%s knowledge_base=%s seconds=%s",
            asked.version.slug,
            binding.values.knowledge_base,
            settings.RETRIEVE_SECONDS,
        )
        return _failed(asked.version, binding, _too_slow(asked.version, binding))


def _ask(asked: _Asked, binding: Binding) -> Group:
    version = asked.version
    base_id = binding.values.knowledge_base
    try:
        found = search.retrieve(version.target(base_id), asked.question, asker=asked.asker)
    except TooMany:
        raise
    except RegistryError as error:
        return _failed(version, binding, error)
    except Exception as error:
        logger.exception("retrieve.group_failed agent=%s knowledge_base=%s", version.slug, base_id)
        return _failed(version, binding, _known(version, binding, error))
    return Group(
        answer={"label": binding.values.label, **found.as_json()},
        traced=found.trace_group(),
        receipt=found.receipt,
    )


def _failed(version: Runnable, binding: Binding, error: RegistryError) -> Group:
    base = version.knowledge_base(binding.values.knowledge_base)
    answer = {"knowledgeBase": base, "error": problem(error)}
    return Group(answer=answer, traced=answer, receipt=None)


def _known(version: Runnable, binding: Binding, error: Exception) -> RegistryError:
    if isinstance(error.__cause__, QueryCanceled):
        return _too_slow(version, binding)
    if isinstance(error, DatabaseError | InterfaceError):
        return Unavailable(
            "The database could not answer for this knowledge base; the log has the details.",
            code="database.unavailable",
        )
    return RegistryError(
        "Something went wrong on our side; the log has the details.", code="internal_error"
    )


def _too_slow(version: Runnable, binding: Binding) -> Unavailable:
    name = version.names[binding.values.knowledge_base]
    return Unavailable(
        f"{name} did not answer within {settings.RETRIEVE_SECONDS} seconds.",
        code="retrieve.timed_out",
        seconds=settings.RETRIEVE_SECONDS,
    )


def _ask_in_thread(asked: _Asked, binding: Binding) -> Group:
    # As a request does: a connection that is broken or too old is left behind.
    close_old_connections()
    try:
        _limit_statements()
        return _ask(asked, binding)
    except (DatabaseError, InterfaceError) as error:
        logger.exception("retrieve.group_failed agent=%s", asked.version.slug)
        return _failed(asked.version, binding, _known(asked.version, binding, error))
    finally:
        close_old_connections()


_limited = threading.local()


def _limit_statements() -> None:
    """Let the database cancel what takes too long, so that a thread comes back."""
    # One that was lost is left behind now: the next would come without the limit.
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    if getattr(_limited, "connection", None) is not connection.connection:
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout TO %s", [round(settings.RETRIEVE_SECONDS * 1000)])
        _limited.connection = connection.connection


class _Pool:
    """The threads of this process, made when they are first needed."""

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    def submit(self, asked: _Asked, binding: Binding) -> Future[Group]:
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(
                    settings.RETRIEVE_PARALLELISM, thread_name_prefix="retrieve"
                )
            return self._executor.submit(_ask_in_thread, asked, binding)

    def stop(self) -> None:
        """End the threads and close their connections; the next question makes others."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            threads = settings.RETRIEVE_PARALLELISM
            together = threading.Barrier(threads)
            for _ in range(threads):
                executor.submit(_close_connection, together)
            executor.shutdown()


def _close_connection(together: threading.Barrier) -> None:
    """Close this thread's connection; waits for the others, so that each thread does it once."""
    with suppress(threading.BrokenBarrierError):
        together.wait(settings.RETRIEVE_SECONDS)
    connection.close()


_pool = _Pool()


def stop_threads() -> None:
    """End the threads of this process that ask knowledge bases."""
    _pool.stop()
