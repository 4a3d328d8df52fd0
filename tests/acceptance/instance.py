"""A running installation, started as a user would and reached through HTTP alone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import httpx

from tests.folders import CHECKOUT
from tests.servers import INSTANCE as SERVERS

_ADDRESS = re.compile(r"Admin\s+(http://\S+)/admin/")
_START_SECONDS = 600
_OURS = ("DATABASE_", "REDIS_", "BROKER_", "DATA_DIR", "DJANGO_", "PYTEST_", "MODELS_DIR")


class Installation(Protocol):
    """Something that serves the API."""

    @property
    def url(self) -> str: ...


class Instance:
    """``manage.py up`` in a data folder of its own."""

    def __init__(self, data_dir: Path, environment: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir
        self.url = ""
        # Further words for `up`, and variables, from the next start on.
        self.options: list[str] = []
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(_OURS)},
            "REAPER_INTERVAL_SECONDS": "1",
            # The run's one export of the bundled model's graph: half a minute each otherwise.
            "MODELS_DIR": str(SERVERS.models_dir),
            **(environment or {}),
        }
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start and return when it says that it is ready."""
        words = ["up", "--port", "0", "--no-demo", *self.options, *self._where()]
        self._process = subprocess.Popen(
            [sys.executable, "manage.py", *words],
            cwd=CHECKOUT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        ends = time.monotonic() + _START_SECONDS
        lines: list[str] = []
        for line in self._process.stdout:
            lines.append(line)
            if found := _ADDRESS.search(line):
                self.url = found[1]
            if line.rstrip().endswith("ready"):
                return
            assert time.monotonic() < ends, "".join(lines)
        raise AssertionError("".join(lines))

    def stop(self) -> None:
        """Stop as Ctrl-C does, and see that it ends."""
        if self._process is None:
            return
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGINT)
            try:
                self._process.communicate(timeout=300)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.communicate()
                raise
        self._process = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def manage(self, *words: str) -> str:
        """Run a management command on this installation and return its output."""
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a management command on this installation, whatever comes of it."""
        return subprocess.run(
            [sys.executable, "manage.py", *words, *self._where()],
            cwd=CHECKOUT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def client(self, scope: str) -> Client:
        name = f"{scope} {time.monotonic_ns()}"
        key = self.manage("create_api_key", "--name", name, "--scope", scope).split()[-1]
        return Client(self, key)

    def _where(self) -> list[str]:
        return ["--data-dir", str(self.data_dir)]


class Client:
    """Calls the API with one key; survives a restart on another port."""

    def __init__(self, installation: Installation, key: str) -> None:
        self._installation = installation
        self.key = key
        self._headers = {"Authorization": f"Bearer {key}"}

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {**self._headers, **options.pop("headers", {})}
        return httpx.request(
            method,
            f"{self._installation.url}/api/v1{path}",
            headers=headers,
            timeout=120,
            trust_env=False,
            **options,
        )

    def call(self, method: str, path: str, **options: Any) -> Any:
        response = self.send(method, path, **options)
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.content else None

    def make_base(self, name: str, **values: Any) -> str:
        return str(self.call("POST", "/knowledge-bases", json={"name": name, **values})["id"])

    def upload(self, base: str, name: str, content: bytes) -> httpx.Response:
        return self.send(
            "POST",
            f"/knowledge-bases/{base}/documents",
            files={"file": (Path(name).name, content)},
            data={"name": name},
        )

    def wait_for_build(self, base: str, *, seconds: float = 600) -> dict[str, Any]:
        """Wait until every accepted change is settled, and return the knowledge base."""
        ends = time.monotonic() + seconds
        while True:
            state = self.call("GET", f"/knowledge-bases/{base}")
            if state["build"] is None:
                return dict(state)
            assert time.monotonic() < ends, state
            time.sleep(0.3)

    def publish_tool(self, slug: str, base: str) -> int:
        """Make an agent with a rag tool ``search`` on ``base``; publish and return the number."""
        self.call("POST", "/agents", json={"slug": slug, "name": slug})
        self.call(
            "PATCH",
            f"/agents/{slug}/draft",
            headers={"If-Match": "*"},
            json={
                "prompt": "Answer from the passages.",
                "bindings": [{"knowledgeBase": base}],
                "tools": [{"type": "rag", "name": "search", "knowledgeBase": base}],
            },
        )
        return int(self.call("POST", f"/agents/{slug}/publish", json={})["number"])

    def ask(self, slug: str, version: int, query: str, **more: Any) -> dict[str, Any]:
        return dict(
            self.call(
                "POST",
                f"/agents/{slug}/tools/search/call",
                json={"version": version, "query": query, **more},
            )
        )

    def answer_bytes(self, slug: str, version: int, query: str) -> bytes:
        """Return the answer's exact bytes; only the trace id, new each time, is taken out."""
        response = self.send(
            "POST",
            f"/agents/{slug}/tools/search/call",
            json={"version": version, "query": query},
        )
        assert response.is_success, response.text
        trace_id = response.json()["traceId"].encode()
        return response.content.replace(trace_id, b"")
