"""Ways round a trigger: other statements, put-back keys, savepoints, settings, names, isolation."""

from __future__ import annotations

import psycopg
import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from retrieval.models import SnapshotMember
from tests.database.attacks import commit, copied, refused, rows, run, sqlstate, value
from tests.database.conftest import World

pytestmark = pytest.mark.django_db


def one(table: str, where: str = "true") -> int:
    found: int = value(f"SELECT id FROM {table} WHERE {where} LIMIT 1")
    return found


def member_of(snapshot_id: int) -> SnapshotMember:
    found = SnapshotMember.objects.filter(snapshot=snapshot_id).first()
    assert found is not None
    return found


# -- other statements ----------------------------------------------------------------------------


def test_upsert__of_a_stored_question__cannot_replace_its_vector(world: World) -> None:
    with refused("one vector"):
        commit(
            "INSERT INTO retrieval_queryembedding (model_id, query_digest, vector, kept, "
            "truncated, provenance, created_at) SELECT model_id, query_digest, vector + vector, "
            "true, false, '', now() FROM retrieval_queryembedding "
            "ON CONFLICT (model_id, query_digest) DO UPDATE SET vector = excluded.vector"
        )


def test_upsert__of_a_chunk_or_member__cannot_replace_it(world: World) -> None:
    member = member_of(world.pinned.pk)
    with refused("is sealed"):
        commit(
            copied("retrieval_chunk", f"indexed_document_id = {member.indexed_document_id}")
            + " ON CONFLICT (indexed_document_id, ordinal) DO UPDATE SET text = 'x'"
        )
    with refused("is sealed"):
        commit(
            copied("retrieval_snapshotmember", f"id = {member.pk}")
            + " ON CONFLICT (snapshot_id, document_id) DO UPDATE SET name = 'x'"
        )


@pytest.mark.parametrize(
    ("table", "action"),
    [
        ("agents_knowledgebinding", "UPDATE SET label = 'x'"),
        ("agents_tool", "DELETE"),
        ("retrieval_chunk", "UPDATE SET text = 'x'"),
        ("retrieval_snapshotmember", "DELETE"),
        ("retrieval_snapshotpin", "DELETE"),
        ("registry_auditevent", "UPDATE SET actor = 'x'"),
    ],
)
def test_merge__into_kept_rows__is_refused(world: World, table: str, action: str) -> None:
    key = "pk" if table.startswith("agents_") else "id"
    with refused():
        commit(
            f"MERGE INTO {table} AS t USING (SELECT {key} FROM {table}) AS s "
            f"ON t.{key} = s.{key} WHEN MATCHED THEN {action}"
        )


def test_merge__of_a_binding_into_a_published_version__is_refused(world: World) -> None:
    with refused("its version is published"):
        commit(
            "MERGE INTO agents_knowledgebinding AS t USING (SELECT gen_random_uuid() AS id) AS s "
            "ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, version_id, position, "
            "knowledge_base_id, label, instruction, enabled) VALUES (s.id, "
            f"'{world.version.pk}', 9, '{world.base.pk}', 'x', '', true)"
        )


@pytest.mark.parametrize(
    ("target", "line"),
    [
        (
            "agents_knowledgebinding (id, version_id, position, knowledge_base_id, label, "
            "instruction, enabled)",
            "11111111-1111-1111-1111-111111111111\t{version}\t9\t{base}\tx\t\tt",
        ),
        (
            "retrieval_snapshotmember (snapshot_id, indexed_document_id, document_id, name, "
            "revision_number, metadata)",
            "{snapshot}\t{indexed}\t11111111-1111-1111-1111-111111111111\tx\t1\t{{}}",
        ),
        (
            'retrieval_chunk (indexed_document_id, model_id, ordinal, start, "end", truncated, '
            "digest, text_digest, vector_digest)",
            "{indexed}\t1\t9999\t0\t1\tf\tx\tx\tx",
        ),
    ],
)
def test_copy__into_sealed_parents__is_refused(world: World, target: str, line: str) -> None:
    text = line.format(
        version=world.version.pk,
        base=world.base.pk,
        snapshot=world.pinned.pk,
        indexed=member_of(world.pinned.pk).indexed_document_id,
    )
    with refused(), transaction.atomic(), connection.cursor() as cursor:
        try:
            with cursor.cursor.copy(f"COPY {target} FROM STDIN") as copy:
                copy.write(text + "\n")
        except psycopg.Error as error:
            raise IntegrityError(str(error)) from error


def test_delete__in_a_statement_that_puts_the_row_back__is_refused(world: World) -> None:
    with refused("its version is published"):
        commit(
            "WITH gone AS (DELETE FROM agents_knowledgebinding "
            f"WHERE version_id = '{world.version.pk}' RETURNING *) "
            "INSERT INTO agents_knowledgebinding (id, version_id, position, knowledge_base_id, "
            "label, instruction, enabled) SELECT id, version_id, position, knowledge_base_id, "
            "'x', instruction, enabled FROM gone"
        )


# -- keys put back into use ----------------------------------------------------------------------


def test_unheld_snapshot__robbed_of_a_member_and_put_back__is_refused(world: World) -> None:
    gone = world.unheld.pk
    commit("CREATE TEMPORARY TABLE kept AS SELECT * FROM retrieval_indexsnapshot")
    with refused("members of an earlier snapshot"):
        commit(
            f"DELETE FROM retrieval_indexsnapshot WHERE id = {gone}",
            f"DELETE FROM retrieval_snapshotmember WHERE id = {member_of(gone).pk}",
            "UPDATE kept SET state = 'building', number = 3",
            f"INSERT INTO retrieval_indexsnapshot SELECT * FROM kept WHERE id = {gone}",
        )


def test_unheld_document__robbed_of_a_chunk_and_put_back__is_refused(world: World) -> None:
    commit("CREATE TEMPORARY TABLE kept AS SELECT * FROM retrieval_indexeddocument")
    only_here = value(
        "SELECT indexed_document_id FROM retrieval_snapshotmember GROUP BY 1 "
        "HAVING bool_and(snapshot_id = %s) LIMIT 1",
        world.unheld.pk,
    )
    with refused("chunks of an earlier one"):
        commit(
            f"DELETE FROM retrieval_indexsnapshot WHERE id = {world.unheld.pk}",
            f"DELETE FROM retrieval_snapshotmember WHERE snapshot_id = {world.unheld.pk}",
            f"DELETE FROM retrieval_indexeddocument WHERE id = {only_here}",
            "DELETE FROM retrieval_chunk WHERE id = (SELECT max(id) FROM retrieval_chunk "
            f"WHERE indexed_document_id = {only_here})",
            "UPDATE kept SET sealed = false",
            f"INSERT INTO retrieval_indexeddocument SELECT * FROM kept WHERE id = {only_here}",
        )


def test_knowledge_base__put_back_to_forget_its_current_snapshot__is_refused(world: World) -> None:
    commit(
        "CREATE TEMPORARY TABLE kept AS SELECT * FROM retrieval_knowledgebase "
        f"WHERE id = '{world.other.pk}'",
        "UPDATE kept SET current_snapshot_id = NULL",
    )
    with refused("parts of an earlier knowledge base"):
        commit(
            f"DELETE FROM retrieval_knowledgebase WHERE id = '{world.other.pk}'",
            "INSERT INTO retrieval_knowledgebase SELECT * FROM kept",
        )


def test_document__put_back_with_other_bytes_under_its_revision__is_refused(world: World) -> None:
    """A document that was not read yet may go, but then with all that it was."""
    commit("CREATE TEMPORARY TABLE kept AS SELECT * FROM retrieval_document WHERE name = 'most.md'")
    unread = value("SELECT id FROM kept")
    with refused("revisions of an earlier document"):
        commit(
            f"DELETE FROM retrieval_buildpiece WHERE document_id = '{unread}'",
            f"UPDATE retrieval_document SET deleted_at = now() WHERE id = '{unread}'",
            f"DELETE FROM retrieval_document WHERE id = '{unread}'",
            "INSERT INTO retrieval_document SELECT * FROM kept",
        )


def test_primary_keys__of_two_snapshots_swapped__are_refused(world: World) -> None:
    with refused("never changes"):
        commit(
            "SET CONSTRAINTS ALL DEFERRED",
            f"UPDATE retrieval_indexsnapshot SET id = -1 WHERE id = {world.pinned.pk}",
            f"UPDATE retrieval_indexsnapshot SET id = {world.pinned.pk} "
            f"WHERE id = {world.unheld.pk}",
        )


# -- savepoints ----------------------------------------------------------------------------------


def test_refusal__caught_at_a_savepoint__leaves_nothing_behind(world: World) -> None:
    before = rows("SELECT label FROM agents_knowledgebinding ORDER BY pk")
    with transaction.atomic():
        for attempt in range(3):
            with refused("its version is published"), transaction.atomic():
                run(
                    f"UPDATE agents_knowledgebinding SET label = 'x{attempt}' "
                    f"WHERE version_id = '{world.draft.pk}'",
                    "UPDATE agents_knowledgebinding SET label = 'x' "
                    f"WHERE version_id = '{world.version.pk}'",
                )
    assert rows("SELECT label FROM agents_knowledgebinding ORDER BY pk") == before


def test_publishing__rolled_back_to_a_savepoint__leaves_the_draft_editable(world: World) -> None:
    point = transaction.savepoint()
    run(
        f"DELETE FROM agents_knowledgebinding WHERE version_id = '{world.draft.pk}'",
        f"DELETE FROM agents_tool WHERE version_id = '{world.draft.pk}'",
        "UPDATE agents_agentversion SET state = 'published', number = 2, manifest = '{}', "
        f"digest = 'sha256:0', published_at = now() WHERE id = '{world.draft.pk}'",
    )
    with refused("never changes"), transaction.atomic():
        run(f"UPDATE agents_agentversion SET prompt = 'x' WHERE id = '{world.draft.pk}'")
    transaction.savepoint_rollback(point)
    commit(f"UPDATE agents_agentversion SET prompt = 'x' WHERE id = '{world.draft.pk}'")


# -- settings and names --------------------------------------------------------------------------


@pytest.fixture
def attack() -> str:
    return "UPDATE agents_agentversion SET prompt = 'x' WHERE state = 'published'"


def test_triggers__told_to_be_ignored__are_not(world: World, attack: str) -> None:
    names = [name for (name,) in rows("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal")]
    run(("SELECT set_config('pgtrigger.ignore', %s, true)", ["{" + ",".join(names) + "}"]))
    with refused("never changes"):
        commit(attack)


def test_triggers__switched_to_replica_by_the_owner__is_denied(world: World, attack: str) -> None:
    with pytest.raises(DatabaseError) as raised:
        commit("SET session_replication_role = replica", attack)
    assert sqlstate(raised.value) == "42501"


def test_temporary_table__named_like_the_parents__is_not_asked(world: World) -> None:
    commit(
        "CREATE TEMPORARY TABLE agents_agentversion AS "
        "SELECT id, 'draft'::text AS state FROM public.agents_agentversion"
    )
    with refused("its version is published"):
        commit(
            "UPDATE agents_knowledgebinding SET label = 'x' "
            f"WHERE version_id = '{world.version.pk}'"
        )


def test_temporary_table__named_like_the_purges__gives_no_permission(world: World) -> None:
    commit(
        "CREATE TEMPORARY TABLE retrieval_purge AS SELECT id AS revision_id, "
        "pg_current_xact_id()::text::bigint AS transaction_id FROM retrieval_documentrevision",
    )
    with refused("a revision never changes"):
        commit("UPDATE retrieval_documentrevision SET content = NULL, notice = ''")


def test_search_path__leading_elsewhere__changes_nothing(world: World) -> None:
    indexed = member_of(world.pinned.pk).indexed_document_id
    run("SET LOCAL search_path = pg_temp, public")
    commit("CREATE TEMPORARY TABLE retrieval_indexsnapshot (id bigint, state text)")
    with refused("is sealed"):
        commit(
            "INSERT INTO public.retrieval_snapshotmember (snapshot_id, indexed_document_id, "
            f"document_id, name, revision_number, metadata) VALUES ({world.pinned.pk}, "
            f"{indexed}, gen_random_uuid(), 'x', 1, '{{}}')"
        )
