"""Keep a set of children running, say what happens to them, and stop them in order."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from registry.embedded.failure import StartFailed
from registry.embedded.logs import LogWatch, last_line, open_log, size_of
from registry.embedded.processes import Running, Spawned, StopSteps, spawn

Say = Callable[[str], None]
R = TypeVar("R", bound=Running)

_LONGEST_BACK_OFF = 60.0
_STEADY_SECONDS = 60.0
_LINES_AT_ONCE = 5


class Program(Spawned):
    """A child that is stopped by signals alone."""

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        cwd: Path,
        log_path: Path,
        death_signal: signal.Signals,
        stop_steps: StopSteps,
        hurry: Callable[[], bool] = lambda: False,
    ) -> None:
        with open_log(log_path) as log:
            process = spawn(argv, death_signal=death_signal, output=log, cwd=cwd)
        super().__init__(process, stop_steps, hurry=hurry)


@dataclass(slots=True)
class _Child:
    name: str
    start: Callable[[], Running]
    running: Running
    watch: LogWatch
    log_since: int
    started_at: float
    failures: int = 0
    start_at: float | None = None  # set while it waits to be started again


class Supervisor:
    """The children of one ``up``, in the order in which they were started."""

    def __init__(
        self, *, log_dir: Path, say: Say, changed: Callable[[Mapping[str, int]], None]
    ) -> None:
        self._log_dir = log_dir
        self._say = say
        self._changed = changed
        self._children: list[_Child] = []
        self.starting = True  # set False once everything runs

    def start(self, name: str, start: Callable[[], R], *, show: re.Pattern[str]) -> R:
        """Start a child and keep it running from now on; returns it.

        Lines of its log that match ``show`` are repeated to the person.
        """
        log_path = self._log_dir / f"{name}.log"
        watch, log_since = LogWatch(log_path, show), size_of(log_path)
        running = start()
        self._children.append(_Child(name, start, running, watch, log_since, time.monotonic()))
        self._changed(self._pids())
        return running

    def check(self) -> None:
        """Repeat what the logs say that matters; start again what has ended by itself.

        While ``starting``, a child that ends means that it cannot run: raises StartFailed.
        """
        for child in self._children:
            self._repeat_news(child)
            now = time.monotonic()
            if child.start_at is None and (code := child.running.poll()) is not None:
                self._schedule_start(child, code, now)
            if child.start_at is not None and now >= child.start_at:
                self._start_again(child)

    def stop_all(self) -> None:
        """Stop the children, the last one started first; each is gone before the next."""
        while self._children:
            child = self._children.pop()
            self._say(f"stopping {child.name}")
            child.running.stop()
        self._changed({})

    def _repeat_news(self, child: _Child) -> None:
        lines = child.watch.news()
        for line in lines[:_LINES_AT_ONCE]:
            self._say(f"{child.name}: {line}")
        if len(lines) > _LINES_AT_ONCE:
            more = len(lines) - _LINES_AT_ONCE
            self._say(f"{child.name}: {more} more in {self._log_dir / child.name}.log")

    def _schedule_start(self, child: _Child, code: int, now: float) -> None:
        child.running.stop()  # whatever else is left in its session
        if self.starting:
            log_path = self._log_dir / f"{child.name}.log"
            raise StartFailed(
                f"{child.name} ended at once ({_ending(code)}): "
                f"{last_line(log_path, since=child.log_since)} (more in {log_path})."
            )
        if now - child.started_at > _STEADY_SECONDS:
            child.failures = 0
        delay = min(_LONGEST_BACK_OFF, 2.0**child.failures)
        child.failures += 1
        child.start_at = now + delay
        self._say(f"{child.name} ended by itself ({_ending(code)}); starting it in {delay:.0f} s")

    def _start_again(self, child: _Child) -> None:
        child.started_at = time.monotonic()
        try:
            child.running = child.start()
        except StartFailed as failure:
            delay = min(_LONGEST_BACK_OFF, 2.0**child.failures)
            child.failures += 1
            child.start_at = time.monotonic() + delay
            self._say(f"{child.name}: {failure} Trying again in {delay:.0f} s.")
            return
        child.start_at = None
        self._changed(self._pids())
        self._say(f"{child.name} runs again")

    def _pids(self) -> dict[str, int]:
        return {child.name: child.running.pid for child in self._children}


def _ending(code: int) -> str:
    if code < 0:
        with suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit code {code}"
