"""What an instance's PostgreSQL must contain, and who may connect to it."""

from __future__ import annotations

import os
from typing import Any

import psycopg

from registry.embedded.accounts import name_of
from registry.embedded.failure import StartFailed
from registry.embedded.instance import DATABASE, ROLES, Instance, Role


def answers(instance: Instance, role: Role = "app") -> bool:
    """Tell whether the instance's database takes connections now."""
    try:
        psycopg.connect(instance.postgres_dsn(role), connect_timeout=3).close()
    except psycopg.OperationalError:
        return False
    return True


def write_access_rules(instance: Instance) -> None:
    """Let in, by the socket alone, the users who own the instance, under any of its roles."""
    users = {name_of(os.geteuid()), name_of(instance.postgres_dir.stat().st_uid), name_of(0)}
    mapped = [f'instance "{user}" {role}\n' for user in sorted(users) for role in ROLES.values()]
    for path, text in (
        (instance.hba_path, "local all all peer map=instance\n"),
        (instance.ident_path, "".join(mapped)),
    ):
        path.write_text(text)
        path.chmod(0o644)


def set_up_database(instance: Instance) -> tuple[str, str]:
    """Make roles, database and extension where they are missing; return the two versions.

    The extension is in the template as well, since only a superuser can create it and tests make
    databases of their own. Raises StartFailed where this server cannot have the extension.
    """
    owner, app = ROLES["owner"], ROLES["app"]
    with _superuser(instance, "postgres") as connection:
        roles = {row[0] for row in connection.execute("SELECT rolname FROM pg_roles")}
        if owner not in roles:
            connection.execute(f"CREATE ROLE {owner} LOGIN CREATEDB")
        if app not in roles:
            connection.execute(f"CREATE ROLE {app} LOGIN")
    _set_up_extension(instance, "template1")
    with _superuser(instance, "postgres") as connection:
        if not connection.execute(
            "SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]
        ).fetchone():
            connection.execute(f"CREATE DATABASE {DATABASE} OWNER {owner}")
        connection.execute(f"REVOKE ALL ON DATABASE {DATABASE} FROM PUBLIC")
        connection.execute(f"GRANT CONNECT ON DATABASE {DATABASE} TO {app}")
    return _set_up_extension(instance, DATABASE)


def _set_up_extension(instance: Instance, database: str) -> tuple[str, str]:
    with _superuser(instance, database) as connection:
        try:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            connection.execute("ALTER EXTENSION vector UPDATE")
        except psycopg.errors.FeatureNotSupported as error:
            raise StartFailed(
                "The installed PostgreSQL has no pgvector: install requirements.lock again."
            ) from error
        version, pgvector = connection.execute(
            "SELECT current_setting('server_version'), extversion FROM pg_extension"
            " WHERE extname = 'vector'"
        ).fetchall()[0]
    return version, pgvector


def _superuser(instance: Instance, database: str) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(instance.postgres_dsn("superuser", database), autocommit=True)
