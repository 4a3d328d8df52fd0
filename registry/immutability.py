"""Triggers that make a wrong state impossible, whoever writes SQL, the tables' owner included.

Each immutable table declares its triggers in ``Meta.triggers`` with these builders; they are
migrated like indexes. A refusal is SQLSTATE 23001 (restrict_violation), which Django raises as
``IntegrityError``, with a message that starts with ``immutable:``.

Two shapes recur. A row that *seals* (an extraction, a snapshot, a version) may be changed until
then and never after. A row that *belongs* to such a parent (a chunk, a member, a binding) looks at
its parent, before and after the change, and locks it ``FOR SHARE`` while it looks, so that sealing
and writing cannot pass each other.
"""

from __future__ import annotations

import pgtrigger

REFUSED = "restrict_violation"


def raise_refusal(sentence: str) -> str:
    """Return the PL/pgSQL statement that refuses with ``sentence``."""
    quoted = sentence.replace("'", "''")
    return (
        f"RAISE EXCEPTION USING ERRCODE = '{REFUSED}', "
        f"MESSAGE = 'immutable: ' || TG_TABLE_NAME || ': {quoted}';"
    )


def refuse(name: str, operation: pgtrigger.Operation, sentence: str) -> pgtrigger.Trigger:
    """Refuse ``operation`` on every row, always."""
    return pgtrigger.Trigger(
        name=name, when=pgtrigger.Before, operation=operation, func=raise_refusal(sentence)
    )


def refuse_truncate() -> pgtrigger.Trigger:
    """Refuse TRUNCATE, also when it cascades from another table."""
    return pgtrigger.Trigger(
        name="no_truncate",
        level=pgtrigger.Statement,
        when=pgtrigger.Before,
        operation=pgtrigger.Truncate,
        func=raise_refusal("TRUNCATE would remove rows that are kept for ever"),
    )


def insert_only(sentence: str) -> list[pgtrigger.Trigger]:
    """Allow INSERT and nothing else."""
    return [
        refuse("insert_only", pgtrigger.Update | pgtrigger.Delete, sentence),
        refuse_truncate(),
    ]


def guard(
    name: str,
    operation: pgtrigger.Operation,
    body: str,
    *,
    declare: list[tuple[str, str]] | None = None,
) -> pgtrigger.Trigger:
    """Run ``body`` (PL/pgSQL) before each row; it refuses or falls through to the write."""
    return pgtrigger.Trigger(
        name=name,
        when=pgtrigger.Before,
        operation=operation,
        declare=declare,
        func=f"""
        {body}
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        END IF;
        RETURN NEW;
        """,
    )


def unchanged(*columns: str) -> str:
    """Return the SQL condition that none of ``columns`` differs between OLD and NEW."""
    return "(" + " AND ".join(f"NEW.{c} IS NOT DISTINCT FROM OLD.{c}" for c in columns) + ")"


def parent_must_be_gone(fk: str, parent_table: str, sentence: str) -> pgtrigger.Trigger:
    """Allow DELETE of a row only after its parent was deleted in the same transaction.

    Foreign keys are deferred, so the parent goes first and its own trigger decides; a part can
    therefore never be taken out of a whole that stays.
    """
    return guard(
        "parent_gone",
        pgtrigger.Delete,
        f"""
        IF EXISTS (SELECT 1 FROM {parent_table} WHERE id = OLD.{fk}) THEN
            {raise_refusal(sentence)}
        END IF;
        """,
    )
