"""What a tool call costs through HTTP, beside its floors and beside what one would build otherwise.

Everything is measured in one run on one machine, the things compared one after the other in every
round; what is printed are ratios of medians, with the absolute figures of both sides.

    python benchmarks/search.py                            10,000 and 100,000 chunks
    python benchmarks/search.py --sizes 1000000 --without hnsw --rounds 300
    python benchmarks/search.py --sizes 100000 --parts exactness memory
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from _installation import installation
from _serving import Connection, web_server

PARTS = ("calls", "repeated", "throughput", "exactness", "memory")
HNSW, EXACT = "hnsw", "exact"
SLUG = "bench"
SNAPSHOTS_IN_MEMORY = 10
PROCESSES_IN_MEMORY = 4
SMALLEST_INDEX = 100_000


def main() -> None:
    options = _options()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # long runs are watched
    # The reference's index has to fit, as its user would see to.
    with installation(shared_buffers="2GB", max_wal_size="8GB") as folder:
        print(f"{len(os.sched_getaffinity(0))} cores; {_load()}")
        for size in options.sizes:
            stage = _stage(size, options, folder)
            for part in options.parts:
                globals()[f"measure_{part}"](stage, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure search.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=1000, help="distinct questions of each kind")
    parser.add_argument("--top-k", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each turn of throughput")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["calls", "repeated"])
    parser.add_argument("--without", nargs="*", choices=(HNSW, EXACT), default=[])
    return parser.parse_args()


# -- the knowledge base -----------------------------------------------------------------------


@dataclass(slots=True)
class Stage:
    """A knowledge base, the published version that pins it, and a key."""

    size: int
    base: Any
    key: str
    folder: Path
    version: int = 1
    fresh: Iterator[str] = field(default_factory=lambda: iter(()))

    def body(self, query: str, options: argparse.Namespace) -> dict[str, Any]:
        return {
            "version": self.version,
            "query": query,
            "topK": options.top_k,
            "confidenceThreshold": 0,
        }


def _stage(size: int, options: argparse.Namespace, folder: Path) -> Stage:
    from django.db import connection

    from agents.aliases import move_alias
    from agents.drafting import create_agent
    from agents.models import Agent
    from benchmarks import _search_data as data
    from registry.access import create_api_key
    from registry.actors import Actor

    actor = Actor(kind="command", label="benchmark")
    begun = time.monotonic()
    base = data.make_base(f"Bench {size}", size)
    with connection.cursor() as cursor:
        for table in ("chunk", "snapshotmember", "indexeddocument"):
            cursor.execute(f"VACUUM ANALYZE retrieval_{table}")
    print(f"\n{size:,} chunks of 384 dimensions, made in {time.monotonic() - begun:.0f} s")
    if HNSW not in options.without and "calls" in options.parts:
        begun = time.monotonic()
        others = max(size, SMALLEST_INDEX - size)
        data.make_reference(base, others=others)
        print(
            f"reference: HNSW over {size + others:,} rows, of which the filter keeps "
            f"{size / (size + others):.0%}, made in {time.monotonic() - begun:.0f} s"
        )
    agent = Agent.objects.filter(slug=SLUG).first() or create_agent(
        actor=actor, values={"slug": SLUG}
    )
    version = _publish(agent, base)
    move_alias(actor=actor, agent=agent, name="production", number=version)
    key = create_api_key(actor=actor, name=f"bench {size}", scope="editor")
    fresh = data.sentences(1_000_000 + size)
    return Stage(size, base, key, folder, version, fresh)


def _publish(agent: Any, base: Any) -> int:
    from agents.drafting import edit_draft
    from agents.publishing import publish_draft
    from registry.actors import Actor

    actor = Actor(kind="command", label="benchmark")
    tool = {"type": "rag", "name": "search", "description": "", "knowledgeBase": str(base.pk)}
    edit_draft(
        actor=actor,
        access=None,
        agent=agent,
        values={"tools": [tool]},
        expected_revision="*",
        whole=False,
    )
    number = publish_draft(actor=actor, agent=agent).number
    assert number is not None
    return number


@contextmanager
def _server(stage: Stage, *, processes: int = 1) -> Iterator[tuple[int, int]]:
    """Serve, with the reference's views beside the registry's, once the snapshot's copy is ready.

    Yields the port and the process id.
    """
    with web_server("benchmarks._search_settings", processes=processes) as (port, process_id):
        _wait_until_warm(stage)
        yield port, process_id


def _wait_until_warm(stage: Stage) -> None:
    ends = time.monotonic() + 300
    copies = stage.folder / "data" / "copies"
    digest = stage.base.current_snapshot.digest.removeprefix("sha256:")
    while not list(copies.glob(f"*{digest}*.copy")):
        if time.monotonic() > ends:
            raise SystemExit("The server did not become warm.")
        time.sleep(0.2)
    # Checked, byte for byte, by the process that opens it.
    time.sleep(2 + stage.size / 200_000)


class Client(Connection):
    """One connection that stays open, by which a tool is called."""

    def ask(self, method: str, path: str, body: Any) -> bytes:
        return self.send(method, path, json.dumps(body).encode())

    def call(self, body: Any) -> bytes:
        return self.ask("POST", f"/api/v1/agents/{SLUG}/tools/search/call", body)


# -- what is measured --------------------------------------------------------------------------


def measure_calls(stage: Stage, options: argparse.Namespace) -> None:
    """Questions never asked before, against floors, HNSW and exact pgvector, in turns."""
    with _server(stage) as (port, _):
        client = Client(port, stage.key)
        floors = Floors(stage)
        base = {"base": str(stage.base.pk)}
        for _ in range(20):
            answer = client.call(stage.body(next(stage.fresh), options))
        client.ask("PUT", "/bench/same", json.loads(answer))
        times: dict[str, list[float]] = {}
        recalls: list[float] = []
        step = 1 if stage.size <= 100_000 else 10
        order = random.Random(0)
        for number in range(options.rounds):
            query = next(stage.fresh)
            body = stage.body(query, options)
            answers: dict[str, bytes] = {}

            def ask(body: dict[str, Any] = body, answers: dict[str, bytes] = answers) -> None:
                answers["call"] = _timed(times, "call", client.call, body)
                for _ in range(2):
                    _timed(times, "seen", client.call, body)

            def look_up(body: dict[str, Any] = body, answers: dict[str, bytes] = answers) -> None:
                answers[HNSW] = _timed(times, HNSW, client.ask, "POST", "/bench/hnsw", body | base)

            works: list[Callable[[], Any]] = [
                ask,
                partial(_timed, times, "same", client.ask, "POST", "/bench/same", body),
                partial(_timed, times, "embed", floors.embed, query),
                partial(_timed, times, "read", floors.read),
                partial(_timed, times, "commit", floors.commit),
            ]
            if HNSW not in options.without:
                works.append(look_up)
            if EXACT not in options.without and number % step == 0:
                works.append(
                    partial(_timed, times, EXACT, client.ask, "POST", "/bench/exact", body | base)
                )
            # What comes after a large scan finds the processor's caches full of that.
            order.shuffle(works)
            for work in works:
                work()
            if HNSW in answers:
                recalls.append(_recall(answers["call"], answers[HNSW]))
    _say_calls(times, recalls, options)


def _say_calls(
    times: dict[str, list[float]], recalls: list[float], options: argparse.Namespace
) -> None:
    medians = {name: statistics.median(values) * 1e3 for name, values in times.items()}
    call, seen = medians["call"], medians["seen"]
    floors = ("embed", "read", "commit", "same")
    floor = sum(medians[name] for name in floors)
    high = sorted(times["call"])[int(len(times["call"]) * 0.95)] * 1e3
    print(f"  {options.rounds} new questions, topK {options.top_k}; medians in ms; {_load()}")
    print(f"  tool call, question never asked   {call:8.2f}   (95 of 100 within {high:.2f})")
    print(f"  tool call, question asked before  {seen:8.2f}")
    parts = " + ".join(f"{name} {medians[name]:.2f}" for name in floors)
    print(f"  floors: {parts} = {floor:.2f}; ratio {call / floor:.2f}")
    if HNSW in medians:
        other = medians[HNSW]
        print(
            f"  sentence-transformers + HNSW      {other:8.2f}   recall {statistics.mean(recalls):.3f}; "
            f"{other / call:.2f} × as long, seen before {other / seen:.2f} ×"
        )
    if EXACT in medians:
        other = medians[EXACT]
        print(f"  onnxruntime + exact pgvector      {other:8.2f}   {other / call:.2f} × as long")


def _timed(
    times: dict[str, list[float]], name: str, work: Callable[..., Any], *arguments: Any
) -> Any:
    begun = time.perf_counter()
    result = work(*arguments)
    times.setdefault(name, []).append(time.perf_counter() - begun)
    return result


def _recall(own: bytes, other: bytes) -> float:
    wanted = {result["chunk"] for result in json.loads(own)["results"]}
    found = {result["chunk"] for result in json.loads(other)["results"]}
    return len(wanted & found) / len(wanted)


class Floors:
    """What a call cannot do without, each alone, as fast as it goes."""

    def __init__(self, stage: Stage) -> None:
        import numpy as np
        import psycopg
        from django.conf import settings

        from registry import cores
        from retrieval.encoders import encoder_for

        # By as many threads as the search has, like the reading.
        self.embed = encoder_for("all-MiniLM-L6-v2").encode_query
        # One byte per dimension and chunk.
        codes = np.ones(stage.size * 384 // 8, dtype=np.uint64)
        self._parts = np.array_split(codes, cores.per_question())
        self._spread = cores.spread
        self._session = psycopg.connect(settings.INSTANCE.postgres_dsn("owner"), autocommit=True)
        self._session.execute(
            "CREATE TABLE IF NOT EXISTS bench_commit (id bigserial PRIMARY KEY, content bytea)"
        )
        self._content = b"x" * 1600

    def read(self) -> int:
        return sum(self._spread(lambda part: int(part.sum()), self._parts))

    def commit(self) -> None:
        self._session.execute("INSERT INTO bench_commit (content) VALUES (%s)", [self._content])


def measure_repeated(stage: Stage, options: argparse.Namespace) -> None:
    """The vector of a known question against a primary-key SELECT, on the same connection."""
    from django.db import connection

    from retrieval.models import EmbeddingModel, QueryEmbedding
    from retrieval.questions import Question, vector_again, vector_of

    model = EmbeddingModel.objects.get(pk=stage.base.model_id)
    questions = [Question(query=next(stage.fresh)) for _ in range(200)]
    for question in questions:
        vector_of(model, question, keep=True)
    keys = list(QueryEmbedding.objects.order_by("-pk").values_list("pk", flat=True)[:200])
    times: dict[str, list[float]] = {}

    def kept(question: Question) -> None:
        vector_of(model, question, keep=True)

    def select(key: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM retrieval_queryembedding WHERE id = %s", [key])
            cursor.fetchone()

    for number in range(options.rounds):
        _timed(times, "kept", kept, questions[number % 200])
        _timed(times, "row", vector_again, model, questions[number % 200])
        _timed(times, "select", select, keys[number % 200])
    medians = {name: statistics.median(values) * 1e6 for name, values in times.items()}
    print(
        f"  vector of a known question {medians['kept']:.0f} µs (from its row {medians['row']:.0f}); "
        f"SELECT by primary key {medians['select']:.0f} µs; "
        f"ratio {medians['kept'] / medians['select']:.2f} ({medians['row'] / medians['select']:.2f})"
    )


def measure_throughput(stage: Stage, options: argparse.Namespace) -> None:
    """Calls per second of new questions, by 1, 2, 4 and 8 clients on two web processes."""
    with _server(stage, processes=2) as (port, _):
        lock = threading.Lock()

        def next_body() -> dict[str, Any]:
            with lock:
                return stage.body(next(stage.fresh), options)

        for clients in (1, 2, 4, 8):
            counts = [0] * clients
            ends = time.monotonic() + options.seconds

            def run(number: int, ends: float = ends, counts: list[int] = counts) -> None:
                client = Client(port, stage.key)
                while time.monotonic() < ends:
                    client.call(next_body())
                    counts[number] += 1

            threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            rate = sum(counts) / options.seconds
            print(f"  {clients} clients: {rate:6.0f} calls of new questions a second; {_load()}")


def measure_exactness(stage: Stage, options: argparse.Namespace) -> None:
    """Warm and cold answers against the definition, computed over every chunk.

    Every fourth question is turned round: its best scores are about zero and below.
    """
    from benchmarks._brute_force import BruteForce
    from retrieval import bounded_scan, candidates
    from retrieval.encoders import encoder_for
    from retrieval.host_copies import copies

    snapshot = stage.base.current_snapshot
    copy = copies.make_ready(snapshot)
    assert copy is not None
    definition = BruteForce(copy.vectors, copy.places)
    encoder = encoder_for("all-MiniLM-L6-v2")
    cold_every = max(1, stage.size // 100_000)
    cold = kept = ties = below_zero = 0
    begun = time.monotonic()
    for number in range(options.rounds):
        query = encoder.encode_query(next(stage.fresh))
        if number % 4 == 3:
            query = -query
        warm = candidates.rank(snapshot, query, 100)
        kept += len(bounded_scan.candidates(query, copy.table, 25)[0])
        found = [one.rank_key for one in warm.candidates]
        assert found == definition.best(query, 100), f"question {number}"
        scores = [one.score for one in warm.candidates]
        ties += len(scores) - len(set(scores))
        below_zero += sum(score < 0 for score in scores)
        if number % cold_every == 0:
            assert candidates.rank_in_database(snapshot, query, 100) == warm
            cold += 1
    print(
        f"  {options.rounds} questions equal to the brute force over all chunks (depth 100, "
        f"{ties:,} ties and {below_zero:,} negative scores among them), {cold} also to the cold "
        f"path; {kept / options.rounds:.0f} chunks left by the bound for the best 25; "
        f"{time.monotonic() - begun:.0f} s"
    )


def measure_memory(stage: Stage, options: argparse.Namespace) -> None:
    """Memory of each process with ten snapshots in use by four processes."""
    import psutil

    from agents.aliases import move_alias
    from agents.models import Agent
    from benchmarks import _search_data as data
    from registry.actors import Actor

    actor = Actor(kind="command", label="benchmark")
    agent = Agent.objects.get(slug=SLUG)
    versions = [stage.version]
    for _ in range(SNAPSHOTS_IN_MEMORY - 1):
        data.seal_snapshot(stage.base)
        versions.append(_publish(agent, stage.base))
    for number, version in enumerate(versions):
        move_alias(actor=actor, agent=agent, name=f"snapshot-{number}", number=version)
    with _server(stage, processes=PROCESSES_IN_MEMORY) as (port, pid):
        copies = stage.folder / "data" / "copies"
        while len(list(copies.glob("*.copy"))) < SNAPSHOTS_IN_MEMORY:
            time.sleep(0.5)
        time.sleep(5 + stage.size / 20_000)
        for version in itertools.islice(itertools.cycle(versions), 40 * SNAPSHOTS_IN_MEMORY):
            body = stage.body(next(stage.fresh), options) | {"version": version}
            Client(port, stage.key).call(body)
        found = []
        for child in psutil.Process(pid).children():
            memory = child.memory_full_info()
            found.append((memory.uss / 2**20, memory.pss / 2**20, memory.rss / 2**20))
    files = sum(path.stat().st_size for path in copies.glob("*.copy")) / 2**20
    print(f"  {SNAPSHOTS_IN_MEMORY} copies, {files:.0f} MB on disk, in {len(found)} processes:")
    for own, share, resident in sorted(found):
        print(f"    own {own:6.0f} MB, with its share {share:6.0f} MB, resident {resident:6.0f} MB")


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    main()
