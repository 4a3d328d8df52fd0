"""Run one management command of this project as a step of start-up, and show what it says."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from registry.embedded.failure import StartFailed
from registry.embedded.logs import open_log
from registry.embedded.processes import spawn, stop

Say = Callable[[str], None]

_TICK = 0.2
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*[a-z]\w*: ")
_STOP_STEPS = ((signal.SIGTERM, 10.0),)


def run_step(
    words: list[str],
    *,
    base_dir: Path,
    log_path: Path,
    say: Say,
    check: Callable[[], None],
    shown: Callable[[str], bool] = lambda _: True,
) -> list[str]:
    """Run ``manage.py`` with ``words`` and return the lines of its standard output.

    What it writes to standard error, and those lines of standard output that are ``shown``, go
    to ``say`` while it runs; standard error goes to the log as well, standard output does not,
    since it may hold a key. ``check`` is called several times a second and may raise.
    Raises StartFailed with its last word if it fails.
    """
    output: list[str] = []
    errors: list[str] = []
    process = spawn(
        [sys.executable, base_dir / "manage.py", *words],
        death_signal=signal.SIGTERM,
        output=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=base_dir,
    )
    try:
        with open_log(log_path) as log, selectors.DefaultSelector() as selector:
            for stream, lines in ((process.stdout, output), (process.stderr, errors)):
                if stream is not None:
                    selector.register(stream.fileno(), selectors.EVENT_READ, _Lines(lines))
            while selector.get_map():
                check()
                for key, _ in selector.select(_TICK):
                    chunk = os.read(key.fd, 65536)
                    if not chunk:
                        selector.unregister(key.fd)
                    for line in key.data.feed(chunk):
                        if key.data.lines is errors:
                            log.write(f"{words[0]}: {line}\n".encode())
                        if shown(line) if key.data.lines is output else not _in_trace(errors):
                            say(f"  {line}")
            process.wait()
    finally:
        stop(process, _STOP_STEPS)
    if process.returncode != 0:
        raise StartFailed(
            f"`manage.py {words[0]}` failed: {_reason([*output, *errors])} (more in {log_path})."
        )
    return output


def _in_trace(lines: list[str]) -> bool:
    """Tell whether ``lines`` have come to a traceback: that is for the log alone."""
    return any(line.startswith("Traceback ") for line in lines)


def _reason(lines: list[str]) -> str:
    """Return the last line that names an exception, else the last that says something."""
    said = [line.strip() for line in lines if line.strip()]
    named = [line for line in said if _EXCEPTION.match(line)] if _in_trace(lines) else []
    return (named or said or ["it said nothing"])[-1].rstrip(".")


class _Lines:
    """Cuts a stream of bytes into lines."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """Add a chunk, the empty one at the end, and return the lines that are now whole."""
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        if not chunk and self._rest:
            whole, self._rest = [self._rest], b""
        new = [line.decode("utf-8", "replace").rstrip("\r") for line in whole]
        self.lines += new
        return new
