"""Run a function over hostile bytes in a child process that cannot outgrow its limits.

A *host* process per caller imports the readers once; every call forks one child of it, limited
in memory, CPU time, wall time and output and killed with its whole process group. So a document
costs a fork instead of an interpreter's start, and whatever happens to the child happens to
nobody else. Hosts are started by ``subprocess`` with an environment of their own (no secret of
the caller's is in it), end when the caller does, however it ends, and leave no file behind.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

_PROJECT_ROOT = Path(__file__).resolve().parents[2]
_REPLY_SLACK_SECONDS = 15.0
_ERROR_TAIL_BYTES = 4000
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one document may cost. Sizes in bytes, times in seconds."""

    # How much address space the child may take beyond what its host has
    memory: int = 256 * _MIB
    cpu_seconds: int = 60
    wall_seconds: float = 120.0
    # The size of the reply, and of any file that the child writes
    output: int = 192 * _MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a child ended: exactly one of ``exit_code``, ``signal`` and ``timed_out`` says it."""

    exit_code: int | None
    signal: int | None
    timed_out: bool
    output: bytes
    # The end of what it wrote to standard error
    errors: str
    # Bytes, high-water mark of its resident memory
    peak_memory: int


class HostLost(Exception):
    """The host process fell silent or ended during a call; the next call starts another."""


class HostGone(HostLost):
    """The host process ended: killed, or idle for so long that it left just now."""


class _Host:
    """One host process and the socket to it; used by one thread at a time."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "retrieval.extraction.sandbox_host"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=_environment(),
                start_new_session=True,
            )

    def call(self, request: dict[str, Any], files: list[int], wall_seconds: float) -> Any:
        """Send one request and wait for its reply; raises HostLost."""
        try:
            self._socket.settimeout(wall_seconds + _REPLY_SLACK_SECONDS)
            message = json.dumps(request).encode() + b"\n"
            socket.send_fds(self._socket, [message], files)
            return json.loads(self._receive_line())
        except TimeoutError as error:
            raise HostLost("the host does not answer") from error
        except (OSError, ValueError) as error:
            raise HostGone(str(error)) from error

    def _receive_line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            part = self._socket.recv(65536)
            if not part:
                raise ConnectionError("the host closed the connection")
            line += part
        return line

    def is_fresh(self) -> bool:
        """Tell whether the host waits for a request (an idle one ends after a while)."""
        return self._process.poll() is None

    def forget(self) -> None:
        """Drop the inherited half of a socket whose host belongs to the parent process."""
        self._socket.close()
        # Else the parent's process would be waited for, and warned about, in this one
        self._process.returncode = 0

    def end(self) -> None:
        """Kill the host; its child goes with it."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


class _Hosts:
    """The idle hosts of this process. A fork starts with none: replies must never mix."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Host] = []

    def take(self) -> _Host:
        with self._lock:
            while self._idle:
                host = self._idle.pop()
                if host.is_fresh():
                    return host
                host.end()
        return _Host()

    def give_back(self, host: _Host) -> None:
        with self._lock:
            if not self._idle:
                self._idle.append(host)
                return
        host.end()

    def end(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for host in idle:
            host.end()

    def restart_after_fork(self) -> None:
        for host in self._idle:
            host.forget()
        self._lock = threading.Lock()
        self._idle = []


_hosts = _Hosts()
os.register_at_fork(after_in_child=_hosts.restart_after_fork)
atexit.register(_hosts.end)


def run_limited(
    task: str,
    content: bytes,
    options: dict[str, Any],
    limits: Limits,
    imports: Sequence[str] = (),
) -> Outcome:
    """Run ``task`` ("module:function") on ``content`` and return how it ended and what it wrote.

    The function is called with the content, the options and a binary file for its output;
    ``imports`` are modules that it will want, imported once and for all by the host.
    Never raises for what the child does; raises HostLost when the host itself was killed.
    """
    with (
        tempfile.TemporaryFile() as source,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
    ):
        source.write(content)
        source.flush()
        request = {
            "task": task,
            "imports": list(imports),
            "options": options,
            "limits": asdict(limits),
        }
        files = [source.fileno(), output.fileno(), errors.fileno()]
        try:
            reply = _call(request, files, limits.wall_seconds)
        except HostGone:
            reply = _call(request, files, limits.wall_seconds)
        return Outcome(
            exit_code=reply["exit_code"],
            signal=reply["signal"],
            timed_out=reply["timed_out"],
            output=_whole(output) if reply["exit_code"] == 0 else b"",
            errors=_tail(errors),
            peak_memory=reply["peak_memory"],
        )


def _call(request: dict[str, Any], files: list[int], wall_seconds: float) -> Any:
    host = _hosts.take()
    try:
        reply = host.call(request, files, wall_seconds)
    except BaseException:
        # Also when the caller is interrupted: a host with an unread reply must not be used again
        host.end()
        raise
    _hosts.give_back(host)
    return reply


def _whole(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _ERROR_TAIL_BYTES))
    return file.read().decode("utf-8", "replace")


def _environment() -> dict[str, str]:
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": str(_PROJECT_ROOT),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        "LANG": "C.UTF-8",
        "HOME": "/nonexistent",
        # One arena and one thread each: what a library reserves counts as address space
        "MALLOC_ARENA_MAX": "1",
        "RAYON_NUM_THREADS": "1",
        "TOKIO_WORKER_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "RUST_BACKTRACE": "0",
    }
