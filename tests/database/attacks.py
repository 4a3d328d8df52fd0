"""Attacks in plain SQL by the tables' owner, and how they must end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

REFUSED = "23001"

Statement = str | tuple[str, Sequence[Any]]


def run(*statements: Statement) -> None:
    """Run statements one after the other."""
    with connection.cursor() as cursor:
        for statement in statements:
            text, values = (statement, None) if isinstance(statement, str) else statement
            cursor.execute(text, values)


def commit(*statements: Statement) -> None:
    """Run statements as one transaction would, with everything that is checked at its end."""
    with transaction.atomic():
        run(*statements, "SET CONSTRAINTS ALL IMMEDIATE", "SET CONSTRAINTS ALL DEFERRED")


def rows(statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return found


def value(statement: str, *values: Any) -> Any:
    return rows(statement, *values)[0][0]


@contextmanager
def refused(sentence: str = "") -> Iterator[None]:
    """Expect a trigger's refusal that says ``sentence``, and nothing changed."""
    with pytest.raises(IntegrityError, match=f"immutable: .*{sentence}") as raised:
        yield
    assert sqlstate(raised.value) == REFUSED


@contextmanager
def breaks_a_constraint() -> Iterator[None]:
    """Expect a unique, check or foreign key constraint to refuse."""
    with pytest.raises(IntegrityError) as raised:
        yield
    assert sqlstate(raised.value) in {"23503", "23505", "23514"}


def sqlstate(error: DatabaseError) -> str | None:
    return getattr(error.__cause__, "sqlstate", None)


def copied(table: str, where: str, **changes: str) -> str:
    """An INSERT of the row at ``where`` again, with some columns by another SQL expression."""
    columns = [
        name
        for (name,) in rows(
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_schema = 'public' AND table_name = %s ORDER BY ordinal_position",
            table,
        )
        if name in changes or name not in {"id", "pk"} or _is_uuid(table, name)
    ]
    wanted = [changes.get(name, f'"{name}"') for name in columns]
    names = ", ".join(f'"{name}"' for name in columns)
    return f"INSERT INTO {table} ({names}) SELECT {', '.join(wanted)} FROM {table} WHERE {where}"


def _is_uuid(table: str, column: str) -> bool:
    return bool(
        value(
            "SELECT data_type = 'uuid' FROM information_schema.columns "
            "WHERE table_schema = 'public' AND table_name = %s AND column_name = %s",
            table,
            column,
        )
    )


def purge(revision_id: int) -> list[Statement]:
    """What a whole, allowed purge of one revision does."""
    extractions = f"SELECT id FROM retrieval_extraction WHERE revision_id = {revision_id}"
    return [
        "INSERT INTO retrieval_purge (revision_id, reason, actor, at, transaction_id) "
        f"VALUES ({revision_id}, 'asked for by law', 'tests', now(), 0)",
        "UPDATE retrieval_documentrevision SET content = NULL, notice = '' "
        f"WHERE id = {revision_id}",
        "UPDATE retrieval_extraction SET segments = NULL, notices = '[]' "
        f"WHERE id IN ({extractions})",
        "UPDATE retrieval_chunk SET text = NULL, section = NULL, vector = NULL "
        "WHERE indexed_document_id IN (SELECT id FROM retrieval_indexeddocument "
        f"WHERE extraction_id IN ({extractions}))",
    ]
