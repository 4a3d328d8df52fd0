"""Who owns the servers of an instance, and who is using them.

Two files, both locked by ``flock``, which the kernel releases however a process dies. The owner
holds ``up.lock``; a command that uses servers which another command started holds ``users.lock``
shared, so that they stay until it has finished.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from registry.embedded.failure import StartFailed
from registry.embedded.instance import Instance


def try_to_own(instance: Instance, command: str) -> int | None:
    """Return the descriptor of the lock that makes this process the owner, None where it is another.

    Closing it gives the ownership up. Raises StartFailed where the lock's file cannot be opened.
    """
    descriptor = _open(instance.lock_path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, json.dumps({"pid": os.getpid(), "command": command}).encode())
    return descriptor


def own(instance: Instance, command: str) -> int:
    """Return the descriptor of the lock; raises StartFailed naming the process that has it."""
    descriptor = try_to_own(instance, command)
    if descriptor is None:
        raise StartFailed(
            f"The data folder {instance.data_dir} is in use by {owner_of(instance)}: stop that "
            "first, or choose another folder with --data-dir."
        )
    return descriptor


def owner_of(instance: Instance) -> str:
    """Describe the process that has the lock, as far as the file tells."""
    try:
        holder = json.loads(instance.lock_path.read_text())
        return f"`manage.py {holder['command']}` (process {holder['pid']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


@contextmanager
def using(instance: Instance) -> Iterator[None]:
    """Keep the servers of another command alive for the block. Raises StartFailed."""
    descriptor = _open(instance.users_lock_path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def nobody_using(instance: Instance) -> Iterator[None]:
    """Wait until no command uses the servers; none begins during the block. Raises StartFailed."""
    descriptor = _open(instance.users_lock_path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StartFailed(
            f"The data folder {path.parent} cannot be used: {error.strerror} ({path.name})."
        ) from error
