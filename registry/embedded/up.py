"""The whole registry on one machine, in the foreground: what ``manage.py up`` does.

Everything that is started here is stopped here: web server, beat, workers, Valkey, PostgreSQL,
in this order.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from registry.embedded import leftovers
from registry.embedded.external import check_broker, check_database
from registry.embedded.folders import prepare_folders
from registry.embedded.instance import Instance
from registry.embedded.interrupts import Interrupts, StopRequested
from registry.embedded.locks import own
from registry.embedded.ports import reserve_port
from registry.embedded.postgres import start_postgres
from registry.embedded.site import Site, wait_until_healthy
from registry.embedded.steps import run_step
from registry.embedded.supervisor import Program, Supervisor
from registry.embedded.valkey import start_valkey

_TICK = 0.5
_POSTGRES_NEWS = re.compile(r"\bPANIC: |No space left|terminated by signal")
_VALKEY_NEWS = re.compile(r"BUG REPORT|Out Of Memory|OOM")
_PYTHON_NEWS = re.compile(r"\b(ERROR|CRITICAL)\b|^Traceback")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to start, and where."""

    instance: Instance
    base_dir: Path
    host: str
    port: int  # 0 takes a free one
    web_workers: int
    workers: int
    demo: bool
    commands: frozenset[str]  # the management commands that exist
    database: Mapping[str, Any] | None  # of a server that runs elsewhere
    redis_url: str | None
    broker_url: str | None
    allowed_hosts: tuple[str, ...]


def run_up(plan: Plan, write: Callable[[str], None]) -> None:
    """Start everything of ``plan``, say so, and stay until Ctrl-C or SIGTERM stops it.

    Raises StartFailed with everything stopped again.
    """
    begun = time.monotonic()

    def say(text: str) -> None:
        # Whoever read this may be gone; that must not keep the servers from stopping.
        with suppress(OSError, ValueError):
            write(f"{time.monotonic() - begun:7.1f} s  {text}")

    with Interrupts() as interrupts:
        prepare_folders(plan.instance)
        lock = own(plan.instance, "up")
        try:
            supervisor = Supervisor(
                log_dir=plan.instance.log_dir,
                say=say,
                changed=lambda children: leftovers.remember(plan.instance, children),
            )
            try:
                _Start(plan, supervisor, interrupts, say).everything()
                while True:
                    interrupts.pause(_TICK)
                    supervisor.check()
            except StopRequested:
                say("stopping (once more Ctrl-C does not wait for running work)")
            finally:
                supervisor.stop_all()
            say("stopped")
        finally:
            os.close(lock)


class _Start:
    def __init__(
        self,
        plan: Plan,
        supervisor: Supervisor,
        interrupts: Interrupts,
        say: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._instance = plan.instance
        self._supervisor = supervisor
        self._interrupts = interrupts
        self._say = say

    def everything(self) -> None:
        plan = self._plan
        held = reserve_port(plan.host, plan.port)
        try:
            port = int(held.getsockname()[1])
            self._say(f"data folder {self._instance.data_dir}")
            if names := leftovers.end_remembered(self._instance):
                self._say(f"ended what an earlier start left running: {', '.join(names)}")
            self._database()
            self._broker()
            self._step(["prepare_models"], "models")
            self._step(["migrate", "--noinput"], "database schema", shown=_is_migration)
            self._workers(port)
        finally:
            held.close()
        self._web(port)
        made = _last_json(self._step(self._bootstrap_words(), "first content", shown=_is_no_json))
        site = Site(host=self._plan.host, port=port)
        wait_until_healthy(site, pause=self._pause)
        self._supervisor.starting = False
        for line in site.introduction(made, log_dir=self._instance.log_dir):
            self._say(line)
        if not site.is_allowed(self._plan.allowed_hosts):
            self._say("requests that name another host are refused: see ALLOWED_HOSTS")
        self._say("ready")

    def _pause(self, seconds: float) -> None:
        self._interrupts.pause(seconds)
        self._supervisor.check()

    def _database(self) -> None:
        if self._plan.database is not None:
            self._say(check_database(self._plan.database))
            return
        server = self._supervisor.start(
            "postgres",
            lambda: start_postgres(self._instance, pause=self._interrupts.pause, say=self._say),
            show=_POSTGRES_NEWS,
        )
        self._say(f"PostgreSQL {server.version}, pgvector {server.pgvector}")

    def _broker(self) -> None:
        for variable, url in (
            ("REDIS_URL", self._plan.redis_url),
            ("BROKER_URL", self._plan.broker_url),
        ):
            if url is not None:
                self._say(f"{variable} at {check_broker(variable, url)}")
        if self._plan.redis_url is None:
            server = self._supervisor.start(
                "valkey",
                lambda: start_valkey(self._instance, pause=self._interrupts.pause),
                show=_VALKEY_NEWS,
            )
            self._say(f"Valkey {server.version}")

    def _workers(self, port: int) -> None:
        celery = [sys.executable, "-m", "celery", "-A", "registry.celery"]
        log = ["--loglevel", "INFO"]
        self._program(
            "worker",
            [
                *(*celery, "worker", *log, "--pool", "prefork"),
                *("--concurrency", str(self._plan.workers), "--hostname", f"up-{port}@%h"),
                *("--without-gossip", "--without-mingle"),
            ],
            # When `up` is killed the broker goes as well, and without it a worker that is asked
            # to stop waits for ever. Its work is claimed in the database and taken up again.
            death_signal=signal.SIGKILL,
            stop_steps=((signal.SIGTERM, 60.0), (signal.SIGQUIT, 10.0)),
        )
        schedule = self._instance.beat_dir / "schedule"
        self._program(
            "beat",
            [*celery, "beat", *log, "--schedule", str(schedule), "--pidfile="],
            stop_steps=((signal.SIGTERM, 10.0),),
        )
        self._say(f"workers ({self._plan.workers}) and beat")

    def _web(self, port: int) -> None:
        self._program(
            "web",
            [
                *(sys.executable, "-m", "granian", "--interface", "wsgi", "--no-ws"),
                *("--host", self._plan.host, "--port", str(port)),
                *("--workers", str(self._plan.web_workers), "--blocking-threads", "1"),
                *("--respawn-failed-workers", "--workers-kill-timeout", "10"),
                "registry.wsgi:application",
            ],
            stop_steps=((signal.SIGTERM, 15.0),),
        )

    def _program(
        self,
        name: str,
        argv: list[str],
        *,
        stop_steps: tuple[tuple[signal.Signals, float], ...],
        death_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        self._supervisor.start(
            name,
            lambda: Program(
                argv,
                cwd=self._plan.base_dir,
                log_path=self._instance.log_dir / f"{name}.log",
                death_signal=death_signal,
                stop_steps=stop_steps,
                hurry=self._interrupts.hurry,
            ),
            show=_PYTHON_NEWS,
        )

    def _bootstrap_words(self) -> list[str]:
        return ["bootstrap", "--json", *(() if self._plan.demo else ("--no-demo",))]

    def _step(
        self, words: list[str], title: str, *, shown: Callable[[str], bool] = lambda _: True
    ) -> list[str]:
        if words[0] not in self._plan.commands:
            return []
        self._say(title)
        return run_step(
            words,
            base_dir=self._plan.base_dir,
            log_path=self._instance.log_dir / "commands.log",
            say=self._say,
            check=lambda: self._pause(0),
            shown=shown,
        )


def _is_migration(line: str) -> bool:
    return line.lstrip().startswith("Applying ")


def _is_no_json(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("{")


def _last_json(lines: list[str]) -> dict[str, Any]:
    for line in reversed(lines):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    return {}
