"""A web server of a benchmark's installation, and one client's connection to it."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from _installation import ROOT

_SECONDS_TO_START = 300
_SECONDS_TO_ANSWER = 600


@contextmanager
def web_server(
    settings: str, *, processes: int = 1, database: str = ""
) -> Iterator[tuple[int, int]]:
    """Serve as `manage.py up` does, by another module of settings; yield the port and process id.

    ``database`` is its name, by default that of the installation.
    """
    from registry.embedded.ports import reserve_port

    held = reserve_port("127.0.0.1", 0)
    port = int(held.getsockname()[1])
    held.close()
    log = Path(os.environ["DATA_DIR"]) / f"web-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "granian", "--interface", "wsgi", "--no-ws"),
                *("--host", "127.0.0.1", "--port", str(port)),
                *("--workers", str(processes), "--blocking-threads", "1"),
                "registry.wsgi:application",
            ],
            cwd=ROOT,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": settings,
                "DATABASE_ROLE": "app",
                "DATABASE_NAME": database,
                "HF_HUB_OFFLINE": "1",
            },
            stdout=output,
            stderr=output,
        )
        try:
            _wait(port, process, log)
            yield port, process.pid
        finally:
            process.terminate()
            process.wait(30)


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + _SECONDS_TO_START
    while True:
        try:
            Connection(port).send("GET", "/healthz")
        except OSError:
            if time.monotonic() > ends or process.poll() is not None:
                raise SystemExit(f"The server did not start.\n{log.read_text()}") from None
            time.sleep(0.1)
        else:
            return


class Connection:
    """One connection that stays open; what it sends is JSON."""

    def __init__(self, port: int, key: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_SECONDS_TO_ANSWER)
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def send(self, method: str, path: str, content: bytes | None = None) -> bytes:
        """Return what is answered; end the benchmark where it is an error."""
        self._connection.request(method, path, content, self._headers)
        response = self._connection.getresponse()
        answer = response.read()
        if response.status >= 300:
            raise SystemExit(f"{method} {path}: {response.status} {answer[:500]!r}")
        return answer
