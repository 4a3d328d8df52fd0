"""What the serving role may do: read and write rows, own nothing, truncate nothing."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import connections


def grant_app_role(*, using: str, **_: Any) -> None:
    """Grant the serving role its rights after each migration, where that role exists."""
    role = settings.DATABASE_APP_ROLE
    with connections[using].cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM pg_roles WHERE rolname = %s AND rolname <> current_user", [role]
        )
        if cursor.fetchone() is None:
            return
        name = connections[using].ops.quote_name(role)
        for statement in (
            f"GRANT USAGE ON SCHEMA public TO {name}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {name}",
            f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {name}",
        ):
            cursor.execute(statement)
