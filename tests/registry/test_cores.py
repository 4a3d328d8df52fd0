"""Work of one question, split over processor cores."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from registry import cores
from registry.celery import compute_on_one_core
from tests.folders import CHECKOUT


def test_spread__of_several_parts__does_them_at_once_and_answers_in_order() -> None:
    together = threading.Barrier(2, timeout=60)

    def work(part: int) -> tuple[int, str]:
        together.wait()
        return part, threading.current_thread().name

    (first, own), (second, other) = cores.spread(work, [1, 2])

    assert (first, second) == (1, 2)
    assert own == threading.current_thread().name != other


def test_spread__while_the_other_threads_are_busy__is_done_by_the_caller() -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def wait(part: int) -> bool:
        begun.release()
        return go_on.wait(60)

    def name(part: int) -> str:
        return threading.current_thread().name

    busy = threading.Thread(target=cores.spread, args=(wait, range(3)))
    busy.start()
    for _ in range(1 + cores._pool()._max_workers):
        begun.acquire()
    try:
        assert cores.spread(name, [1, 2]) == [threading.current_thread().name] * 2
    finally:
        go_on.set()
        busy.join()


@pytest.mark.parametrize("bad", [0, 1])
def test_spread__of_a_part_that_fails__raises_what_it_raised(bad: int) -> None:
    def work(part: int) -> int:
        if part == bad:
            raise ValueError(f"part {part}")
        return part

    with pytest.raises(ValueError, match=f"part {bad}"):
        cores.spread(work, [0, 1])


_FORKING = """
import os, signal
from registry import cores
cores.spread(abs, [1, 2])
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(0 if cores.spread(abs, [-1, -2]) == [1, 2] else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_spread__in_a_forked_process__does_not_wait_for_its_parents_threads() -> None:
    assert subprocess.run([sys.executable, "-c", _FORKING], cwd=CHECKOUT).returncode == 0


def test_worker__that_starts__takes_one_core(monkeypatch: pytest.MonkeyPatch, settings) -> None:
    monkeypatch.setattr(cores, "_most", None)
    settings.QUESTION_THREADS = 3
    assert cores.per_question() == 3

    compute_on_one_core()

    assert cores.per_question() == 1
