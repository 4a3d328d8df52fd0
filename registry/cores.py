"""How many processor cores this process takes for one question, and work split over them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.conf import settings

T = TypeVar("T")
R = TypeVar("R")

_most: int | None = None


def per_question() -> int:
    """Return the number of cores: the setting ``QUESTION_THREADS``; one after ``take_one``."""
    return settings.QUESTION_THREADS if _most is None else _most


def take_one() -> None:
    """Take one core from now on: there are as many processes like this one as cores."""
    global _most
    _most = 1


def spread(work: Callable[[T], R], parts: Sequence[T]) -> list[R]:
    """Return what ``work`` gives for each part; the first is done by the caller's own thread, and so
    are others that no thread was free for.

    For work that lets other threads run (numpy's, for instance) and needs no database. Raises what
    ``work`` raises.
    """
    others = [_pool().submit(work, part) for part in parts[1:]]
    try:
        done = [work(part) for part in parts[:1]]
        # Nobody waits for threads that are busy with other questions.
        rest = zip(others, parts[1:], strict=True)
        done += [work(part) if other.cancel() else other.result() for other, part in rest]
        return done
    finally:
        for other in others:
            other.cancel()


_lock = threading.Lock()
_executor: ThreadPoolExecutor | None = None


def _pool() -> ThreadPoolExecutor:
    global _executor
    with _lock:
        if _executor is None:
            _executor = ThreadPoolExecutor(max(1, per_question() - 1), thread_name_prefix="cores")
        return _executor


def _begin() -> None:
    """A forked process has none of its parent's threads."""
    global _lock, _executor
    _lock = threading.Lock()
    _executor = None


os.register_at_fork(after_in_child=_begin)
