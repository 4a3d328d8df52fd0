"""The folder of host copies, shared by all processes of a host: room, locks, what is out of date."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from retrieval.host_copies.files import PARTIAL, SUFFIX, Key
from retrieval.models import IndexSnapshot

logger = logging.getLogger("retrieval.host_copies")

# Not for room either: were copies in use removed, two large snapshots would chase each other.
IN_USE_SECONDS = 600
_LOCK = "building.lock"


class NoRoom(Exception):
    """A copy does not fit beside those that are in use."""


@contextmanager
def building_alone(folder: Path) -> Iterator[bool]:
    """Say whether this process may build now: one at a time does on a host."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def make_room(folder: Path, size: int, *, most: int) -> None:
    """Remove the copies that were not used for longest until one of ``size`` bytes fits.

    Called by whoever builds alone. Raises ``NoRoom``, having removed nothing.
    """
    now = time.time()
    found = sorted(
        ((path.stat(), path) for path in _copies(folder)), key=lambda one: one[0].st_atime
    )
    excess = sum(state.st_size for state, _ in found) + size - most
    removable = [
        (state.st_size, path) for state, path in found if now - state.st_atime > IN_USE_SECONDS
    ]
    if excess > sum(bytes_ for bytes_, _ in removable):
        raise NoRoom(
            f"{size // 2**20} MB do not fit into {most // 2**20} MB beside the copies in use"
        )
    for bytes_, path in removable:
        if excess <= 0:
            return
        path.unlink(missing_ok=True)
        logger.info("host_copy.removed name=%s: room is needed", path.name)
        excess -= bytes_


def remove_outdated(folder: Path) -> None:
    """Remove copies of snapshots that are gone or were purged since, and what nobody finishes."""
    if not folder.is_dir():
        return
    # Listed before the database is asked: what it does not know then is out of date.
    keys = {path: Key.of_name(path.name) for path in _copies(folder)}
    wanted = {
        Key(base_id, digest, epoch)
        for base_id, digest, epoch in IndexSnapshot.objects.filter(
            knowledge_base__in={key.knowledge_base for key in keys.values() if key}, state="ready"
        ).values_list("knowledge_base", "digest", "knowledge_base__purge_epoch")
    }
    for path, key in keys.items():
        if key not in wanted:
            path.unlink(missing_ok=True)
            logger.info("host_copy.removed name=%s: out of date", path.name)
    partial = list(folder.glob(f"*{PARTIAL}"))
    if partial:
        with building_alone(folder) as alone:
            for path in partial if alone else ():
                path.unlink(missing_ok=True)


def _copies(folder: Path) -> list[Path]:
    return list(folder.glob(f"*{SUFFIX}"))
