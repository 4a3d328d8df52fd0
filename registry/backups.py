"""The whole database as one file, and back: pg_dump and pg_restore with this installation's rights.

PostgreSQL's own dump is the only thing that holds everything: rows, triggers, constraints,
sequences. These functions find its programs, hand them the connection and leave out what belongs
to the server (roles, the extension, who owns what), so that a dump goes into a database whose
roles are called otherwise.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from registry.embedded.programs import postgres_client
from registry.errors import Conflict, Invalid

# What both psycopg and libpq's programs call by the same name.
_LIBPQ = (
    *("host", "hostaddr", "port", "user", "dbname", "connect_timeout", "sslmode", "sslcert"),
    *("sslkey", "sslrootcert", "sslcrl", "target_session_attrs", "channel_binding"),
)
# id, app, name, applied
_MIGRATION_COLUMNS = 4
_TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"


def dump_database(connection: BaseDatabaseWrapper, path: Path) -> None:
    """Write the database of ``connection`` to ``path``, as it is at one moment, while it serves.

    Raises Conflict (``backup.exists``) for a file that is there, Invalid (``backup.failed``) with
    what pg_dump says.
    """
    if path.exists():
        raise Conflict(f"{path} exists already.", code="backup.exists")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        # Readable by its owner alone, before the first byte is in it.
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        _run(
            connection,
            "pg_dump",
            # The extension is made by whoever makes the database; its comment needs a superuser.
            *("--format=custom", "--exclude-extension=*", f"--file={part}"),
        )
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.rename(path)
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error}", code="backup.failed") from error
    finally:
        part.unlink(missing_ok=True)


def restore_database(connection: BaseDatabaseWrapper, path: Path) -> None:
    """Read a dump into the empty database of ``connection``, all of it or nothing.

    Raises Conflict (``restore.not_empty``) where the database has tables, Invalid
    (``restore.newer``) for a dump of a later version of this software, (``restore.other``) for
    one of something else, (``restore.failed``) with what pg_restore says.
    """
    with connection.cursor() as cursor:
        cursor.execute(_TABLES)
        (tables,) = cursor.fetchone()
    if tables:
        raise Conflict(
            f"The database {connection.settings_dict['NAME']!r} has {tables} tables already. "
            "A dump is restored into an empty one: a new --data-dir, or a new database.",
            code="restore.not_empty",
        )
    _check_version(path)
    with connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
    _run(
        connection,
        "pg_restore",
        *("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", str(path)),
        code="restore.failed",
    )


def _check_version(path: Path) -> None:
    """Refuse a dump that this version of the software could not serve, before it is read in."""
    table = MigrationRecorder.Migration._meta.db_table
    program = str(postgres_client("pg_restore"))
    said = _output(
        [program, "--data-only", f"--table={table}", "--file=-", str(path)], code="restore.failed"
    )
    there = {
        (fields[1], fields[2])
        for line in said.split("\n")
        if len(fields := line.split("\t")) == _MIGRATION_COLUMNS
    }
    known = MigrationLoader(None).disk_migrations
    if not any(app == "registry" for app, _ in there):
        raise Invalid(f"{path} is no backup of this software.", code="restore.other")
    if unknown := sorted(there - set(known)):
        names = ", ".join(f"{app}.{name}" for app, name in unknown)
        raise Invalid(
            f"{path} was written by a later version of this software, with changes of the database "
            f"that this one does not know: {names}. Restore it with that version, or a later one.",
            code="restore.newer",
        )


def _run(
    connection: BaseDatabaseWrapper, program: str, *options: str, code: str = "backup.failed"
) -> None:
    parameters: Mapping[str, Any] = connection.get_connection_params()
    address = " ".join(
        f"{name}='{_quoted(str(parameters[name]))}'" for name in _LIBPQ if parameters.get(name)
    )
    command: Sequence[str] = (
        str(postgres_client(program)),
        f"--dbname={address}",
        "--no-password",
        *options,
    )
    # Every user of the machine can read arguments, not another's environment.
    secret = {"PGPASSWORD": str(parameters["password"])} if parameters.get("password") else {}
    _output(command, code=code, **secret)


def _output(command: Sequence[str], *, code: str, **secret: str) -> str:
    done = subprocess.run(  # noqa: S603 - a program of the installed package
        command,
        env={**_environment(), **secret},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        raise Invalid(f"{Path(command[0]).name}: {said}", code=code)
    return done.stdout


def _environment() -> dict[str, str]:
    """Return a small environment: no PGOPTIONS or service file of the user's changes the dump."""
    return {"LC_ALL": "C.UTF-8", "PATH": os.defpath}


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")
