"""Where everything of one instance lies, derived from its data folder alone.

Every process of an instance computes the same paths from the same folder, so nothing has to be
handed round. Pure: reads no environment, creates nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PROJECT = "agent-registry"
DATABASE = "registry"
SUPERUSER = "postgres"
PORT = 5432

Role = Literal["app", "owner", "superuser"]
ROLES: dict[Role, str] = {
    "app": "registry_app",
    "owner": "registry_owner",
    "superuser": SUPERUSER,
}

# The kernel refuses socket paths from 108 bytes on; some clients append a suffix of their own.
_LONGEST_SOCKET_PATH = 100
_SHORT_PARENT = Path("/tmp")  # noqa: S108 - the folder's owner is checked before it is used
_OPTION = "--data-dir"


@dataclass(frozen=True)
class Instance:
    """The paths and addresses of the instance in ``data_dir``."""

    data_dir: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_dir", Path(os.path.realpath(self.data_dir)))

    @property
    def postgres_dir(self) -> Path:
        return self.data_dir / "postgres"

    @property
    def valkey_dir(self) -> Path:
        return self.data_dir / "valkey"

    @property
    def new_postgres_dir(self) -> Path:
        """Where a database is made before it is moved, whole, to ``postgres_dir``."""
        return self.data_dir / "postgres.new"

    @property
    def hba_path(self) -> Path:
        return self.data_dir / "pg_hba.conf"

    @property
    def ident_path(self) -> Path:
        return self.data_dir / "pg_ident.conf"

    @property
    def programs_dir(self) -> Path:
        """Where the server programs are copied when their user cannot reach the packages."""
        return self.data_dir / "programs"

    @property
    def socket_dir(self) -> Path:
        """The folder of both sockets: in the data folder, or a short one for a long path."""
        inside = self.data_dir / "run"
        longest = inside / f".s.PGSQL.{PORT}.lock"
        if len(os.fsencode(longest)) <= _LONGEST_SOCKET_PATH:
            return inside
        return _SHORT_PARENT / f"{PROJECT}-{_short_hash(self.data_dir)}"

    @property
    def postgres_socket(self) -> Path:
        return self.socket_dir / f".s.PGSQL.{PORT}"

    @property
    def valkey_socket(self) -> Path:
        return self.socket_dir / "valkey.sock"

    @property
    def redis_url(self) -> str:
        """The cache's and broker's address for redis-py; Celery spells it ``broker_url``."""
        return f"unix://{self.valkey_socket}"

    @property
    def broker_url(self) -> str:
        """The same address as Celery's transport wants it."""
        return f"redis+socket://{self.valkey_socket}"

    @property
    def models_dir(self) -> Path:
        return self.data_dir / "models"

    @property
    def copies_dir(self) -> Path:
        """Where copies of snapshots lie for search; may be removed at any time."""
        return self.data_dir / "copies"

    @property
    def static_dir(self) -> Path:
        return self.data_dir / "static"

    @property
    def log_dir(self) -> Path:
        return self.data_dir / "logs"

    @property
    def beat_dir(self) -> Path:
        return self.data_dir / "beat"

    @property
    def lock_path(self) -> Path:
        """Held exclusively by whoever owns the servers: ``up``, or one other command."""
        return self.data_dir / "up.lock"

    @property
    def users_lock_path(self) -> Path:
        """Held shared by each command that uses servers which another command owns."""
        return self.data_dir / "users.lock"

    @property
    def children_path(self) -> Path:
        """What ``up`` started and has not yet stopped, for the start after a SIGKILL."""
        return self.data_dir / "children.json"

    @property
    def secret_key_path(self) -> Path:
        return self.data_dir / "secret_key"

    def database_settings(self, role: Role = "app") -> dict[str, str]:
        """Return the connection part of a Django ``DATABASES`` entry for ``role``."""
        return {
            "NAME": DATABASE,
            "USER": ROLES[role],
            "PASSWORD": "",
            "HOST": str(self.socket_dir),
            "PORT": str(PORT),
        }

    def postgres_dsn(self, role: Role = "app", database: str = DATABASE) -> str:
        """Return the connection string of libpq and psycopg for ``role``."""
        host = str(self.socket_dir).replace("\\", "\\\\").replace("'", "\\'")
        return f"host='{host}' port={PORT} user={ROLES[role]} dbname={database}"


def default_data_dir(base: Path) -> Path:
    """Return the data folder for a checkout at ``base`` when none is named.

    Root's is outside the checkout: the unprivileged user that PostgreSQL then runs as cannot
    reach a checkout below ``/root``, and its folder's modes are not ours to change.
    """
    base = Path(os.path.realpath(base))
    if os.geteuid() == 0:
        return Path("/var/lib") / f"{PROJECT}-{_short_hash(base)}"
    return base / ".data"


def take_data_dir(argv: Sequence[str]) -> tuple[list[str], Path | None]:
    """Return ``argv`` without ``--data-dir DIR`` or ``--data-dir=DIR``, and that folder.

    The last one counts, as with any option; what follows a bare ``--`` is left alone.
    Raises ValueError with a sentence where the folder is missing.
    """
    rest: list[str] = []
    folder: str | None = None
    words = iter(argv)
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word == _OPTION:
            folder = next(words, "")
        elif word.startswith(f"{_OPTION}="):
            folder = word.removeprefix(f"{_OPTION}=")
        else:
            rest.append(word)
            continue
        if folder == "" or (folder is not None and folder.startswith("--")):
            raise ValueError(f"{_OPTION} needs a folder after it.")
    return rest, None if folder is None else Path(os.path.abspath(folder))


def _short_hash(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
