"""A real Celery worker process for tests that are about workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import connection

from tests.folders import CHECKOUT
from tests.servers import BROKER_URL


@dataclass
class Worker:
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """Kill the worker with its children, as a power cut would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def broker_url() -> str:
    """Return the broker of this xdist process: a database of its own in Valkey."""
    return BROKER_URL


@contextmanager
def running_worker(
    *, beat: bool = True, concurrency: int = 1, queues: str = ""
) -> Iterator[Worker]:
    """Start a worker that reads ``queues``, all of them by default, and end it afterwards."""
    environment = {
        **os.environ,
        "DATABASE_NAME": connection.settings_dict["NAME"],
        "DATABASE_ROLE": "app",
        "BROKER_URL": broker_url(),
        "REAPER_INTERVAL_SECONDS": "1",
    }
    before = current_app.conf.broker_url
    _use_broker(broker_url())
    current_app.control.purge()
    command = [sys.executable, "-m", "celery", "-A", "registry.celery", "worker"]
    command += ["--concurrency", str(concurrency), "--loglevel", "INFO", "--without-gossip"]
    if queues:
        command += ["--queues", queues]
    if beat:
        command += ["--beat", "--schedule", str(settings.DATA_DIR / f"beat-{os.getpid()}")]
    log_path = settings.DATA_DIR / f"worker-{os.getpid()}.log"
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
        yield Worker(process)
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(15)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        _use_broker(before)


def _use_broker(url: str) -> None:
    current_app.conf.update(broker_url=url)
    # Pools remember the broker that they were made for.
    app: Any = current_app
    app._pool = None
    app.amqp._producer_pool = None


def wait_until(condition: Callable[[], bool], *, seconds: float = 300) -> None:
    """Wait for ``condition``; fail when it does not come true in time."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, f"not within {seconds} seconds"
        time.sleep(0.1)
