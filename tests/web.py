"""A real web server on this test's database, as `manage.py up` starts it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx
from django.conf import settings
from django.db import connection

from tests.folders import CHECKOUT


@contextmanager
def running_web(*, workers: int = 1) -> Iterator[str]:
    """Start a server with ``workers`` processes and yield its address."""
    with socket.socket() as held:
        # Held meanwhile: the server binds it too, and nobody without this option can.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        with _running_on(held.getsockname()[1], workers) as url:
            yield url


@contextmanager
def _running_on(port: int, workers: int) -> Iterator[str]:
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "granian", "--interface", "wsgi", "--no-ws"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", str(workers), "--blocking-threads", "1", "registry.wsgi:application"]
    environment = {
        **os.environ,
        "DATABASE_NAME": connection.settings_dict["NAME"],
        "DATABASE_ROLE": "app",
        "SECRET_KEY": "a secret of the tests",
    }
    log_path = settings.DATA_DIR / f"web-{os.getpid()}.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _wait(url, process)
        yield url
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(15)
        # Its workers, should it not have ended them.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + 300
    while True:
        with suppress(httpx.TransportError):
            if httpx.get(f"{url}/healthz", timeout=60, trust_env=False).status_code == 200:
                return
        assert process.poll() is None, "the web server ended"
        assert time.monotonic() < ends, "the web server did not start"
        time.sleep(0.1)
