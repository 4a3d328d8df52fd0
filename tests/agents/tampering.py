"""Changing rows below the triggers, as a broken disk would."""

from __future__ import annotations

from django.db import connection


def tamper(table: str, assignment: str) -> None:
    """Update exactly one row of ``table`` with its triggers switched off."""
    with connection.cursor() as cursor:
        # No event may be pending when a trigger is switched.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        cursor.execute(f"UPDATE {table} SET {assignment}")
        assert cursor.rowcount == 1, f"{table}: {cursor.rowcount} rows"
        cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
