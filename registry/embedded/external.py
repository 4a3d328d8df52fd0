"""Say in one sentence what is wrong with a configured server, before anything depends on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import kombu
import psycopg

from registry.embedded.failure import StartFailed

MINIMUM_POSTGRES = 14
MINIMUM_PGVECTOR = (0, 8, 0)

_SECONDS = 5


def check_database(
    database: Mapping[str, Any], variable: str = "DATABASE_URL", *, will_migrate: bool = False
) -> str:
    """Return what serves the Django ``DATABASES`` entry; raises StartFailed naming ``variable``.

    Checks that it answers, its version, that pgvector is there in a version that will do and,
    for who ``will_migrate``, that it is in the database or can be put there. Changes nothing.
    """
    where = f"{database.get('HOST') or 'localhost'}:{database.get('PORT') or 5432}"
    server = f"The PostgreSQL of {variable} at {where}"
    try:
        with _connect(database) as connection:
            version = connection.info.server_version
            encoding = connection.info.parameter_status("server_encoding")
            found = connection.execute(
                "SELECT installed_version, default_version FROM pg_available_extensions"
                " WHERE name = 'vector'"
            ).fetchone()
            refusal = _refusal(connection) if will_migrate and found and not found[0] else None
    except psycopg.Error as error:
        raise StartFailed(f"{server} cannot be used: {_one_line(error)}") from error
    if version < MINIMUM_POSTGRES * 10_000:
        raise StartFailed(
            f"{server} is version {version // 10_000}; {MINIMUM_POSTGRES} or newer is needed."
        )
    if found is None:
        raise StartFailed(
            f"{server} has no pgvector: install the extension `vector`, "
            f"{_dotted(MINIMUM_PGVECTOR)} or newer, on that server."
        )
    installed, available = found
    pgvector = installed or available
    if parsed_version(pgvector) < MINIMUM_PGVECTOR:
        remedy = (
            "run ALTER EXTENSION vector UPDATE in that database"
            if installed and parsed_version(available) >= MINIMUM_PGVECTOR
            else "install a newer one on that server"
        )
        raise StartFailed(
            f"{server} has pgvector {pgvector}; {_dotted(MINIMUM_PGVECTOR)} or newer is needed: "
            f"{remedy}."
        )
    if refusal is not None:
        raise StartFailed(
            f"{server} has pgvector, but not in the database {database['NAME']}, and the role "
            f"{database['USER']} may not put it there ({refusal}): let a superuser run "
            "CREATE EXTENSION vector in that database."
        )
    if encoding != "UTF8":
        raise StartFailed(
            f"The database of {variable} at {where} has the encoding {encoding}; UTF8 is needed: "
            "make another with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0."
        )
    return f"PostgreSQL {version // 10_000}.{version % 10_000}, pgvector {pgvector} at {where}"


def check_broker(variable: str, url: str) -> str:
    """Return where the Redis or RabbitMQ at ``url`` is; raises StartFailed naming ``variable``."""
    parts = urlsplit(url)
    where = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or parts.path
    try:
        with kombu.Connection(
            url.replace("unix://", "redis+socket://", 1),
            connect_timeout=_SECONDS,
            transport_options={"socket_timeout": _SECONDS, "socket_connect_timeout": _SECONDS},
        ) as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=_SECONDS)
            connection.channel()
    except Exception as error:  # each transport has errors of its own library
        raise StartFailed(
            f"The server of {variable} at {where} cannot be used: {_one_line(error)}"
        ) from error
    return str(where)


def _connect(database: Mapping[str, Any]) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(
        host=database.get("HOST") or None,
        port=database.get("PORT") or None,
        user=database.get("USER") or None,
        password=database.get("PASSWORD") or None,
        dbname=database.get("NAME") or None,
        **{
            "client_encoding": "UTF8",
            "connect_timeout": _SECONDS,
            **database.get("OPTIONS", {}),
        },
    )


def _refusal(connection: psycopg.Connection[tuple[Any, ...]]) -> str | None:
    """Return why this role may not create the extension, None where it may.

    Tried and undone, since hosted servers have rules of their own.
    """
    try:
        with connection.transaction(force_rollback=True):
            connection.execute("CREATE EXTENSION vector")
    except psycopg.errors.InsufficientPrivilege as error:
        return str(error.diag.message_primary)
    return None


def parsed_version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version such as ``0.8.0-dev``, to compare."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if text.endswith((".", "?")) else f"{text}."
