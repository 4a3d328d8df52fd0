"""Vectors of questions near at hand: in this process, and in Redis for all of them.

PostgreSQL has the one vector of a question; what is here are copies of committed rows, and never
has to be. Only rows that are kept for ever are copied: those that may be removed (drafts', the
test box's) could come back with other bits, and a version that is asked one of them must mark it.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import queue
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
import redis
from django.conf import settings
from django.db import DatabaseError, connection, transaction
from redis.backoff import NoBackoff
from redis.retry import Retry

from retrieval.models import EmbeddingModel
from retrieval.vectors import Vector

logger = logging.getLogger("retrieval.question_cache")

# A Redis that does not answer at once is left alone for a while: PostgreSQL is as near.
_PATIENCE_SECONDS = 0.2
_LEFT_ALONE_SECONDS = 10.0
_MAC_BYTES = 32
# More are not waited for: they stay in PostgreSQL.
_MOST_TO_COPY = 1000

Entry = tuple[Vector, bool]


class QuestionCache:
    """Vectors by model and question, each with whether the question was cut.

    The process's part holds ``QUESTION_CACHE_SIZE`` of them, the least recently used goes first.
    Redis keeps them for ``QUESTION_CACHE_SECONDS``, signed: what is damaged, forged, another
    model's or another installation's is not believed.
    """

    def __init__(self) -> None:
        self._near: OrderedDict[str, Entry] = OrderedDict()
        self._left_alone_until = 0.0
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._to_copy: queue.Queue[tuple[str, Entry]] = queue.Queue(_MOST_TO_COPY)
        self._thread: threading.Thread | None = None

    def get(self, model: EmbeddingModel, query_digest: str) -> Entry | None:
        """Return a copy of a kept row, or None: then PostgreSQL is to be asked."""
        key = _key(model, query_digest)
        with self._lock:
            found = self._near.get(key)
            if found is not None:
                self._near.move_to_end(key)
                return found
        found = self._from_redis(key, model.dimensions)
        if found is not None:
            self._put_near(key, found)
        return found

    def put_after_commit(
        self, model: EmbeddingModel, query_digest: str, vector: Vector, *, truncated: bool
    ) -> None:
        """Copy a kept row once the transaction in which it was read or written is committed."""
        key = _key(model, query_digest)
        entry = (vector, truncated)

        def put() -> None:
            self._put_near(key, entry)
            self._copy_soon(key, entry)

        transaction.on_commit(put, robust=True)

    def wait_until_copied(self) -> None:
        """Wait until Redis has, or has refused, all that was put so far."""
        self._to_copy.join()

    def forget(self) -> None:
        """Forget what this process holds."""
        with self._lock:
            self._near.clear()
            self._left_alone_until = 0.0

    def _put_near(self, key: str, entry: Entry) -> None:
        entry[0].setflags(write=False)  # many askers share it
        with self._lock:
            self._near[key] = entry
            self._near.move_to_end(key)
            while len(self._near) > settings.QUESTION_CACHE_SIZE:
                self._near.popitem(last=False)

    def _from_redis(self, key: str, dimensions: int) -> Entry | None:
        if not self._redis_is_used():
            return None
        try:
            found: Any = _client(settings.REDIS_URL).get(_redis_key(key))
        except (redis.RedisError, OSError) as error:
            self._leave_alone(error)
            return None
        return None if found is None else _unpacked(key, found, dimensions)

    def _copy_soon(self, key: str, entry: Entry) -> None:
        """Hand a copy for Redis to a thread: no answer waits for it, and none needs it."""
        if not self._redis_is_used():
            return
        with suppress(queue.Full):
            self._to_copy.put_nowait((key, entry))
        if self._thread is None or not self._thread.is_alive():
            with self._lock:
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(
                        target=self._copy, args=(self._to_copy,), name="question-cache", daemon=True
                    )
                    self._thread.start()

    def _copy(self, waiting: queue.Queue[tuple[str, Entry]]) -> None:
        while True:
            key, entry = waiting.get()
            try:
                self._to_redis(key, entry)
            finally:
                waiting.task_done()

    def _to_redis(self, key: str, entry: Entry) -> None:
        if not self._redis_is_used():
            return
        try:
            _client(settings.REDIS_URL).set(
                _redis_key(key), _packed(key, entry), ex=settings.QUESTION_CACHE_SECONDS
            )
        except (redis.RedisError, OSError) as error:
            self._leave_alone(error)

    def _redis_is_used(self) -> bool:
        return settings.QUESTION_CACHE_SECONDS > 0 and time.monotonic() >= self._left_alone_until

    def _leave_alone(self, error: Exception) -> None:
        self._left_alone_until = time.monotonic() + _LEFT_ALONE_SECONDS
        logger.warning("question_cache.redis_left_alone reason=%s", error)


CACHE = QuestionCache()


def _key(model: EmbeddingModel, query_digest: str) -> str:
    """A row's identity: of which database, by which model, of which question."""
    return f"{_database(connection.settings_dict['NAME'])}:{model.pk}:{model.fingerprint}:{query_digest}"


@lru_cache(maxsize=8)
def _database(name: str) -> str:
    """Tell this database from others, also from one that a dump of it was restored into."""
    system = "0"
    with connection.cursor() as cursor:
        # Some who host PostgreSQL keep this to themselves.
        with suppress(DatabaseError), transaction.atomic():
            cursor.execute("SELECT system_identifier FROM pg_control_system()")
            system = cursor.fetchone()[0]
        cursor.execute("SELECT oid FROM pg_database WHERE datname = current_database()")
        (oid,) = cursor.fetchone()
    return f"{system}.{oid}"


def _redis_key(key: str) -> str:
    return "question:" + hashlib.sha256(key.encode()).hexdigest()


def _packed(key: str, entry: Entry) -> bytes:
    vector, truncated = entry
    content = bytes([truncated]) + vector.astype("<f4").tobytes()
    return _mac(key, content) + content


def _unpacked(key: str, found: bytes, dimensions: int) -> Entry | None:
    mac, content = found[:_MAC_BYTES], found[_MAC_BYTES:]
    if len(content) != 1 + 4 * dimensions or not hmac.compare_digest(mac, _mac(key, content)):
        logger.warning("question_cache.not_believed key=%s", _redis_key(key))
        return None
    return np.frombuffer(content, dtype="<f4", offset=1).astype(np.float32), bool(content[0])


def _mac(key: str, content: bytes) -> bytes:
    secret = f"question-cache:{settings.SECRET_KEY}".encode()
    return hmac.new(secret, key.encode() + b"\0" + content, hashlib.sha256).digest()


@lru_cache(maxsize=8)
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url,
        socket_timeout=_PATIENCE_SECONDS,
        socket_connect_timeout=_PATIENCE_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )
