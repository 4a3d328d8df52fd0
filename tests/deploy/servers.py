"""A PostgreSQL and a Redis on TCP, started apart from the registry and with passwords."""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import redis

from registry.embedded.accounts import server_account
from registry.embedded.instance import Instance
from registry.embedded.processes import spawn, stop, wait_until
from registry.embedded.programs import postgres_programs, valkey_programs
from tests.folders import CHECKOUT

_SECONDS = 300.0


# Below what systems give to those who ask for any port: nobody takes one between two starts.
_ports = itertools.count(20_000 + os.getpid() * 16 % 10_000)


def free_port() -> int:
    while True:
        port = next(_ports)
        with socket.socket() as tried, suppress(OSError):
            # What an earlier server's connections still hold for a while does not count
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(("127.0.0.1", port))
            return port


class Postgres:
    """A server with pgvector that asks for passwords; ``stop`` and ``start`` keep its data."""

    def __init__(self, folder: Path, *, initdb_options: Sequence[str] = ()) -> None:
        self.port = free_port()
        self.passwords = {
            name: secrets.token_urlsafe(16)
            for name in ("postgres", "registry_owner", "registry_app")
        }
        self._folder = folder
        folder.mkdir(mode=0o711)
        folder.chmod(0o711)
        place = Instance(folder / "programs")
        place.data_dir.mkdir(mode=0o711)
        self._account = server_account(place)
        self._programs = postgres_programs(place, self._account)
        self._data = folder / "data"
        self._data.mkdir(mode=0o700)
        password_file = folder / "password"
        password_file.write_text(self.passwords["postgres"])
        if self._account.switch:
            for path in (self._data, password_file):
                os.chown(path, self._account.uid, self._account.gid)
        made = spawn(
            [
                *(self._programs / "initdb", "-D", self._data, "--username", "postgres"),
                *("--auth-local", "reject", "--auth-host", "scram-sha-256", "--no-sync"),
                *("--pwfile", str(password_file), *initdb_options),
            ],
            death_signal=signal.SIGKILL,
            output=subprocess.DEVNULL,
            account=self._account,
            env={"LC_ALL": "C", "PATH": os.defpath},
            cwd=self._data,
        )
        assert made.wait(_SECONDS) == 0
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start and return once it takes connections."""
        self._process = spawn(
            [
                *(self._programs / "postgres", "-D", self._data, "-p", str(self.port)),
                *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="),
                *("-c", "fsync=off", "-c", "shared_buffers=64MB"),
            ],
            death_signal=signal.SIGINT,
            output=subprocess.DEVNULL,
            account=self._account,
            env={"LC_ALL": "C", "PATH": os.defpath},
            cwd=self._data,
        )
        assert wait_until(self._answers, seconds=_SECONDS)

    def stop(self) -> None:
        if self._process is not None:
            stop(self._process, ((signal.SIGINT, 300.0),))
            self._process = None

    def connect(
        self, role: str = "postgres", database: str = "postgres"
    ) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=role,
            password=self.passwords[role],
            dbname=database,
            autocommit=True,
        )

    def url(self, role: str, database: str = "registry") -> str:
        return f"postgresql://{role}:{self.passwords[role]}@127.0.0.1:{self.port}/{database}"

    def run(self, argv: Sequence[str | Path], **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program with this server's clients on its path, as in the database's container."""
        return subprocess.run(
            argv,
            env={
                "PATH": f"{self._programs.bin_dir}{os.pathsep}{os.defpath}",
                "PGHOST": "127.0.0.1",
                "PGPORT": str(self.port),
                "PGPASSWORD": self.passwords["postgres"],
                **variables,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def create_roles(self) -> None:
        """Run deploy/create-roles.sh on this server."""
        done = self.run(
            [CHECKOUT / "deploy" / "create-roles.sh"],
            REGISTRY_OWNER_PASSWORD=self.passwords["registry_owner"],
            REGISTRY_APP_PASSWORD=self.passwords["registry_app"],
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True


class Redis:
    """The machine's ``redis-server`` where there is one, else the packaged Valkey."""

    def __init__(
        self, folder: Path, options: Sequence[str], *, program: str | None = "redis-server"
    ) -> None:
        folder.mkdir(mode=0o755)
        place = Instance(folder)
        account = server_account(place)
        found = shutil.which(program) if program else None
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.program = found or str(valkey_programs(place, account) / "valkey-server")
        self._argv = [
            *(self.program, *options, "--port", str(self.port), "--bind", "127.0.0.1"),
        ]
        self._account = account
        self.client = redis.Redis(port=self.port)
        self.start()

    def start(self) -> None:
        self._process = spawn(
            self._argv,
            death_signal=signal.SIGTERM,
            output=subprocess.DEVNULL,
            account=self._account,
            env={"LC_ALL": "C"},
            cwd=Path("/"),
        )
        assert wait_until(self._answers, seconds=_SECONDS)

    def stop(self) -> None:
        stop(self._process, ((signal.SIGTERM, 20.0),))

    def _answers(self) -> bool:
        assert self._process.poll() is None
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False
