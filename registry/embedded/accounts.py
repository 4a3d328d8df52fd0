"""Which user runs the servers, and what that user can reach.

PostgreSQL refuses to run as root, so root hands both servers to an unprivileged account.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from registry.embedded.failure import StartFailed
from registry.embedded.instance import Instance

_CANDIDATES = ("postgres", "nobody")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A user of this machine; ``switch`` when it is not the one this process runs as."""

    name: str
    uid: int
    gid: int
    switch: bool


def name_of(uid: int) -> str:
    """Return the user's name, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"number {uid}"


def server_account(instance: Instance) -> Account:
    """Return the user that runs the servers of ``instance``; raises StartFailed.

    As root: whoever owns the database's files already, so that an account that is added to the
    machine later does not lock the instance out; else the first of a few that exist.
    """
    if os.geteuid() != 0:
        return _account(pwd_entry(os.geteuid()), switch=False)
    if instance.postgres_dir.is_dir() and (owner := instance.postgres_dir.stat().st_uid) != 0:
        return _account(pwd_entry(owner), switch=True)
    for name in _CANDIDATES:
        try:
            return _account(pwd.getpwnam(name), switch=True)
        except KeyError:
            continue
    raise StartFailed(
        "PostgreSQL does not run as root and this machine has no user "
        f"{' or '.join(_CANDIDATES)}: add one, or start as an ordinary user."
    )


def pwd_entry(uid: int) -> pwd.struct_passwd:
    """Return the account with this number; raises StartFailed where it has no name."""
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise StartFailed(
            f"The user with number {uid} has no name on this machine, and PostgreSQL needs one: "
            "add it to /etc/passwd, or set DATABASE_URL to a PostgreSQL that runs elsewhere."
        ) from None


def unreachable_part(path: Path, account: Account) -> Path | None:
    """Return the highest folder on the way to ``path`` that ``account`` cannot enter.

    ``path`` itself counts if it exists; None if every folder lets the account in.
    """
    if not account.switch:
        return None
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            return None
        if not can(account, ["/bin/sh", "-c", 'cd "$1"', "sh", str(folder)]):
            return folder
    return None


def can(account: Account, argv: Sequence[str]) -> bool:
    """Tell whether ``argv``, run as ``account``, ends with exit code 0."""
    as_account = (
        {"user": account.uid, "group": account.gid, "extra_groups": []} if account.switch else {}
    )
    try:
        done = subprocess.run(  # noqa: S603 - fixed programs, no shell around the arguments
            argv,
            cwd="/",
            env={"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
            check=False,
            **as_account,  # type: ignore[call-overload]
        )
    except PermissionError:
        return False
    return bool(done.returncode == 0)


def _account(entry: pwd.struct_passwd, *, switch: bool) -> Account:
    return Account(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid, switch=switch)
