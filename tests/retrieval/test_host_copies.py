"""Copies of snapshots on the host: the same answers, and never those of another moment."""

from __future__ import annotations

import logging
import os
import resource
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.db import connection

from retrieval import candidates
from retrieval.candidates import rank
from retrieval.host_copies import HostCopies, copies
from retrieval.host_copies.files import PARTIAL, Copy, Key, Unusable
from retrieval.host_copies.folder import building_alone
from retrieval.host_copies.keeping import Busy
from retrieval.models import DocumentRevision, IndexSnapshot, SnapshotMember
from retrieval.vectors import Vector
from tests.database.attacks import commit, purge, run
from tests.retrieval.drawn import brute_force, found, snapshot_of, unit

pytestmark = pytest.mark.django_db(transaction=True)

GENERATOR = np.random.default_rng(11)
QUERY = unit(GENERATOR.standard_normal(8))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings: Any) -> Iterator[Path]:
    settings.HOST_COPIES_DIR = tmp_path / "copies"
    settings.HOST_COPIES_LEAST_CHUNKS = 1
    copies.forget()
    yield settings.HOST_COPIES_DIR
    copies.stop()
    copies.forget()


@pytest.fixture
def process() -> Iterator[Callable[[], HostCopies]]:
    """Return a function that makes the copies of what stands for another process."""
    made: list[HostCopies] = []

    def make() -> HostCopies:
        made.append(HostCopies())
        return made[-1]

    yield make
    for one in made:
        one.stop()


def drawn(count: int = 40) -> list[list[Vector]]:
    return [[unit(GENERATOR.standard_normal(8)) for _ in range(count)] for _ in range(2)]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.copy"))


def ready(snapshot: IndexSnapshot) -> Copy:
    copy = copies.make_ready(snapshot)
    assert copy is not None
    return copy


def wait(condition: Callable[[], object]) -> None:
    ends = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


def cold(snapshot: IndexSnapshot, depth: int, query: Vector = QUERY) -> candidates.Ranking:
    """What PostgreSQL answers."""
    return candidates.rank_in_database(snapshot, query, depth)


def test_rank__by_a_copy__is_to_the_byte_what_postgresql_and_brute_force_give() -> None:
    near = unit(QUERY + 0.1 * GENERATOR.standard_normal(8))
    neighbours = [
        np.nextafter(near, np.float32(step)).astype(np.float32) for step in (-1, 0, 1) for _ in "ab"
    ]
    snapshot = snapshot_of(
        [
            [near, near, -near, QUERY, -QUERY, *neighbours],
            [near, *neighbours, unit(GENERATOR.standard_normal(8))],
            [unit(GENERATOR.standard_normal(8)) for _ in range(30)],
        ]
    )
    ready(snapshot)
    assert copies.find(snapshot) is not None

    for depth in (1, 2, 3, 5, 8, 13, 25, 49, 100):
        for query in (QUERY, near, -near, unit(GENERATOR.standard_normal(8))):
            warm = rank(snapshot, query, depth)

            assert warm == cold(snapshot, depth, query)
            assert found(snapshot, query, depth) == brute_force(snapshot, query, depth)


def test_rank__by_a_copy_of_embedding_sized_vectors_close_together__is_the_brute_force() -> None:
    query = unit(GENERATOR.standard_normal(384))
    centre = unit(query + 0.05 * GENERATOR.standard_normal(384))
    snapshot = snapshot_of(
        [[unit(centre + 1e-6 * GENERATOR.standard_normal(384)) for _ in range(100)] for _ in "abc"]
    )
    ready(snapshot)

    for depth in (1, 25, 100):
        assert found(snapshot, query, depth) == brute_force(snapshot, query, depth)
        assert rank(snapshot, query, depth) == cold(snapshot, depth, query)


def test_rank__by_a_copy_of_thousands_that_tie__is_the_brute_force() -> None:
    same = unit(QUERY + 0.2 * GENERATOR.standard_normal(8))
    snapshot = snapshot_of([[same] * 3000, [same, -same] * 700])
    ready(snapshot)

    for depth in (1, 25, 100):
        assert found(snapshot, QUERY, depth) == brute_force(snapshot, QUERY, depth)


def test_rank__without_a_copy__answers_at_once_and_has_one_made(folder: Path) -> None:
    snapshot = snapshot_of(drawn())

    first = rank(snapshot, QUERY, 5)

    wait(lambda: copies.find(snapshot))
    assert len(files(folder)) == 1
    assert rank(snapshot, QUERY, 5) == first


def test_rank__of_a_small_snapshot__needs_no_copy(folder: Path, settings: Any) -> None:
    settings.HOST_COPIES_LEAST_CHUNKS = 1000
    snapshot = snapshot_of(drawn())

    rank(snapshot, QUERY, 5)

    assert not folder.exists()


def test_copies__switched_off__are_not_made(folder: Path, settings: Any) -> None:
    settings.HOST_COPIES_DISK_BYTES = 0

    assert len(rank(snapshot_of(drawn()), QUERY, 5).candidates) == 5
    assert not folder.exists()


@pytest.mark.parametrize("place", [3, 45, 5000, -1])
def test_copy__with_a_damaged_byte__is_built_anew_and_never_served(
    folder: Path, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    snapshot = snapshot_of(drawn())
    path = ready(snapshot).path
    copies.forget()
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)

    copy = ready(snapshot)

    assert "host_copy.damaged" in caplog.text
    assert copy.is_intact()
    assert rank(snapshot, QUERY, 9) == cold(snapshot, 9)


def test_copy__changed_while_it_is_open__is_not_served_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    snapshot = snapshot_of(drawn())
    copy = ready(snapshot)
    content = bytearray(copy.path.read_bytes())
    # All codes the same: it would answer, and wrongly.
    content[4096:4700] = b"\1" * 604
    time.sleep(0.05)  # the clock of many file systems ticks every hundredth of a second
    with copy.path.open("r+b") as file:
        file.write(content)

    assert rank(snapshot, QUERY, 9) == cold(snapshot, 9)
    assert "host_copy.changed" in caplog.text
    wait(lambda: copies.find(snapshot))
    assert rank(snapshot, QUERY, 9) == cold(snapshot, 9)


def test_copy__cut_short_while_it_is_open__does_no_harm() -> None:
    snapshot = snapshot_of(drawn())
    copy = ready(snapshot)
    os.truncate(copy.path, 100)

    assert rank(snapshot, QUERY, 9) == cold(snapshot, 9)


def test_copy__half_written__is_not_read_and_goes(folder: Path) -> None:
    snapshot = snapshot_of(drawn())
    path = ready(snapshot).path
    copies.forget()
    half = path.with_name(path.name + PARTIAL)
    half.write_bytes(path.read_bytes()[:5000])
    path.unlink()

    assert rank(snapshot, QUERY, 9) == cold(snapshot, 9)
    wait(lambda: copies.find(snapshot))
    half.write_bytes(b"left by a process that was killed")
    copies.look_round()
    assert not half.exists()
    assert len(files(folder)) == 1


def test_copy__of_another_knowledge_base_under_this_name__is_refused(folder: Path) -> None:
    one, other = snapshot_of(drawn()), snapshot_of(drawn())
    theirs = ready(one)
    mine = Key(other.knowledge_base_id, other.digest, None)
    (folder / mine.name).write_bytes(theirs.path.read_bytes())

    with pytest.raises(Unusable):
        Copy(folder / mine.name, mine)
    ready(other)
    for snapshot in (one, other):
        assert rank(snapshot, QUERY, 50) == cold(snapshot, 50)


def test_folder__removed_at_any_time__loses_nothing(folder: Path) -> None:
    snapshot = snapshot_of(drawn())
    ready(snapshot)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()

    assert rank(snapshot, QUERY, 9) == cold(snapshot, 9)
    copies.look_round()
    assert rank(snapshot, QUERY, 9) == cold(snapshot, 9)
    wait(lambda: copies.find(snapshot))
    assert len(files(folder)) == 1


def test_copy__after_a_purge__is_neither_served_nor_kept(folder: Path) -> None:
    snapshot = snapshot_of(drawn())
    old = ready(snapshot).path.name
    before = rank(snapshot, QUERY, 200)
    member = SnapshotMember.objects.filter(snapshot=snapshot).earliest("name")
    revision = DocumentRevision.objects.get(document=member.document_id)

    commit(*purge(revision.pk))

    after = rank(snapshot, QUERY, 200)
    assert after == cold(snapshot, 200)
    assert after.epoch is not None
    assert after.candidates == [
        one for one in before.candidates if one.document_id != member.document_id
    ]
    wait(lambda: copies.find(snapshot))
    assert rank(snapshot, QUERY, 200) == after
    assert old not in files(folder)


def test_copy__after_a_purge_of_what_is_far_away__says_the_new_epoch() -> None:
    """Else the answer would not count it."""
    near = [unit(QUERY + 0.1 * GENERATOR.standard_normal(8)) for _ in range(9)]
    snapshot = snapshot_of([near, near, [-QUERY]])
    ready(snapshot)
    far = SnapshotMember.objects.get(snapshot=snapshot, name="2.md")

    commit(*purge(DocumentRevision.objects.get(document=far.document_id).pk))

    found_now = rank(snapshot, QUERY, 5)
    assert found_now.epoch is not None
    assert found_now == cold(snapshot, 5)


def test_copy__after_a_purge_that_nobody_asked_about__goes_all_the_same(
    folder: Path, process: Callable[[], HostCopies]
) -> None:
    snapshot = snapshot_of(drawn())
    ready(snapshot)
    member = SnapshotMember.objects.filter(snapshot=snapshot).earliest("name")

    commit(*purge(DocumentRevision.objects.get(document=member.document_id).pk))

    process().keep()
    wait(lambda: files(folder) == [])


def test_copy__of_a_purge_in_another_knowledge_base__stays(folder: Path) -> None:
    one, other = snapshot_of(drawn()), snapshot_of(drawn())
    ready(one)
    member = SnapshotMember.objects.filter(snapshot=other).earliest("name")

    commit(*purge(DocumentRevision.objects.get(document=member.document_id).pk))

    copies.look_round()
    assert len(files(folder)) == 1
    assert rank(one, QUERY, 9).epoch is None


def test_copy__of_a_deleted_snapshot__goes(folder: Path) -> None:
    snapshot = snapshot_of(drawn())
    ready(snapshot)
    commit(
        f"DELETE FROM retrieval_indexsnapshot WHERE id = {snapshot.pk}",
        f"DELETE FROM retrieval_snapshotmember WHERE snapshot_id = {snapshot.pk}",
    )

    copies.look_round()

    assert files(folder) == []


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No file of this process may grow beyond a few kilobytes, as on a disk that is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_disk__full__is_logged_and_answers_go_on(
    folder: Path, full_disk: None, caplog: pytest.LogCaptureFixture
) -> None:
    snapshot = snapshot_of(drawn())

    assert copies.make_ready(snapshot) is None

    assert "host_copy.not_made" in caplog.text
    assert [path.name for path in folder.iterdir()] == ["building.lock"]
    assert rank(snapshot, QUERY, 9) == cold(snapshot, 9)


def test_room__on_the_disk__is_made_by_what_was_not_used_for_longest(
    folder: Path, settings: Any
) -> None:
    snapshots = [snapshot_of(drawn()) for _ in range(3)]
    paths = [ready(one).path for one in snapshots[:2]]
    settings.HOST_COPIES_DISK_BYTES = sum(path.stat().st_size for path in paths) + 100
    for path, hours in zip(paths, (2, 1), strict=True):
        state = path.stat()
        os.utime(path, ns=(state.st_atime_ns - hours * 3600 * 10**9, state.st_mtime_ns))

    newest = ready(snapshots[2]).path

    assert set(files(folder)) == {paths[1].name, newest.name}


def test_room__on_the_disk_taken_by_what_is_in_use__is_not_made(
    folder: Path, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = snapshot_of(drawn()), snapshot_of(drawn())
    settings.HOST_COPIES_DISK_BYTES = int(ready(one).path.stat().st_size * 1.5)

    assert copies.make_ready(other) is None

    assert "do not fit" in caplog.text
    assert len(files(folder)) == 1
    assert rank(other, QUERY, 9) == cold(other, 9)


def test_room__in_memory__is_made_by_closing_what_was_not_used_for_longest(
    folder: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = snapshot_of(drawn()), snapshot_of(drawn())
    size = ready(one).path.stat().st_size
    settings.HOST_COPIES_MEMORY_BYTES = int(size * 1.9)
    assert copies.make_ready(other) is None
    monkeypatch.setattr("retrieval.host_copies.keeping.IN_USE_SECONDS", -1.0)
    copies.find(one)

    copies._not_before.clear()
    ready(other)

    assert copies.find(other) is not None
    assert copies.find(one) is None
    assert len(files(folder)) == 2


def test_room__looked_for_while_another_thread_drops_a_copy__is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, third = (snapshot_of(drawn()) for _ in range(3))
    dropped = ready(second)
    opened = ready(first)

    class Meanwhile(Copy):
        @property
        def size(self) -> int:  # type: ignore[override]
            copies._close(second.pk, dropped)
            return 1

    monkeypatch.setattr(opened, "__class__", Meanwhile)

    ready(third)

    assert copies.find(third) is not None


def test_building__by_several_at_once__is_done_by_one(
    caplog: pytest.LogCaptureFixture, process: Callable[[], HostCopies]
) -> None:
    caplog.set_level(logging.INFO)
    snapshot = snapshot_of(drawn(400))
    keepers = [process() for _ in range(4)]
    threads = [threading.Thread(target=keeper.want, args=(snapshot,)) for keeper in keepers]

    for thread in threads:
        thread.start()

    wait(lambda: all(keeper.find(snapshot) for keeper in keepers))
    assert caplog.text.count("host_copy.built") == 1


def test_building__while_another_process_builds__waits_and_answers_go_on(folder: Path) -> None:
    snapshot = snapshot_of(drawn())
    with building_alone(folder) as alone:
        assert alone
        with pytest.raises(Busy):
            copies.make_ready(snapshot)
        assert rank(snapshot, QUERY, 9) == cold(snapshot, 9)
    wait(lambda: copies.find(snapshot))


def test_copy__that_lacks_a_chunk__is_not_kept(folder: Path) -> None:
    snapshot = snapshot_of(drawn())
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE retrieval_chunk DISABLE TRIGGER USER")
        cursor.execute("UPDATE retrieval_chunk SET vector = NULL WHERE ordinal = 3")
        cursor.execute("ALTER TABLE retrieval_chunk ENABLE TRIGGER USER")

    assert copies.make_ready(snapshot) is None
    assert files(folder) == []


def test_copy__whose_chunks_are_others_in_the_database__is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    snapshot = snapshot_of(drawn())
    ready(snapshot)
    run(
        "ALTER TABLE retrieval_chunk DISABLE TRIGGER USER",
        f"UPDATE retrieval_chunk SET digest = 'sha256:{'0' * 64}' WHERE ordinal < 30",
        "ALTER TABLE retrieval_chunk ENABLE TRIGGER USER",
    )

    assert rank(snapshot, QUERY, 9) == cold(snapshot, 9)
    assert "host_copy.differs" in caplog.text


def test_key__of_a_name__is_the_one_that_made_it() -> None:
    for epoch in (None, uuid.uuid4()):
        key = Key(uuid.uuid4(), f"sha256:{'ab' * 32}", epoch)
        assert Key.of_name(key.name) == key
    assert Key.of_name("building.lock") is None
