from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator

import pytest
from django.db import DatabaseError

from registry import lookups
from registry.lookups import Lookup
from tests.worker import wait_until


class Table:
    """Rows that change, and who reads them."""

    def __init__(self) -> None:
        self.rows = {"a": 1, "b": 2}
        self.readers: list[str] = []
        self.is_away = False
        self.hangs = threading.Event()
        self.hangs.set()

    def read(self, keys: Collection[str]) -> dict[str, int]:
        self.readers.append(threading.current_thread().name)
        if threading.current_thread().name == "lookups":
            self.hangs.wait()
        if self.is_away:
            raise DatabaseError("away")
        rows = dict(self.rows)  # they change meanwhile
        return {key: rows[key] for key in keys if key in rows}

    @property
    def asked_by_requests(self) -> int:
        return len([name for name in self.readers if name != "lookups"])


@pytest.fixture
def table() -> Iterator[Table]:
    table = Table()
    yield table
    table.hangs.set()
    lookups.stop_keeping_fresh()


def test_lookup__nothing_keeps_it_fresh__reads_every_time(table: Table) -> None:
    lookup = Lookup(table.read)

    assert [lookup.get("a"), lookup.get("a"), lookup.get("x")] == [1, 1, None]
    assert table.asked_by_requests == 3


def test_lookup__kept_fresh__is_read_by_the_thread_and_sees_changes(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A thread that runs late is late only, and no request reads instead of it
    monkeypatch.setattr(lookups, "MAX_AGE", 120.0)
    lookup = Lookup(table.read)
    lookups.keep_fresh()
    assert lookup.get("a") == 1

    table.rows["a"] = 3
    wait_until(lambda: lookup.get("a") == 3)
    assert table.asked_by_requests == 1

    del table.rows["a"]
    wait_until(lambda: lookup.get("a") is None)


def test_lookup__missing_key__is_never_kept(table: Table) -> None:
    lookup = Lookup(table.read)
    lookups.keep_fresh()
    assert lookup.get("c") is None

    table.rows["c"] = 5

    assert lookup.get("c") == 5


def test_lookup__thread_that_hangs__is_not_relied_on(table: Table) -> None:
    lookup = Lookup(table.read)
    lookups.keep_fresh()
    assert lookup.get("a") == 1
    table.hangs.clear()

    table.rows["a"] = 3
    time.sleep(lookups.MAX_AGE)

    assert lookup.get("a") == 3


def test_lookup__database_away__says_so_once_its_values_are_too_old(table: Table) -> None:
    lookup = Lookup(table.read)
    lookups.keep_fresh()
    assert lookup.get("a") == 1
    table.is_away = True

    time.sleep(lookups.MAX_AGE)
    with pytest.raises(DatabaseError):
        lookup.get("a")
    table.is_away = False

    assert lookup.get("a") == 1


def test_lookup__many_keys__are_read_in_one_query(table: Table) -> None:
    lookup = Lookup(table.read)
    lookups.keep_fresh()
    lookup.get("a")
    lookup.get("b")
    table.readers.clear()

    lookup.refresh()

    assert table.asked_by_requests == 1
