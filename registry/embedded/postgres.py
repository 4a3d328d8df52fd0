"""One PostgreSQL with pgvector for one instance, from the installed package's programs.

``start_postgres`` makes the database on first use and recovers from whatever an earlier run left.
The caller owns the instance (``locks``) or is alone in its folder, as tests are.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable

import psycopg

from registry.embedded.accounts import Account
from registry.embedded.database import set_up_database, write_access_rules
from registry.embedded.failure import StartFailed
from registry.embedded.folders import prepare_folders
from registry.embedded.instance import PORT, SUPERUSER, Instance
from registry.embedded.logs import last_line, open_log, size_of
from registry.embedded.processes import (
    Pause,
    Spawned,
    end,
    has_ended,
    spawn,
    stop,
    wait_until,
    working_in,
)
from registry.embedded.programs import POSTGRES_MAJOR, Programs, postgres_programs

Say = Callable[[str], None]

_PROGRAM = "postgres"
_LOG = "postgres.log"
_USUAL_SECONDS = 3.0
_RECOVERY_SECONDS = 600.0
_STOP_STEPS = (
    (signal.SIGINT, 60.0),  # fast: ends sessions, writes a checkpoint
    (signal.SIGQUIT, 10.0),  # immediate: the next start recovers from the log
)
# Written to postgresql.conf once, where an operator may change them; what the instance depends
# on is given on the command line at each start instead.
_TUNING = {
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "max_connections": "100",
    "max_wal_size": "1GB",
    "random_page_cost": "1.1",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%u@%d ",
}
_NOT_DURABLE = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
}


class PostgresServer(Spawned):
    """A running server; ``stop`` ends it fast: running transactions are rolled back."""

    def __init__(self, process: subprocess.Popen[bytes], *, version: str, pgvector: str) -> None:
        super().__init__(process, _STOP_STEPS)
        self.version = version
        self.pgvector = pgvector


def start_postgres(
    instance: Instance,
    *,
    durable: bool = True,
    pause: Pause = time.sleep,
    say: Say = lambda _: None,
) -> PostgresServer:
    """Start the instance's server and return it once its database, roles and pgvector are there.

    ``durable=False`` gives up safety against a power cut, for tests. ``pause`` waits a number of
    seconds and may raise to give up; ``say`` hears what takes long. Raises StartFailed.
    """
    account = prepare_folders(instance)
    _check_version(instance)
    programs = postgres_programs(instance, account)
    end_leftovers(instance, say=say)
    if not instance.postgres_dir.exists():
        say("making the database (once)")
        _initialise(instance, account, programs, durable=durable, pause=pause)
    write_access_rules(instance)
    log_path = instance.log_dir / _LOG
    since = size_of(log_path)
    with open_log(log_path) as log:
        process = spawn(
            [programs / _PROGRAM, "-D", instance.postgres_dir, *_must(instance, durable=durable)],
            death_signal=signal.SIGINT,
            output=log,
            account=account,
            env=_environment(instance),
            cwd=instance.data_dir if not account.switch else None,
        )
    try:
        _wait_until_ready(instance, process, since, pause=pause, say=say)
        version, pgvector = set_up_database(instance)
    except BaseException:
        stop(process, _STOP_STEPS)
        raise
    return PostgresServer(process, version=version, pgvector=pgvector)


def end_leftovers(instance: Instance, *, say: Say = lambda _: None) -> None:
    """Stop a server of an earlier run that still works in the folder; remove stale pid files.

    PostgreSQL itself believes a pid file as soon as any process has its number. Only processes
    that work in this very folder count here.
    """
    folder = instance.postgres_dir
    # As they were when they were found: they may end at any moment.
    left = [process for process in working_in(folder) if process.info["name"] == _PROGRAM]
    if left:
        say("stopping the PostgreSQL of an earlier run")
        numbers = {process.pid for process in left}
        end([one for one in left if one.info["ppid"] not in numbers], signal.SIGINT, 60)
        end([one for one in left if not has_ended(one)], signal.SIGQUIT, 10)
    socket = instance.postgres_socket
    for stale in (folder / "postmaster.pid", socket, socket.with_name(f"{socket.name}.lock")):
        stale.unlink(missing_ok=True)


def _check_version(instance: Instance) -> None:
    folder = instance.postgres_dir
    if not folder.exists():
        return
    try:
        found = (folder / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        raise StartFailed(
            f"The folder {folder} is not a PostgreSQL database: choose another --data-dir."
        ) from None
    if found != str(POSTGRES_MAJOR):
        raise StartFailed(
            f"The database in {folder} is of PostgreSQL {found}, this is PostgreSQL "
            f"{POSTGRES_MAJOR}: restore a dump into a new --data-dir, or set DATABASE_URL to a "
            f"PostgreSQL {found}."
        )


def _initialise(
    instance: Instance, account: Account, programs: Programs, *, durable: bool, pause: Pause
) -> None:
    """Make an empty cluster under another name first, so that a killed start leaves none half."""
    new = instance.new_postgres_dir
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    if account.switch:
        os.chown(new, account.uid, account.gid)
    log_path = instance.log_dir / _LOG
    since = size_of(log_path)
    argv = [
        *(programs / "initdb", "-D", new, "--username", SUPERUSER, "--encoding", "UTF8"),
        *("--locale-provider", "builtin", "--builtin-locale", "C.UTF-8", "--locale", "C"),
        *("--auth-local", "peer", "--auth-host", "reject", "--no-instructions"),
        *(() if durable else ("--no-sync",)),
    ]
    for name, value in _TUNING.items():
        argv += ["--set", f"{name}={value}"]
    with open_log(log_path) as log:
        process = spawn(
            argv,
            death_signal=signal.SIGKILL,
            output=log,
            account=account,
            env=_environment(instance),
            cwd=new,
        )
    try:
        wait_until(lambda: process.poll() is not None, seconds=_RECOVERY_SECONDS, pause=pause)
    finally:
        stop(process, ())
    if process.returncode != 0:
        shutil.rmtree(new, ignore_errors=True)
        raise StartFailed(
            f"The database could not be made: {last_line(log_path, since=since)} "
            f"(more in {log_path})."
        )
    new.rename(instance.postgres_dir)


def _must(instance: Instance, *, durable: bool) -> list[str]:
    settings = {
        "listen_addresses": "",
        "port": str(PORT),
        "unix_socket_directories": str(instance.socket_dir),
        "unix_socket_permissions": "0700",
        "hba_file": str(instance.hba_path),
        "ident_file": str(instance.ident_path),
        "logging_collector": "off",
        "log_destination": "stderr",
        # A statement that failed, or the row it was about, may hold texts of documents, and no
        # purge reaches a log.
        "log_min_error_statement": "panic",
        "log_error_verbosity": "terse",
        **({} if durable else _NOT_DURABLE),
    }
    return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]


def _environment(instance: Instance) -> dict[str, str]:
    # PG… variables of the caller must not reach the server; DATA_DIR marks it as ours.
    return {"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath, "DATA_DIR": str(instance.data_dir)}


def _wait_until_ready(
    instance: Instance,
    process: subprocess.Popen[bytes],
    since: int,
    *,
    pause: Pause,
    say: Say,
) -> None:
    log_path = instance.log_dir / _LOG
    address = instance.postgres_dsn("superuser", "postgres")
    begun = time.monotonic()
    recovering = False

    def ready() -> bool:
        nonlocal recovering
        if process.poll() is not None:
            raise StartFailed(
                f"PostgreSQL ended at once: {last_line(log_path, since=since)} (more in {log_path})."
            )
        try:
            psycopg.connect(address, connect_timeout=5).close()
        except psycopg.OperationalError as error:
            if not recovering and time.monotonic() - begun > _USUAL_SECONDS:
                recovering = True
                say("recovering the database after a sudden stop")
            elif "Peer authentication failed" in str(error):
                raise StartFailed(f"PostgreSQL refuses its own user: {error}") from error
            return False
        return True

    if not wait_until(ready, seconds=_RECOVERY_SECONDS, pause=pause):
        raise StartFailed(
            f"PostgreSQL did not answer within {_RECOVERY_SECONDS:.0f} s: see {log_path}."
        )
