"""An installation of its own for a benchmark: PostgreSQL and Valkey in a new data folder."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def installation(**postgres: str) -> Iterator[Path]:
    """Start the servers and Django, bring the database up to date; remove all of it afterwards.

    ``postgres`` are settings of the server: ``shared_buffers="2GB"``. Yields the folder of it all.
    """
    folder = Path(tempfile.mkdtemp(prefix="registry-bench-"))
    folder.chmod(0o711)
    os.environ["DATA_DIR"] = str(folder / "data")
    os.environ["DATABASE_ROLE"] = "owner"
    os.environ["LOG_LEVEL"] = "ERROR"
    os.environ["SECRET_KEY"] = "a secret of the benchmark"
    os.environ["DJANGO_SETTINGS_MODULE"] = "registry.settings"
    os.environ["PYTHONPATH"] = str(ROOT)
    sys.path.insert(0, str(ROOT))
    import django

    from registry.embedded.instance import Instance
    from registry.embedded.postgres import start_postgres
    from registry.embedded.valkey import start_valkey

    instance = Instance(folder / "data")
    servers: list[Any] = []
    try:
        servers.append(start_postgres(instance))
        if postgres:
            _set(instance.postgres_dsn("superuser"), postgres)
            servers.pop().stop()
            servers.append(start_postgres(instance))
        servers.append(start_valkey(instance))
        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        yield folder
    finally:
        while servers:
            servers.pop().stop()
        shutil.rmtree(folder, ignore_errors=True)


def _set(dsn: str, values: Mapping[str, str]) -> None:
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as session:
        for name, value in values.items():
            session.execute(f"ALTER SYSTEM SET {name} = '{value}'")
