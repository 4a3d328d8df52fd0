"""A build that is killed again and again gives, to the bit, what an undisturbed one gives."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from redis import Redis

from registry.embedded.instance import Instance as Places
from tests.acceptance.instance import Client, Instance
from tests.data import shared_data
from tests.folders import CHECKOUT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

KILLS = 20
# Small chunks make many of them: the build must last longer than the kills.
CHUNKING = {"strategy": "recursive", "size": 60, "overlap": 20}
_SECONDS = 1500


@dataclass(frozen=True)
class Held:
    """A piece, who holds it and by which claim."""

    snapshot: int
    piece: int
    claim: str
    process: int


class Database:
    """What an installation's tables say, past its own code and through restarts."""

    def __init__(self, places: Places) -> None:
        self._address = places.postgres_dsn("app")

    def rows(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        for _ in range(100):
            try:
                with psycopg.connect(self._address, connect_timeout=5) as connection:
                    return connection.execute(statement, values).fetchall()
            except psycopg.OperationalError:
                time.sleep(0.2)
        raise AssertionError("the database does not come back")

    def held(self) -> list[Held]:
        rows = self.rows(
            "SELECT snapshot_id, id, claim::text, split_part(holder, ':', 2)::int"
            " FROM retrieval_buildpiece"
            " WHERE state = 'waiting' AND claim IS NOT NULL AND leased_until > now()"
        )
        return [Held(*row) for row in rows]  # type: ignore[arg-type]

    def digests(self, base: str) -> dict[str, str]:
        return dict(
            self.rows(
                "SELECT m.name, i.digest FROM retrieval_knowledgebase AS k"
                " JOIN retrieval_snapshotmember AS m ON m.snapshot_id = k.current_snapshot_id"
                " JOIN retrieval_indexeddocument AS i ON i.id = m.indexed_document_id"
                " WHERE k.id = %s",
                base,
            )  # type: ignore[arg-type]
        )


def _corpus() -> Iterator[Path]:
    yield from sorted(shared_data("kb", "files").rglob("*.md"))
    handbook = CHECKOUT / "examples" / "handbook"
    for ending in ("pdf", "docx", "html"):
        yield from sorted(handbook.glob(f"??*/*.{ending}"))


def _upload_all(client: Client) -> str:
    """Return a base with the whole corpus, whose one large build is paused."""
    base = client.make_base("Handbook", chunking=CHUNKING)
    paused = False
    for number, path in enumerate(_corpus()):
        answer = client.upload(base, f"{number:03}/{path.name}", path.read_bytes())
        assert answer.status_code == 202, answer.text
        if not paused:
            # Refused where a worker was quicker: then the next document is waited for.
            paused = client.send("POST", f"/knowledge-bases/{base}/build/pause").is_success
    assert paused
    return base


def _kill_a_holder(database: Database, chance: random.Random, killed: list[Held]) -> Held | None:
    """Kill a process that holds a piece, at some moment; None where it had none by then.

    What the processes ``killed`` before have held is theirs until the lease ends.
    """
    done = {one.claim for one in killed}
    held = [one for one in database.held() if one.claim not in done]
    if not held:
        time.sleep(0.02)
        return None
    time.sleep(chance.uniform(0, 0.3))
    victim = chance.choice(held)
    try:
        os.kill(victim.process, signal.SIGKILL)
    except ProcessLookupError:
        return None
    time.sleep(0.1)
    # Its claim is still there: it ended with the process, and not before it.
    return victim if victim in database.held() else None


def _restart_postgres(places: Places, database: Database) -> None:
    pid = int((places.postgres_dir / "postmaster.pid").read_text().split()[0])
    before = database.rows("SELECT pg_postmaster_start_time()")
    os.kill(pid, signal.SIGINT)
    ends = time.monotonic() + 120
    while database.rows("SELECT pg_postmaster_start_time()") == before:
        assert time.monotonic() < ends
        time.sleep(0.2)


def _flush_redis(places: Places) -> None:
    with Redis(unix_socket_path=str(places.valkey_socket)) as redis:
        redis.flushall()


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[[str], Instance]]:
    """Return a function that starts an installation of two workers in an empty folder."""
    running: list[Instance] = []

    def make(name: str) -> Instance:
        made = Instance(folder / name, {"BUILD_LEASE_SECONDS": "5"})
        made.options = ["--workers", "2"]
        running.append(made)
        made.start()
        return made

    yield make
    for instance in running:
        instance.stop()


def test_build__killed_twenty_times_with_redis_flushed_and_postgres_restarted__is_the_same(
    start: Callable[[str], Instance],
) -> None:
    instance = start("disturbed")
    places, chance = Places(instance.data_dir), random.Random(20)
    database, client = Database(places), instance.client("editor")
    base = _upload_all(client)
    client.call("POST", f"/knowledge-bases/{base}/build/resume")

    killed: list[Held] = []
    events = {7: lambda: _flush_redis(places), 13: lambda: _restart_postgres(places, database)}
    ends = time.monotonic() + _SECONDS
    while len(killed) < KILLS:
        assert time.monotonic() < ends, f"{len(killed)} kills"
        victim = _kill_a_holder(database, chance, killed)
        if victim is not None:
            killed.append(victim)
            if event := events.pop(len(killed), None):
                event()
        else:
            building = client.call("GET", f"/knowledge-bases/{base}")["build"]
            assert building is not None, f"the build ended after {len(killed)} kills"

    shown = client.wait_for_build(base, seconds=_SECONDS)
    disturbed = database.digests(base)
    instance.stop()
    assert len({victim.snapshot for victim in killed}) == 1
    assert len({victim.claim for victim in killed}) == KILLS
    last = shown["lastBuild"]
    assert (last["state"], last["failedDocuments"]) == ("ready", 0)

    other = start("undisturbed")
    client = other.client("editor")
    base = _upload_all(client)
    client.call("POST", f"/knowledge-bases/{base}/build/resume")
    client.wait_for_build(base, seconds=_SECONDS)

    undisturbed = Database(Places(other.data_dir)).digests(base)
    assert len(undisturbed) == len(list(_corpus()))
    assert disturbed == undisturbed
