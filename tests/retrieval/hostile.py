"""What hostile documents make their readers do, as tasks for the sandbox."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from typing import IO, Any


def echo(content: bytes, options: dict[str, Any], output: IO[bytes]) -> None:
    output.write(content)


def name_the_host(content: bytes, options: dict[str, Any], output: IO[bytes]) -> None:
    output.write(str(os.getppid()).encode())


def spin(content: bytes, options: dict[str, Any], output: IO[bytes]) -> None:
    while True:
        pass


def sleep(content: bytes, options: dict[str, Any], output: IO[bytes]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(60)


def grow(content: bytes, options: dict[str, Any], output: IO[bytes]) -> None:
    kept = []
    while True:
        kept.append(bytearray(8 * 1024 * 1024))


def crash(content: bytes, options: dict[str, Any], output: IO[bytes]) -> None:
    ctypes.string_at(0)


def die(content: bytes, options: dict[str, Any], output: IO[bytes]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail(content: bytes, options: dict[str, Any], output: IO[bytes]) -> None:
    raise RuntimeError("a reader gave up")


def flood(content: bytes, options: dict[str, Any], output: IO[bytes]) -> None:
    while True:
        output.write(b"x" * 1_000_000)


def leave_a_child(content: bytes, options: dict[str, Any], output: IO[bytes]) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    output.write(str(child.pid).encode())


def look_around(content: bytes, options: dict[str, Any], output: IO[bytes]) -> None:
    output.write(
        json.dumps(
            {
                "environment": dict(os.environ),
                "files": sorted(os.listdir("/proc/self/fd")),
                "group": os.getpgrp() == os.getpid(),
            }
        ).encode()
    )
