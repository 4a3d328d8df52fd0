"""The host process: forks one limited child per request and reports how it ended.

Started by ``sandbox`` with a socket as standard input. It never looks at a document: it passes
file descriptors on. It ends when the other side of the socket does, or after a time of idleness.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

IDLE_SECONDS = 300.0
EXIT_EXCEPTION = 70
EXIT_MEMORY = 71
EXIT_OUTPUT = 72
_OPEN_FILES = 64
# No file of the host has a higher number: it opens but a few
_MOST_FILES = 256
_SET_PARENT_DEATH_SIGNAL = 1
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def serve(connection: socket.socket) -> None:
    """Answer requests until the connection ends or nobody has asked for a while."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while select.select([connection], [], [], IDLE_SECONDS)[0]:
        request = _receive(connection)
        if request is None:
            return
        message, files = request
        task = _load(message["task"], message["imports"])
        host, child = os.getpid(), os.fork()
        if child == 0:
            _become_child(host, task, message, files)
        for file in files:
            os.close(file)
        reply = _wait(child, connection, woken, message["limits"]["wall_seconds"])
        if reply is None:
            return
        connection.sendall(json.dumps(reply).encode() + b"\n")


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    line, files = b"", list[int]()
    while not line.endswith(b"\n"):
        part, received, _, _ = socket.recv_fds(connection, 65536, 8)
        if not part:
            return None
        line += part
        files += received
    return json.loads(line), files


def _load(task: str, imports: list[str]) -> Callable[[bytes, dict[str, Any], Any], None]:
    """Import in the host, so that the next child has it already."""
    for module in imports:
        importlib.import_module(module)
    module, name = task.split(":")
    function: Callable[[bytes, dict[str, Any], Any], None]
    function = getattr(importlib.import_module(module), name)
    return function


def _wait(
    child: int, connection: socket.socket, woken: int, wall_seconds: float
) -> dict[str, Any] | None:
    """Return the reply, or None when the other side is gone. Nothing of the child is left."""
    deadline = time.monotonic() + wall_seconds
    ended, gone, timed_out = False, False, False
    while not (ended or gone or timed_out):
        left = max(0.0, deadline - time.monotonic())
        ready = select.select([connection.fileno(), woken], [], [], left)[0]
        if woken in ready:
            os.read(woken, 512)
            # Looked at without reaping: the process group's number must stay taken until the kill
            ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        gone = not ended and connection.fileno() in ready
        timed_out = time.monotonic() >= deadline and not ended
    _kill(child)
    _, status, usage = os.wait4(child, 0)
    if gone:
        return None
    killed_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    return {
        "exit_code": os.WEXITSTATUS(status) if killed_by is None else None,
        "signal": None if timed_out else killed_by,
        "timed_out": timed_out or killed_by == signal.SIGXCPU,
        "peak_memory": usage.ru_maxrss * 1024,
    }


def _kill(child: int) -> None:
    # By group, for what the child may have started; by number, should it not lead its group yet
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(child, signal.SIGKILL)


def _become_child(
    host: int,
    task: Callable[[bytes, dict[str, Any], Any], None],
    message: dict[str, Any],
    files: list[int],
) -> NoReturn:
    exit_code = EXIT_EXCEPTION
    try:
        os.setsid()
        _die_with(host)
        source, output, errors = files
        nothing = os.open(os.devnull, os.O_RDWR)
        for target, file in ((0, nothing), (1, nothing), (2, errors)):
            os.dup2(file, target)
        _close_all_but(source, output)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with os.fdopen(source, "rb") as file_of_content:
            file_of_content.seek(0)
            content = file_of_content.read()
        # The child is short-lived and its memory limited: collecting cycles only costs time
        gc.disable()
        _limit(message["limits"])
        with os.fdopen(output, "wb") as file_of_output:
            task(content, message["options"], file_of_output)
        exit_code = 0
    except MemoryError:
        exit_code = EXIT_MEMORY
    except OSError as error:
        exit_code = EXIT_OUTPUT if error.errno == 27 else EXIT_EXCEPTION
        sys.excepthook(*sys.exc_info())
    except BaseException:  # noqa: BLE001 - the child must never run on as a second host
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(exit_code)


def _close_all_but(*kept: int) -> None:
    """Close what the host holds: above all the socket to its caller."""
    first = 3
    for file in (*sorted(kept), _MOST_FILES):
        os.closerange(first, file)
        first = file + 1


def _die_with(host: int) -> None:
    if _prctl is not None:
        _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    # No signal tells of a host that died before it was asked for
    if os.getppid() != host:
        os.kill(os.getpid(), signal.SIGKILL)


def _limit(limits: dict[str, Any]) -> None:
    _set(resource.RLIMIT_CORE, 0)
    _set(resource.RLIMIT_NOFILE, _OPEN_FILES)
    _set(resource.RLIMIT_FSIZE, int(limits["output"]))
    # A process that survives the soft limit's signal is killed a second later by the hard one
    seconds = int(limits["cpu_seconds"])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    size = _address_space()
    if size is not None:
        _set(resource.RLIMIT_AS, size + int(limits["memory"]))


def _set(what: int, value: int) -> None:
    _, most = resource.getrlimit(what)
    if most != resource.RLIM_INFINITY:
        value = min(value, most)
    resource.setrlimit(what, (value, value))


def _address_space() -> int | None:
    """Return the size of this process's address space in bytes; None where unknown."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return None


if __name__ == "__main__":
    with socket.socket(fileno=os.dup(0)) as _connection:
        serve(_connection)
