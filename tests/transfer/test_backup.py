"""A dump, restored into a new database, is the same installation: answers, triggers, roles."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from registry.embedded.instance import ROLES
from registry.installation import installation_id
from tests import builders
from tests.database.attacks import commit, purge, refused, rows
from tests.servers import INSTANCE
from tests.transfer.conftest import administer, database
from tests.transfer.world import World, answers, change_everything, make_world

pytestmark = pytest.mark.django_db(transaction=True)

_numbers = itertools.count(1)
_DEFINITIONS = (
    "SELECT c.relname, t.tgname, pg_get_triggerdef(t.oid), pg_get_functiondef(t.tgfoid), "
    "t.tgenabled, obj_description(t.oid, 'pg_trigger') FROM pg_trigger AS t "
    "JOIN pg_class AS c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal ORDER BY 1, 2"
)
_CONSTRAINTS = (
    # Not the text of a check: PostgreSQL writes the same one otherwise after it was read again.
    "SELECT conrelid::regclass::text, conname, contype, condeferrable, condeferred, convalidated, "
    "CASE contype WHEN 'c' THEN '' ELSE pg_get_constraintdef(oid) END FROM pg_constraint "
    "WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2"
)
_INDEXES = "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2"


@pytest.fixture
def new_database() -> Iterator[str]:
    """The name of a database with the extension and nothing else, as a new server has it."""
    name = f"{connection.settings_dict['NAME']}_restored_{next(_numbers)}"
    administer(f'CREATE DATABASE "{name}" OWNER {ROLES["owner"]}')
    yield name
    connection.close()
    administer(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def backed_up(transactional_db: None) -> World:
    return make_world()


def described() -> dict[str, list[tuple[Any, ...]]]:
    return {
        "triggers": rows(_DEFINITIONS),
        "constraints": rows(_CONSTRAINTS),
        "indexes": rows(_INDEXES),
    }


def test_backup__restored_into_a_new_database__is_the_same_installation(
    backed_up: World, new_database: str, tmp_path: Path
) -> None:
    before = answers()
    change_everything(backed_up)
    builders.publish(backed_up.agent)
    commit(*purge(backed_up.document("warranty.md").revisions.get().pk))
    purged, later = answers(), answers(number=2)
    assert purged != before
    there, here = described(), installation_id()
    assert len(there["triggers"]) > 40
    file = tmp_path / "registry.dump"

    call_command("backup", str(file), stdout=StringIO())

    assert file.stat().st_mode & 0o777 == 0o600
    with database(new_database):
        call_command("restore", str(file), stdout=StringIO())
        assert described() == there
        assert installation_id() == here
        verified = StringIO()
        call_command("verify", "--all", stdout=verified)
        assert "2 versions verified, 0 differ" in verified.getvalue()
        assert (answers(), answers(number=2)) == (purged, later)
        # Work goes on: numbers, identities and revisions count from where they were.
        builders.edit(backed_up.agent, prompt="After the restore.")
        assert builders.publish(backed_up.agent, accept_outdated=True).number == 3
        builders.add_text(backed_up.returns, "more.md", "# More\n\nAfter the restore.")
        builders.build(backed_up.returns)
        with refused("a published version never changes"):
            commit("UPDATE agents_agentversion SET prompt = 'x' WHERE number = 1")


def test_backup__restored__gives_the_serving_role_rows_and_no_more(
    backed_up: World, new_database: str, tmp_path: Path
) -> None:
    file = tmp_path / "registry.dump"
    call_command("backup", str(file), stdout=StringIO())
    with database(new_database):
        call_command("restore", str(file), stdout=StringIO())
    administer(f'GRANT CONNECT ON DATABASE "{new_database}" TO {ROLES["app"]}')
    with psycopg.connect(INSTANCE.postgres_dsn("app", new_database), autocommit=True) as session:
        count = session.execute("SELECT count(*) FROM retrieval_chunk").fetchone()
        assert count is not None
        assert count[0] > 0
        session.execute("UPDATE agents_agent SET name = 'other'")
        for statement in (
            "TRUNCATE retrieval_trace",
            "ALTER TABLE retrieval_chunk DISABLE TRIGGER USER",
            "DROP TABLE retrieval_trace",
            "CREATE TABLE public.mine (id int)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute(statement)


def test_restore__into_a_database_that_has_something__is_refused(
    backed_up: World, tmp_path: Path
) -> None:
    before = answers()
    file = tmp_path / "registry.dump"
    call_command("backup", str(file), stdout=StringIO())
    with pytest.raises(CommandError, match="tables already"):
        call_command("restore", str(file))
    assert answers() == before


def test_restore__of_a_damaged_file__leaves_an_empty_database(
    backed_up: World, new_database: str, tmp_path: Path
) -> None:
    file = tmp_path / "registry.dump"
    call_command("backup", str(file), stdout=StringIO())
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) * 2 // 3], b"no dump", b""):
        file.write_bytes(damaged)
        with database(new_database):
            with pytest.raises(CommandError, match="pg_restore"):
                call_command("restore", str(file))
            assert rows("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]


def test_restore__of_a_later_versions_backup__is_refused_whole_by_name(
    backed_up: World, new_database: str, tmp_path: Path
) -> None:
    later, other = tmp_path / "later.dump", tmp_path / "other.dump"
    commit(
        "INSERT INTO django_migrations (app, name, applied) "
        "VALUES ('retrieval', '9999_later', now())"
    )
    try:
        call_command("backup", str(later), stdout=StringIO())
    finally:
        commit("DELETE FROM django_migrations WHERE name = '9999_later'")
    commit("UPDATE django_migrations SET app = 'x' || app")
    try:
        call_command("backup", str(other), stdout=StringIO())
    finally:
        commit("UPDATE django_migrations SET app = substr(app, 2)")

    with database(new_database):
        for file, said in (
            (later, r"later version .* retrieval\.9999_later"),
            (other, "no backup"),
        ):
            with pytest.raises(CommandError, match=said):
                call_command("restore", str(file))
            assert rows("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]


def test_backup__to_a_file_that_exists__leaves_it_alone(tmp_path: Path) -> None:
    file = tmp_path / "registry.dump"
    file.write_text("mine")
    with pytest.raises(CommandError, match="exists already"):
        call_command("backup", str(file))
    with pytest.raises(CommandError, match="cannot be written"):
        call_command("backup", str(tmp_path / "none" / "registry.dump"))
    assert file.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["registry.dump"]
