"""Which copies this process has open, and the thread that makes them ready."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from retrieval.host_copies.files import Copy, Key, NotCopyable, Unusable, size_of, write
from retrieval.host_copies.folder import NoRoom, building_alone, make_room, remove_outdated
from retrieval.host_copies.reading import epoch_of, one_moment, parts_of
from retrieval.models import IndexSnapshot

logger = logging.getLogger("retrieval.host_copies")

LOOK_ROUND_SECONDS = 20.0
# Another process builds, or the database is away.
RETRY_SECONDS = 0.5
# The disk is full, or there is no room.
LATER_SECONDS = 60.0
# What was used within this time is not closed for another copy.
IN_USE_SECONDS = 60.0


class Busy(Exception):
    """Another process of this host builds a copy."""


class HostCopies:
    """The open copies of one process. All methods may be called by any thread."""

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._open: dict[int, Copy] = {}
        self._used: dict[int, float] = {}
        self._wanted: dict[int, IndexSnapshot] = {}
        self._not_before: dict[int, float] = {}
        self._thread: threading.Thread | None = None
        self._end = threading.Event()

    def find(self, snapshot: IndexSnapshot) -> Copy | None:
        """Return the copy of ``snapshot``; None where it is not ready (it will be soon) or where
        the snapshot is so small that PostgreSQL is as fast.
        """
        if not is_copied(snapshot):
            return None
        copy = self._open.get(snapshot.pk)
        if copy is None:
            self.want(snapshot)
            return None
        if not copy.is_intact():
            logger.error("host_copy.changed name=%s: it is built anew", copy.path.name)
            self.drop(snapshot, copy)
            return None
        self._used[snapshot.pk] = time.monotonic()
        return copy

    def want(self, snapshot: IndexSnapshot) -> None:
        """Have the copy of ``snapshot`` made ready in the background."""
        if not is_copied(snapshot) or snapshot.pk in self._open:
            return
        if self._not_before.get(snapshot.pk, 0.0) > time.monotonic():
            return
        with self._changed:
            self._wanted.setdefault(snapshot.pk, snapshot)
            self._changed.notify_all()
        self.keep()

    def keep(self) -> None:
        """Let the thread look after the folder from now on, whether or not copies are wanted."""
        with self._changed:
            if self._thread is None or not self._thread.is_alive():
                self._end = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._end,), name="host-copies", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """End the thread once it has done what it is at; what is wanted next starts another."""
        with self._changed:
            thread, self._thread = self._thread, None
            self._end.set()
            self._changed.notify_all()
        if thread is not None:
            thread.join()

    def drop(self, snapshot: IndexSnapshot, copy: Copy) -> None:
        """Serve ``copy`` no more and remove its file: it is damaged or out of date."""
        self._close(snapshot.pk, copy)
        copy.path.unlink(missing_ok=True)
        self.want(snapshot)

    def make_ready(self, snapshot: IndexSnapshot) -> Copy | None:
        """Open the copy of ``snapshot``, built first where there is none, and return it.

        None, with a warning in the log, where the disk is full or there is no room: answers come
        from PostgreSQL then. Raises ``Busy``, and what the database raises.
        """
        folder = Path(settings.HOST_COPIES_DIR)
        try:
            self._make_room_for(snapshot)
            key = _key_of(snapshot)
            copy = _opened(folder, key) or _built(folder, key, snapshot)
        except (OSError, NoRoom, NotCopyable, Unusable) as error:
            logger.warning("host_copy.not_made snapshot=%s %s", snapshot.pk, error)
            self._not_before[snapshot.pk] = time.monotonic() + LATER_SECONDS
            return None
        self._used[snapshot.pk] = time.monotonic()
        self._open[snapshot.pk] = copy
        return copy

    def look_round(self) -> None:
        """Show which copies are in use, and close and remove those that are out of date."""
        now = time.monotonic()
        for pk, copy in list(self._open.items()):
            if copy.is_removed() or not copy.is_intact():
                self._close(pk, copy)
            elif now - self._used.get(pk, 0.0) < 2 * LOOK_ROUND_SECONDS:
                copy.mark_used()
        remove_outdated(Path(settings.HOST_COPIES_DIR))

    def forget(self) -> None:
        """Close all copies and want none; their files stay."""
        with self._changed:
            self._wanted.clear()
        for pk, copy in list(self._open.items()):
            self._close(pk, copy)
        self._not_before.clear()

    def _run(self, end: threading.Event) -> None:
        look_again_at = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: end.is_set() or self._next(), self._patience())
                if end.is_set():
                    return
                snapshot = self._next()
            try:
                if snapshot is not None:
                    self.make_ready(snapshot)
                    self._wanted.pop(snapshot.pk, None)
                if time.monotonic() >= look_again_at:
                    look_again_at = time.monotonic() + LOOK_ROUND_SECONDS
                    self.look_round()
            except Busy:
                self._try_again(snapshot)
            except (DatabaseError, InterfaceError, OSError) as error:
                logger.warning("host_copies.waiting %s", error)
                self._try_again(snapshot)
            finally:
                connection.close()

    def _next(self) -> IndexSnapshot | None:
        now = time.monotonic()
        return next(
            (one for pk, one in self._wanted.items() if self._not_before.get(pk, 0.0) <= now), None
        )

    def _patience(self) -> float:
        return RETRY_SECONDS if self._wanted else LOOK_ROUND_SECONDS

    def _try_again(self, snapshot: IndexSnapshot | None) -> None:
        if snapshot is not None:
            self._not_before[snapshot.pk] = time.monotonic() + RETRY_SECONDS

    def _make_room_for(self, snapshot: IndexSnapshot) -> None:
        """Close what was not used for longest until one more may be open. Raises ``NoRoom``."""
        size = size_of(snapshot.chunk_count, snapshot.model.dimensions)
        now = time.monotonic()
        idle = sorted(
            (pk for pk in list(self._open) if now - self._used.get(pk, 0.0) > IN_USE_SECONDS),
            key=lambda pk: self._used.get(pk, 0.0),
        )
        # Listed: other threads drop copies meanwhile.
        while sum(copy.size for copy in list(self._open.values())) + size > (
            settings.HOST_COPIES_MEMORY_BYTES
        ):
            if not idle:
                raise NoRoom("the copies in use fill HOST_COPIES_MEMORY_MB")
            self._open.pop(idle.pop(0), None)

    def _close(self, pk: int, copy: Copy) -> None:
        with self._changed:
            if self._open.get(pk) is copy:
                del self._open[pk]


def is_copied(snapshot: IndexSnapshot) -> bool:
    """Say whether there should be a copy of ``snapshot`` at all."""
    return settings.HOST_COPIES_DISK_BYTES > 0 and (
        snapshot.chunk_count >= settings.HOST_COPIES_LEAST_CHUNKS
    )


def _opened(folder: Path, key: Key) -> Copy | None:
    """Return the copy that is there; a file that is not sound is removed."""
    path = folder / key.name
    try:
        return Copy(path, key)
    except FileNotFoundError:
        return None
    except Unusable as error:
        logger.error("host_copy.damaged name=%s: %s; it is built anew", path.name, error)
        path.unlink(missing_ok=True)
        return None


def _built(folder: Path, key: Key, snapshot: IndexSnapshot) -> Copy:
    """Build a copy and open it. Raises ``Busy`` while another process builds one."""
    with building_alone(folder) as alone:
        if not alone:
            raise Busy
        copy = _opened(folder, key)
        if copy is not None:
            return copy
        begun = time.monotonic()
        dimensions = snapshot.model.dimensions
        size = size_of(snapshot.chunk_count, dimensions)
        make_room(folder, size, most=settings.HOST_COPIES_DISK_BYTES)
        with one_moment():
            key = _key_of(snapshot)  # of the same moment as the vectors
            path = write(
                folder,
                key,
                rows=snapshot.chunk_count,
                dimensions=dimensions,
                parts=parts_of(snapshot),
            )
        logger.info(
            "host_copy.built snapshot=%s chunks=%s seconds=%.1f",
            snapshot.pk,
            snapshot.chunk_count,
            time.monotonic() - begun,
        )
    return Copy(path, key)


def _key_of(snapshot: IndexSnapshot) -> Key:
    base_id = snapshot.knowledge_base_id
    return Key(base_id, snapshot.digest, epoch_of(base_id))
