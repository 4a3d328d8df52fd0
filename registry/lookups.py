"""Small rows that every request needs, kept in process and at most 1.5 seconds old.

A web server calls `keep_fresh`: from then on one thread reads again, twice a second and in one
query per kind, what requests have asked for lately, so that a request finds it without a query of
its own. A value counts only for MAX_AGE seconds from before its query began; where the thread is
late, or was never started, requests read for themselves. So a change is seen everywhere within
MAX_AGE of its commit, whoever made it and however, and nothing has to be told to anybody.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db import DatabaseError, InterfaceError, connection

logger = logging.getLogger("registry.lookups")

# The promise is two seconds; the rest is for the request itself and a busy machine.
MAX_AGE = 1.5
REFRESH_EVERY = 0.5
# What nobody has asked for this long is no longer read again.
FORGOTTEN_AFTER = 60.0
MOST_KEPT = 10_000
_COMPLAIN_EVERY = 10.0

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class _Kept(Generic[V]):
    value: V
    read_at: float
    used_at: float


class Lookup(Generic[K, V]):
    """Values by key. ``read`` returns those of many keys in one query, without the missing ones.

    What is missing is never kept: it is there for the first request after its commit.
    """

    def __init__(self, read: Callable[[Collection[K]], Mapping[K, V]]) -> None:
        self._read = read
        self._kept: dict[K, _Kept[V]] = {}
        _lookups.append(self)

    def get(self, key: K) -> V | None:
        """Return the value of ``key``, None where there is none."""
        now = time.monotonic()
        kept = self._kept.get(key)
        if kept is not None and now - kept.read_at < MAX_AGE:
            kept.used_at = now
            return kept.value
        value = self._read([key]).get(key)
        if value is None:
            self._kept.pop(key, None)
        elif _refresher.is_running() and len(self._kept) < MOST_KEPT:
            self._kept[key] = _Kept(value, now, now)
        return value

    def refresh(self) -> None:
        """Read again what was asked for lately, and forget the rest."""
        now = time.monotonic()
        for key, kept in list(self._kept.items()):
            if now - kept.used_at > FORGOTTEN_AFTER:
                self._kept.pop(key, None)
        wanted = list(self._kept)
        if not wanted:
            return
        found = self._read(wanted)
        for key in wanted:
            kept_now = self._kept.get(key)
            if key not in found:
                self._kept.pop(key, None)
            elif kept_now is not None and kept_now.read_at < now:
                self._kept[key] = _Kept(found[key], now, kept_now.used_at)

    def forget(self) -> None:
        """Forget everything; what is asked for next is read."""
        self._kept.clear()


_lookups: list[Lookup[Any, Any]] = []


class _Refresher:
    """The thread, started again where it is gone: in a forked child."""

    def __init__(self) -> None:
        self._wanted = False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self) -> None:
        self._thread = None
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def start(self) -> None:
        self._wanted = True
        self.is_running()

    def is_running(self) -> bool:
        if not self._wanted:
            return False
        if self._thread is None or not self._thread.is_alive():
            with self._lock:
                if self._thread is None or not self._thread.is_alive():
                    self._ended.clear()
                    self._thread = threading.Thread(target=self._run, name="lookups", daemon=True)
                    self._thread.start()
        return True

    def stop(self) -> None:
        self._wanted = False
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for lookup in _lookups:
            lookup.forget()

    def _run(self) -> None:
        complain_at = 0.0
        try:
            while not self._ended.wait(REFRESH_EVERY):
                try:
                    for lookup in _lookups:
                        lookup.refresh()
                except (DatabaseError, InterfaceError) as error:
                    # Requests read for themselves meanwhile, and answer 503 if they cannot either.
                    connection.close()
                    if time.monotonic() >= complain_at:
                        complain_at = time.monotonic() + _COMPLAIN_EVERY
                        logger.error("lookups.not_refreshed %s", error)
        finally:
            connection.close()


_refresher = _Refresher()


def keep_fresh() -> None:
    """Keep what requests look up fresh in this process, from now on."""
    _refresher.start()


def stop_keeping_fresh() -> None:
    """End that, and forget what is kept: every look-up is a query again."""
    _refresher.stop()
