"""No column of a row that is kept for ever can be changed, and no such row be removed."""

from __future__ import annotations

import pytest
from django.db import DatabaseError

from tests.database.attacks import commit, refused, rows, sqlstate, value
from tests.database.conftest import World

pytestmark = pytest.mark.django_db

# Per table, which rows can never be changed in any column.
FROZEN = {
    "agents_agentversion": "state = 'published'",
    "agents_aliasmove": "true",
    "agents_knowledgebinding": (
        "version_id IN (SELECT id FROM agents_agentversion WHERE state = 'published')"
    ),
    "agents_tool": "version_id IN (SELECT id FROM agents_agentversion WHERE state = 'published')",
    "registry_auditevent": "true",
    "registry_installation": "true",
    "retrieval_chunk": "text IS NOT NULL",
    "retrieval_documentrevision": "content IS NOT NULL",
    "retrieval_embeddingmodel": "true",
    "retrieval_evaluation": "state = 'done'",
    "retrieval_evaluationscore": "sealed",
    "retrieval_extraction": "status = 'sealed' AND segments IS NOT NULL",
    "retrieval_indexeddocument": "true",
    "retrieval_indexsnapshot": "state = 'ready'",
    "retrieval_purge": "true",
    "retrieval_queryembedding": "kept",
    "retrieval_rerankscore": "true",
    "retrieval_snapshotmember": "true",
    "retrieval_snapshotpin": "true",
    "retrieval_trace": "true",
}
# Rows that change, in columns that never do.
IDENTITY = {
    "agents_agent": {"id", "slug", "created_at"},
    "agents_agentversion": {"id", "agent_id", "created_at"},
    "agents_alias": {"id", "agent_id", "name"},
    "retrieval_document": {"id", "knowledge_base_id"},
    "retrieval_evaluation": {
        "id",
        "knowledge_base_id",
        "questions",
        "questions_digest",
        "question_count",
        "started_by",
        "created_at",
    },
    "retrieval_evaluationscore": {
        "id",
        "evaluation_id",
        "position",
        "snapshot_number",
        "snapshot_digest",
        "ranking",
        "recipe",
        "settings",
        "model_name",
        "model_fingerprint",
        "chunking",
        "document_count",
        "chunk_count",
    },
    "retrieval_extraction": {"id", "revision_id", "recipe"},
    "retrieval_indexsnapshot": {
        "id",
        "knowledge_base_id",
        "number",
        "model_id",
        "chunking",
        "content_revision",
        "started_at",
    },
    "retrieval_knowledgebase": {"id"},
}
MUTABLE_ROWS = {
    "agents_agentversion": "state = 'draft'",
    "retrieval_evaluation": "state = 'running'",
    "retrieval_evaluationscore": "NOT sealed",
    "retrieval_indexsnapshot": "state = 'building'",
}
ANOTHER = {
    "text": "{c} || 'x'",
    "character varying": "'~' || substr({c}, 2)",
    "bigint": "{c} + 1",
    "integer": "{c} + 1",
    "smallint": "{c} + 1",
    "boolean": "NOT {c}",
    "double precision": "{c} + 1",
    "uuid": "gen_random_uuid()",
    "timestamp with time zone": "{c} + interval '1 day'",
    "jsonb": "'{{\"other\": 1}}'::jsonb",
    "bytea": "'\\x00'::bytea",
    "vector": "{c} + {c}",
}
FILLED = {
    "text": "'x'",
    "character varying": "'x'",
    "bigint": "1",
    "integer": "1",
    "smallint": "1",
    "boolean": "true",
    "double precision": "1",
    "uuid": "gen_random_uuid()",
    "timestamp with time zone": "now()",
    "jsonb": "'1'::jsonb",
    "bytea": "'\\x00'::bytea",
    "vector": "'[1,0]'::vector",
}


def columns(table: str) -> dict[str, tuple[str, bool]]:
    return {
        name: (kind if kind != "USER-DEFINED" else udt, nullable == "YES")
        for name, kind, udt, nullable in rows(
            "SELECT column_name, data_type, udt_name, is_nullable "
            "FROM information_schema.columns "
            "WHERE table_schema = 'public' AND table_name = %s",
            table,
        )
    }


def changes(table: str, only: set[str] | None = None) -> list[str]:
    """Every way to set one column: to another value, to a value from null, to null."""
    found = []
    for name, (kind, nullable) in columns(table).items():
        if only is not None and name not in only:
            continue
        column = f'"{name}"'
        found.append(f"{column} = COALESCE({ANOTHER[kind].format(c=column)}, {FILLED[kind]})")
        if nullable:
            found.append(f"{column} = NULL")
    return found


def key(table: str) -> str:
    return "pk" if "pk" in columns(table) else "id"


@pytest.mark.parametrize("table", sorted(FROZEN))
def test_frozen_rows__one_column_updated__are_refused(world: World, table: str) -> None:
    one = f"{key(table)} = (SELECT {key(table)} FROM {table} WHERE {FROZEN[table]} LIMIT 1)"
    assert value(f"SELECT count(*) FROM {table} WHERE {one}") == 1
    for change in changes(table):
        with refused():
            commit(f"UPDATE {table} SET {change} WHERE {one}")


@pytest.mark.parametrize("table", sorted(IDENTITY))
def test_identity__updated_on_a_row_that_may_change__is_refused(world: World, table: str) -> None:
    where = MUTABLE_ROWS.get(table, "true")
    one = f"id = (SELECT id FROM {table} WHERE {where} LIMIT 1)"
    assert value(f"SELECT count(*) FROM {table} WHERE {one}") == 1
    for change in changes(table, IDENTITY[table]):
        with refused():
            commit(f"UPDATE {table} SET {change} WHERE {one}")


@pytest.mark.parametrize("table", sorted(set(FROZEN) - {"retrieval_trace"}))
def test_frozen_rows__deleted__are_refused(world: World, table: str) -> None:
    held = {
        "retrieval_indexsnapshot": f"id IN ({world.pinned.pk}, {world.current.pk})",
    }.get(table, FROZEN[table])
    for (identity,) in rows(f"SELECT {key(table)} FROM {table} WHERE {held}"):
        with refused():
            commit(f"DELETE FROM {table} WHERE {key(table)} = '{identity}'")


@pytest.mark.parametrize("table", sorted(set(FROZEN) | set(IDENTITY)))
@pytest.mark.parametrize("how", ["", "CASCADE", "RESTART IDENTITY CASCADE"])
def test_tables__truncated__are_refused(world: World, table: str, how: str) -> None:
    with pytest.raises(DatabaseError) as raised:
        commit(f"TRUNCATE {table} {how}")
    # Without CASCADE a foreign key refuses first where another table refers to this one.
    assert sqlstate(raised.value) in {"23001", "0A000"}
    if how:
        assert sqlstate(raised.value) == "23001"


@pytest.mark.parametrize(
    "table", ["retrieval_pendingvector", "retrieval_buildpiece", "registry_apikey"]
)
def test_free_tables__truncated_with_cascade__take_no_kept_row_along(
    world: World, table: str
) -> None:
    kept = {name: value(f"SELECT count(*) FROM {name}") for name in FROZEN}
    commit(f"TRUNCATE {table} CASCADE")
    assert {name: value(f"SELECT count(*) FROM {name}") for name in FROZEN} == kept


def test_user_accounts__truncated_with_cascade__take_no_kept_row_along(world: World) -> None:
    kept = {name: value(f"SELECT count(*) FROM {name}") for name in FROZEN}
    commit("TRUNCATE auth_user, django_content_type CASCADE")
    assert {name: value(f"SELECT count(*) FROM {name}") for name in FROZEN} == kept


def test_every_table__with_a_trigger__is_in_this_sweep(world: World) -> None:
    guarded = {
        name
        for (name,) in rows(
            "SELECT DISTINCT relname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
            "WHERE NOT tgisinternal"
        )
    }
    assert guarded == set(FROZEN) | set(IDENTITY)
