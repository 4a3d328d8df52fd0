"""The compose file's services as processes of this machine, each with its own variables only."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from registry.embedded.processes import spawn, stop, wait_until
from tests.acceptance.instance import Client
from tests.deploy.composition import image_of, services, shell_words, variables_of_env
from tests.deploy.servers import Postgres, Redis, free_port
from tests.folders import CHECKOUT

# As a container is stopped: SIGTERM, time to finish, SIGKILL.
_STOP = ((signal.SIGTERM, 60.0),)
_READY_SECONDS = 600.0


class Stack:
    """What `docker compose up` would run, against servers that are there already."""

    def __init__(self, folder: Path, postgres: Postgres, redis: Redis) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self.data_dir.mkdir()
        self.app = folder / "app"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._here = {
            "db:5432": f"127.0.0.1:{postgres.port}",
            "redis:6379": f"127.0.0.1:{redis.port}",
            "/data": str(self.data_dir),
            "8000": str(self.port),
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._copy_app()
        self._services = services(_variables(postgres))

    def run(self, name: str) -> None:
        """Run a service that ends by itself."""
        self._spawn(name)
        code = self._running.pop(name).wait(_READY_SECONDS)
        assert code == 0, self.log(name)

    def start(self, *names: str) -> None:
        """Start services and return once those with a health check are well."""
        for name in names:
            self._spawn(name)
        for name in filter(self.has_check, names):
            self.wait_until_healthy(name)

    def wait_until_healthy(self, name: str) -> None:
        assert wait_until(
            lambda: self.health(name) == 0 or self._running[name].poll() is not None,
            seconds=_READY_SECONDS,
            pause=lambda _: time.sleep(1),
        )
        assert self._running[name].poll() is None, self.log(name)

    def has_check(self, name: str) -> bool:
        return bool(self._services[name].health)

    def health(self, name: str) -> int:
        """Run the service's health check once and return its exit code."""
        argv = [self._on_this_machine(word) for word in shell_words(self._services[name].health)]
        return subprocess.run(
            argv, cwd=self.app, env=self.environment(name), capture_output=True, check=False
        ).returncode

    def stop(self) -> None:
        for name in reversed(list(self._running)):
            stop(self._running.pop(name), _STOP)

    def manage(self, *words: str) -> str:
        """Run a management command as `docker compose exec web` would."""
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=self.app,
            env=self.environment("web"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def client(self, scope: str) -> Client:
        words = ["--name", f"{scope} {time.monotonic_ns()}", "--scope", scope]
        return Client(self, self.manage("create_api_key", *words).split()[-1])

    def environment(self, name: str) -> dict[str, str]:
        """Return all variables of a service: its own, and what every container has."""
        given = self._services[name].environment
        return {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}",
            "HOME": str(self.folder),
            "HOSTNAME": socket.gethostname(),
            **{key: self._on_this_machine(value) for key, value in given.items()},
        }

    def log(self, name: str) -> str:
        text = (self.folder / f"{name}.log").read_text(errors="replace")
        return text[-4000:]

    def files_of_app(self) -> set[Path]:
        return set(self.app.rglob("*"))

    def _spawn(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = spawn(
                [self._on_this_machine(word) for word in self._services[name].command],
                death_signal=signal.SIGTERM,
                output=log,
                env=self.environment(name),
                cwd=self.app,
            )

    def _on_this_machine(self, text: str) -> str:
        names = "|".join(map(re.escape, self._here))
        return re.sub(names, lambda found: self._here[found[0]], text)

    def _copy_app(self) -> None:
        """Make the image's /app: what the Dockerfile copies, and nothing else."""
        self.app.mkdir()
        image = image_of((CHECKOUT / "Dockerfile").read_text(encoding="utf-8"))
        for source, target in image.copies:
            place = self.app / target
            if (CHECKOUT / source).is_dir():
                shutil.copytree(
                    CHECKOUT / source, place, ignore=shutil.ignore_patterns("__pycache__")
                )
            else:
                with suppress(FileNotFoundError):  # told by the test of the Dockerfile
                    shutil.copy(CHECKOUT / source, place / source)


def _variables(postgres: Postgres) -> Mapping[str, str]:
    """Return `.env` as its example says to fill it in."""
    filled_in = {
        "POSTGRES_PASSWORD": postgres.passwords["postgres"],
        "REGISTRY_OWNER_PASSWORD": postgres.passwords["registry_owner"],
        "REGISTRY_APP_PASSWORD": postgres.passwords["registry_app"],
        "SECRET_KEY": "for this test run only",
        "ALLOWED_HOSTS": "registry.example.com",
        "REAPER_INTERVAL_SECONDS": "1",
        # The model is exported once for all tests.
        "MODELS_DIR": str(settings.MODELS_DIR),
    }
    lines = (CHECKOUT / ".env.example").read_text(encoding="utf-8").splitlines()
    filled_lines = [
        f"{name}={filled_in[name]}" if (name := line.partition("=")[0]) in filled_in else line
        for line in lines
    ]
    return variables_of_env("\n".join(filled_lines))
