"""Make and check an instance's folders; never touch a mode outside the data folder.

Everything is private to the user who starts the instance. As root, the data folder belongs to
root and lets others pass (0711) without listing it, and only the servers' own folders belong to
the account that runs them: were the data folder that account's, it could swap the secret key or
the log files under root's hands.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from registry.embedded.accounts import Account, name_of, server_account, unreachable_part
from registry.embedded.failure import StartFailed
from registry.embedded.instance import Instance

_PRIVATE = 0o700
_PASSABLE = 0o711
# What a data folder may hold before a server was ever started in it.
_BEFORE_FIRST_START = frozenset({"models", "static", "logs", "beat", "copies", "secret_key"})


def prepare_folders(instance: Instance) -> Account:
    """Make the folders of ``instance`` and return the account that runs its servers.

    Raises StartFailed, having changed nothing, for a folder that holds other files, belongs to
    another user or cannot be reached by that account.
    """
    account = server_account(instance)
    try:
        _check_data_dir(instance, account)
        _make_data_dir(instance, account)
        for folder in (
            instance.log_dir,
            instance.models_dir,
            instance.static_dir,
            instance.beat_dir,
        ):
            folder.mkdir(mode=_PRIVATE, exist_ok=True)
        _make_secret_key(instance.secret_key_path)
        _make_server_folder(instance.valkey_dir, account)
        _make_server_folder(instance.socket_dir, account)
    except OSError as error:
        raise StartFailed(
            f"The data folder {instance.data_dir} cannot be used: {error.strerror or error} "
            f"({error.filename})."
        ) from error
    return account


def _check_data_dir(instance: Instance, account: Account) -> None:
    folder = instance.data_dir
    if (blocked := unreachable_part(folder.parent, account)) is not None:
        raise StartFailed(
            f"PostgreSQL runs as the user {account.name}, who cannot reach the data folder "
            f"{folder} because of the mode of {blocked}: choose another with --data-dir."
        )
    if not folder.exists():
        return
    if not folder.is_dir():
        raise StartFailed(f"The data folder {folder} is a file: choose another with --data-dir.")
    owner = folder.stat().st_uid
    if owner != os.geteuid():
        raise StartFailed(
            f"The data folder {folder} belongs to the user {name_of(owner)}: start as that user, "
            "or choose another folder with --data-dir."
        )
    names = {entry.name for entry in folder.iterdir()}
    if instance.users_lock_path.name not in names and (strangers := names - _BEFORE_FIRST_START):
        raise StartFailed(
            f"The folder {folder} holds other files ({', '.join(sorted(strangers)[:3])}): choose "
            "an empty or a new one with --data-dir."
        )


def _make_data_dir(instance: Instance, account: Account) -> None:
    folder = instance.data_dir
    missing = [parent for parent in folder.parents if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for parent in missing if account.switch else ():
        parent.chmod(_PASSABLE)
    folder.chmod(_PASSABLE if account.switch else _PRIVATE)
    # Also marks the folder as an instance's from here on.
    instance.users_lock_path.touch(mode=0o600)


def _make_server_folder(folder: Path, account: Account) -> None:
    """Make a private folder that belongs to the servers' account.

    A short socket folder lies in a place where anybody can make folders, so what is there
    already is used only if it is a real folder of ours.
    """
    folder.mkdir(mode=_PRIVATE, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in {account.uid, os.geteuid()}:
        raise StartFailed(
            f"The folder {folder}, which the sockets need, is not a folder of the user "
            f"{account.name}: remove it, or choose a --data-dir with a shorter path."
        )
    if account.switch:
        os.chown(folder, account.uid, account.gid, follow_symlinks=False)
    folder.chmod(_PRIVATE)


def _make_secret_key(path: Path) -> None:
    """Write a secret key that only its owner reads, unless there is one; never half of one."""
    if path.exists():
        return
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(48))
        file.flush()
        os.fsync(file.fileno())
    with suppress(FileExistsError):
        os.link(partial, path)
    partial.unlink()
