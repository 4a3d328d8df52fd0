"""Start and stop child processes that never outlive their parent."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

import psutil

from registry.embedded.accounts import Account

Pause = Callable[[float], None]
StopSteps = Sequence[tuple[signal.Signals, float]]

_PR_SET_PDEATHSIG = 1
# Looked up here: a child of a process with threads may not be able to, see fork(2)
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_TICK = 0.05
# What SIGKILL was sent to is gone as soon as the kernel gets round to it
_KILLED_SECONDS = 30.0


class Running(Protocol):
    """A child that was started and can be stopped."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None:
        """Return the exit code once it has ended, else None."""

    def stop(self) -> None:
        """Stop it in its own best way, by force in the end; return once it is gone."""


class Spawned:
    """A child that was spawned and is stopped by signals, each with the seconds it is given.

    No wait outlasts ``hurry``.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        stop_steps: StopSteps,
        *,
        hurry: Callable[[], bool] = lambda: False,
    ) -> None:
        self._process = process
        self._stop_steps = stop_steps
        self._hurry = hurry

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.poll()

    def stop(self) -> None:
        stop(self._process, self._stop_steps, hurry=self._hurry)


def spawn(
    argv: Sequence[str | Path],
    *,
    death_signal: signal.Signals,
    output: IO[bytes] | int,
    account: Account | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stderr: IO[bytes] | int = subprocess.STDOUT,
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, as ``account`` if that is another user.

    When this process dies, however it dies, the child gets ``death_signal`` (on Linux).
    ``env`` None inherits the environment.
    """
    parent = os.getpid()

    as_account: dict[str, Any] = {}
    if account is not None and account.switch:
        # Without an empty list the child would keep root's supplementary groups.
        as_account = {"user": account.uid, "group": account.gid, "extra_groups": []}
    return subprocess.Popen(  # noqa: S603 - programs of this environment, no shell
        [str(word) for word in argv],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=stderr,
        env=env,
        cwd=cwd,
        start_new_session=True,
        # Runs after the change of user, which would clear the signal again.
        preexec_fn=lambda: die_with_parent(death_signal, parent),
        **as_account,
    )


def die_with_parent(number: signal.Signals, parent: int) -> None:
    """Ask for signal ``number`` when the parent process dies; Linux only, else no effect.

    For a child to call; ``parent`` is the parent's number, since it may be dead already.
    """
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def stop(
    process: subprocess.Popen[bytes],
    steps: StopSteps,
    *,
    hurry: Callable[[], bool] = lambda: False,
) -> None:
    """Send each signal, wait its seconds, and end with SIGKILL to the whole process group.

    What the child left running in its group is killed as well, and gone on return. No wait for
    the child to end by itself outlasts ``hurry``.
    """
    for number, seconds in steps:
        if process.poll() is not None:
            break
        process.send_signal(number)
        wait_until(lambda: process.poll() is not None or hurry(), seconds=seconds)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not _runs_in_group(process.pid), seconds=_KILLED_SECONDS)


def _runs_in_group(group: int) -> bool:
    with suppress(PermissionError):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
    # Those that have ended count there until somebody collects their exit codes
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, PermissionError):
            if os.getpgid(process.pid) == group and not has_ended(process):
                return True
    return False


def working_in(folder: Path) -> list[psutil.Process]:
    """Return the processes whose working directory is ``folder``; ``info`` has name and ppid.

    A PostgreSQL server and all its helpers work in their data folder, whoever started them, so
    this finds a server where a pid file may be stale and its number long another program's.
    """
    wanted = str(folder)
    return [
        process
        for process in psutil.process_iter(["cwd", "name", "ppid"])
        if process.info["cwd"] == wanted and process.pid != os.getpid()
    ]


def end(processes: Sequence[psutil.Process], number: signal.Signals, seconds: float) -> None:
    """Send a signal to processes that are not our children, wait, then kill what is left."""
    for signal_now in (number, signal.SIGKILL):
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal_now)
        if wait_until(lambda: all(map(has_ended, processes)), seconds=seconds):
            return


def has_ended(process: psutil.Process) -> bool:
    """Tell whether a process has ended, also where nobody has collected its exit code yet."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until(condition: Callable[[], bool], *, seconds: float, pause: Pause = time.sleep) -> bool:
    """Return True as soon as ``condition`` holds, False after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause(_TICK)
    return True
