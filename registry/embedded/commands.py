"""Give a management command the servers it needs, also where no ``up`` is running."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from registry.embedded.database import answers
from registry.embedded.failure import StartFailed
from registry.embedded.folders import prepare_folders
from registry.embedded.instance import Instance
from registry.embedded.locks import nobody_using, owner_of, try_to_own, using
from registry.embedded.postgres import start_postgres
from registry.embedded.processes import wait_until
from registry.embedded.valkey import start_valkey

# They change the schema, read all of it, or empty tables, which the serving role may not.
OWNER_COMMANDS = frozenset(
    {
        *("migrate", "flush", "pgtrigger", "createcachetable", "testserver"),
        *("rewrite_purged", "backup", "restore"),
    }
)

# They neither read nor write the database, or bring their own (`up`).
_WITHOUT_DATABASE = frozenset(
    {
        *("up", "help", "version", "check", "makemigrations", "spectacular", "prepare_models"),
        *("collectstatic", "findstatic", "compilemessages", "makemessages", "diffsettings"),
        *("startapp", "startproject", "test"),
    }
)
_WITH_VALKEY = frozenset({"runserver"})
_WAIT_SECONDS = 120.0


def needs_database(argv: list[str]) -> bool:
    """Tell whether the command line ``argv``, program name first, will use the database."""
    # Alone and last, --version is Django's question; before a value it is a command's own.
    if len(argv) < 2 or {"--help", "-h"} & set(argv[1:]) or argv[-1] == "--version":
        return False
    return argv[1] not in _WITHOUT_DATABASE and not argv[1].startswith("-")


@contextmanager
def servers_for_command(instance: Instance, command: str) -> Iterator[None]:
    """Run the block with the instance's PostgreSQL there.

    While ``up`` runs, or another command that has started the servers, this only connects.
    Otherwise it starts PostgreSQL for the block and stops it once nobody uses it any more.
    Raises StartFailed.
    """
    with ExitStack() as use:
        if os.access(instance.users_lock_path, os.W_OK):
            use.enter_context(using(instance))
            if answers(instance):
                yield
                return
            use.close()
        prepare_folders(instance)
        use.enter_context(using(instance))
        lock = _own_or_find_running(instance, command)
        if lock is None:
            yield
            return
        try:
            with ExitStack() as servers:
                if command in _WITH_VALKEY:
                    servers.callback(start_valkey(instance).stop)
                servers.callback(start_postgres(instance).stop)
                try:
                    yield
                finally:
                    use.close()
                    servers.enter_context(nobody_using(instance))
        finally:
            os.close(lock)


def _own_or_find_running(instance: Instance, command: str) -> int | None:
    """Return the owner's lock, or None once the servers of another owner answer."""
    lock: int | None = None

    def either() -> bool:
        nonlocal lock
        lock = try_to_own(instance, command)
        return lock is not None or answers(instance)

    if not wait_until(either, seconds=_WAIT_SECONDS):
        raise StartFailed(
            f"The data folder {instance.data_dir} is in use by {owner_of(instance)}, and its "
            "database does not answer: try again, or stop that process."
        )
    return lock
