"""Triggers that make a wrong state impossible, whoever writes SQL, the tables' owner included.

Each immutable table declares its triggers in ``Meta.triggers`` with these builders; they are
migrated like indexes. A refusal is SQLSTATE 23001 (restrict_violation), which Django raises as
``IntegrityError``, with a message that starts with ``immutable:``.

Two shapes recur. A row that *seals* (an extraction, a snapshot, a version) may be changed until
then and never after. A row that *belongs* to such a parent (a chunk, a member, a binding) looks at
its parent, before and after the change, and locks it ``FOR SHARE`` while it looks, so that sealing
and writing cannot pass each other.

No session can talk a trigger out of its work: unlike the library's own, these ignore the setting
``pgtrigger.ignore``, and they look tables up in the schema ``public`` alone, so that a temporary
table of the same name is not taken for the real one.
"""

from __future__ import annotations

import pgtrigger
from django.db import models
from pgtrigger import compiler

REFUSED = "restrict_violation"


class TriggerSql(compiler.UpsertTriggerSql):
    """How a trigger is installed. Migrations refer to it: a change makes a new migration."""

    def get_template(self) -> str:
        return """
            CREATE OR REPLACE FUNCTION {pgid}()
            RETURNS TRIGGER AS $$
                {declare}
                BEGIN
                    {func}
                END;
            $$ LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp;

            DROP TRIGGER IF EXISTS {pgid} ON {table};
            CREATE {constraint} TRIGGER {pgid}
                {when} {operation} ON {table}
                {timing}
                {referencing}
                FOR EACH {level} {condition}
                EXECUTE PROCEDURE {execute};

            COMMENT ON TRIGGER {pgid} ON {table} IS '{hash}';
        """


class Trigger(pgtrigger.Trigger):
    """A trigger that nothing but DDL of the tables' owner can switch off."""

    def compile(self, model: type[models.Model]) -> compiler.Trigger:  # type: ignore[override]
        installed = super().compile(model)  # type: ignore[arg-type]
        arguments = {
            key: value for key, value in installed.sql.kwargs.items() if key != "ignore_func_name"
        }
        return compiler.Trigger(name=installed.name, sql=TriggerSql(**arguments))


def raise_refusal(sentence: str) -> str:
    """Return the PL/pgSQL statement that refuses with ``sentence``."""
    quoted = sentence.replace("'", "''")
    return (
        f"RAISE EXCEPTION USING ERRCODE = '{REFUSED}', "
        f"MESSAGE = 'immutable: ' || TG_TABLE_NAME || ': {quoted}';"
    )


def refuse(name: str, operation: pgtrigger.Operation, sentence: str) -> pgtrigger.Trigger:
    """Refuse ``operation`` on every row, always."""
    return Trigger(
        name=name, when=pgtrigger.Before, operation=operation, func=raise_refusal(sentence)
    )


def refuse_truncate() -> pgtrigger.Trigger:
    """Refuse TRUNCATE, also when it cascades from another table."""
    return Trigger(
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
    return Trigger(
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


def comes_without_parts(sentence: str, *parts: tuple[str, str]) -> pgtrigger.Trigger:
    """Refuse INSERT of a whole while parts of an earlier one with its key are left.

    ``parts`` are (table, foreign key column). Without it a whole could be deleted, robbed of a
    part and put back under the same key in one transaction.
    """
    return guard(
        "comes_without_parts",
        pgtrigger.Insert,
        "".join(
            f"""
            IF EXISTS (SELECT 1 FROM {table} WHERE {fk} = NEW.id) THEN
                {raise_refusal(sentence)}
            END IF;
            """
            for table, fk in parts
        ),
    )


def at_commit(name: str, operation: pgtrigger.Operation, body: str) -> pgtrigger.Trigger:
    """Run ``body`` for each row when its transaction commits; it refuses or falls through."""
    return Trigger(
        name=name,
        when=pgtrigger.After,
        operation=operation,
        timing=pgtrigger.Deferred,
        func=f"{body} RETURN NULL;",
    )
