"""The role that serves owns nothing, and has no way past the triggers; it can do all its work."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from django.apps import apps
from django.db import connection

from agents.tools import call_tool
from agents.versions import runnable
from registry.embedded.instance import DATABASE, ROLES
from retrieval.documents import delete_document
from retrieval.knowledge_bases import delete_knowledge_base
from retrieval.models import DocumentRevision, KnowledgeBase
from retrieval.questions import Question
from tests import builders
from tests.database.attacks import commit, purge, refused, rows, value
from tests.database.conftest import make_world
from tests.servers import INSTANCE


@pytest.fixture
def serving(transactional_db: None) -> Iterator[None]:
    """This test's connection, as the role that serves."""
    owner = connection.settings_dict["USER"]
    connection.close()
    connection.settings_dict["USER"] = ROLES["app"]
    yield
    connection.close()
    connection.settings_dict["USER"] = owner


@pytest.fixture
def session(db: None) -> Iterator[psycopg.Connection]:
    """A session of the serving role beside the test's own; nothing in it is committed."""
    name = connection.settings_dict["NAME"]
    with psycopg.connect(INSTANCE.postgres_dsn("app", name), autocommit=True) as opened:
        opened.execute("SET lock_timeout = '5s'")
        yield opened


@pytest.mark.django_db
def test_serving_role__looked_up__owns_nothing_and_is_member_of_nothing() -> None:
    assert (
        rows(
            "SELECT c.relname FROM pg_class AS c JOIN pg_roles AS r ON r.oid = c.relowner "
            "WHERE r.rolname = %s UNION ALL "
            "SELECT p.proname FROM pg_proc AS p JOIN pg_roles AS r ON r.oid = p.proowner "
            "WHERE r.rolname = %s",
            ROLES["app"],
            ROLES["app"],
        )
        == []
    )
    assert rows(
        "SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls, "
        "(SELECT count(*) FROM pg_auth_members WHERE member = r.oid) "
        "FROM pg_roles AS r WHERE rolname = %s",
        ROLES["app"],
    ) == [(False, False, False, False, False, 0)]


@pytest.mark.django_db
def test_serving_role__on_every_table__may_write_rows_and_no_more() -> None:
    for model in apps.get_models(include_auto_created=True):
        table = model._meta.db_table
        for right in ("SELECT", "INSERT", "UPDATE", "DELETE"):
            assert value("SELECT has_table_privilege(%s, %s, %s)", ROLES["app"], table, right)
        for right in ("TRUNCATE", "REFERENCES", "TRIGGER"):
            assert not value("SELECT has_table_privilege(%s, %s, %s)", ROLES["app"], table, right)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE agents_agentversion CASCADE",
        "TRUNCATE retrieval_pendingvector",
        "ALTER TABLE agents_agentversion DISABLE TRIGGER USER",
        "ALTER TABLE retrieval_chunk DISABLE TRIGGER ALL",
        "DROP TRIGGER pgtrigger_no_truncate_8d76d ON retrieval_snapshotpin",
        "DROP TABLE retrieval_purge CASCADE",
        "ALTER TABLE retrieval_chunk ADD COLUMN x int",
        "ALTER TABLE retrieval_chunk OWNER TO registry_app",
        "CREATE RULE quietly AS ON DELETE TO retrieval_snapshotpin DO INSTEAD NOTHING",
        "CREATE TABLE public.mine (id int)",
        "CREATE SCHEMA mine",
        "CREATE FUNCTION public.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "SET session_replication_role = replica",
        f"SET ROLE {ROLES['owner']}",
        "SET SESSION AUTHORIZATION postgres",
        "ALTER ROLE registry_app SUPERUSER",
        f"GRANT TRUNCATE ON retrieval_chunk TO {ROLES['app']}",
    ],
)
def test_serving_role__statement_beyond_rows__is_denied(
    session: psycopg.Connection, statement: str
) -> None:
    if statement.startswith("GRANT"):
        # PostgreSQL only warns; the right is not given.
        session.execute(statement)
        assert session.execute(
            "SELECT has_table_privilege(current_user, 'retrieval_chunk', 'TRUNCATE')"
        ).fetchone() == (False,)
        return
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute(statement)


@pytest.mark.django_db
def test_serving_role__on_the_instances_database__may_not_make_temporary_tables() -> None:
    with psycopg.connect(INSTANCE.postgres_dsn("app", DATABASE), autocommit=True) as opened:
        for statement in ("CREATE TEMPORARY TABLE mine (id int)", "CREATE SCHEMA mine"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                opened.execute(statement)


@pytest.mark.django_db(transaction=True)
def test_serving_role__past_the_triggers__is_refused_like_the_owner(serving: None) -> None:
    world = make_world()
    names = [name for (name,) in rows("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal")]
    attacks = [
        f"UPDATE agents_knowledgebinding SET label = 'x' WHERE version_id = '{world.version.pk}'",
        f"DELETE FROM retrieval_indexsnapshot WHERE id = {world.pinned.pk}",
        "UPDATE retrieval_chunk SET text = 'x'",
        "DELETE FROM registry_auditevent",
    ]
    for attack in attacks:
        with refused():
            commit(
                ("SELECT set_config('pgtrigger.ignore', %s, true)", ["{" + ",".join(names) + "}"]),
                attack,
            )


@pytest.mark.django_db(transaction=True)
def test_serving_role__in_every_use_case__has_the_rights_it_needs(serving: None) -> None:
    assert value("SELECT current_user") == ROLES["app"]
    base = builders.base_with("Returns")
    agent, version = builders.published(base, slug="support")
    answer = call_tool(
        version=runnable(agent, version),
        name="search",
        question=Question(query="How long do I have to send it back?"),
        access=builders.ACCESS,
    )
    assert answer["results"]
    spare = builders.base_with("Spare", secret_md="# Name\n\nMrs Example lives here.")
    document = spare.documents.get()
    commit(*purge(DocumentRevision.objects.get(document=document).pk))
    delete_document(actor=builders.ACTOR, base=spare, document_id=document.pk)
    builders.build(spare)
    delete_knowledge_base(actor=builders.ACTOR, knowledge_base_id=spare.pk)
    assert list(KnowledgeBase.objects.all()) == [base]
