"""Nothing gets into a published version, out of it, or from one version into another."""

from __future__ import annotations

import uuid

import pytest

from tests.database.attacks import (
    breaks_a_constraint,
    commit,
    copied,
    refused,
    rows,
    value,
)
from tests.database.conftest import World

pytestmark = pytest.mark.django_db

PARTS = ["agents_knowledgebinding", "agents_tool"]
DRAFTED = ", manifest = '{}', digest = 'sha256:0', published_at = now()"


@pytest.mark.parametrize("table", PARTS)
def test_part__inserted_into_a_published_version__is_refused(world: World, table: str) -> None:
    statement = copied(
        table,
        f"version_id = '{world.version.pk}'",
        id="gen_random_uuid()",
        position="9",
        **({"name": "'another'"} if table == "agents_tool" else {}),
    )
    with refused("its version is published"):
        commit(statement)


@pytest.mark.parametrize("table", PARTS)
def test_part__moved_out_of_a_published_version__is_refused(world: World, table: str) -> None:
    commit(f"DELETE FROM {table} WHERE version_id = '{world.draft.pk}'")
    with refused("its version is published"):
        commit(
            f"UPDATE {table} SET version_id = '{world.draft.pk}' "
            f"WHERE version_id = '{world.version.pk}'"
        )


@pytest.mark.parametrize("table", PARTS)
def test_part__moved_into_a_published_version__is_refused(world: World, table: str) -> None:
    with refused("its version is published"):
        commit(
            f"UPDATE {table} SET version_id = '{world.version.pk}', id = gen_random_uuid(), "
            f"position = 9 WHERE version_id = '{world.draft.pk}'"
        )


@pytest.mark.parametrize("table", PARTS)
def test_parts__swapped_between_draft_and_version__are_refused(world: World, table: str) -> None:
    with refused("its version is published"):
        commit(
            f"UPDATE {table} SET version_id = CASE version_id WHEN '{world.draft.pk}' "
            f"THEN '{world.version.pk}'::uuid ELSE '{world.draft.pk}'::uuid END "
            f"WHERE version_id IN ('{world.draft.pk}', '{world.version.pk}')"
        )


@pytest.mark.parametrize("table", PARTS)
def test_part__of_a_draft_with_a_foreign_primary_key__cannot_replace_a_published_one(
    world: World, table: str
) -> None:
    published = value(f"SELECT pk FROM {table} WHERE version_id = %s", world.version.pk)
    with breaks_a_constraint():
        commit(f"UPDATE {table} SET pk = {published} WHERE version_id = '{world.draft.pk}'")
    with refused("its version is published"):
        commit(
            f"DELETE FROM {table} WHERE pk = {published}",
            f"UPDATE {table} SET pk = {published} WHERE version_id = '{world.draft.pk}'",
        )


@pytest.mark.parametrize("table", PARTS)
def test_part__positions_swapped_under_deferred_constraints__is_refused(
    world: World, table: str
) -> None:
    with refused("its version is published"):
        commit(
            "SET CONSTRAINTS ALL DEFERRED",
            f"UPDATE {table} SET position = 1 - position WHERE version_id = '{world.version.pk}'",
        )


def test_version__inserted_as_published__is_refused(world: World) -> None:
    with refused("never inserted"):
        commit(
            copied(
                "agents_agentversion",
                f"id = '{world.version.pk}'",
                id="gen_random_uuid()",
                number="2",
            )
        )


def test_version__turned_back_into_the_draft__is_refused(world: World) -> None:
    with refused("never changes"):
        commit(
            "UPDATE agents_agentversion SET state = 'draft', number = NULL, "
            f"published_at = NULL, manifest = '', digest = '' WHERE id = '{world.version.pk}'"
        )


def test_version__deleted_with_all_its_parts__is_refused(world: World) -> None:
    with refused("stay with their agent"):
        commit(
            "SET CONSTRAINTS ALL DEFERRED",
            f"DELETE FROM agents_agentversion WHERE id = '{world.version.pk}'",
            f"DELETE FROM agents_knowledgebinding WHERE version_id = '{world.version.pk}'",
        )


@pytest.mark.parametrize("number", [0, 1, 3])
def test_draft__published_under_another_number_than_the_next__is_refused(
    world: World, number: int
) -> None:
    with refused("numbered without gaps"):
        commit(
            f"UPDATE agents_agentversion SET state = 'published', number = {number}{DRAFTED} "
            f"WHERE id = '{world.draft.pk}'"
        )


def test_draft__published_without_pins__is_refused(world: World) -> None:
    with refused("pins a snapshot of each"):
        commit(
            f"UPDATE agents_agentversion SET state = 'published', number = 2{DRAFTED} "
            f"WHERE id = '{world.draft.pk}'"
        )


def test_draft__published_without_a_manifest__is_refused(world: World) -> None:
    with breaks_a_constraint():
        commit(
            "DELETE FROM agents_knowledgebinding WHERE version_id = '" + str(world.draft.pk) + "'",
            f"DELETE FROM agents_tool WHERE version_id = '{world.draft.pk}'",
            "UPDATE agents_agentversion SET state = 'published', number = 2, "
            f"published_at = now() WHERE id = '{world.draft.pk}'",
        )


def test_draft__revision_counted_backwards__is_refused(world: World) -> None:
    with refused("counted upwards only"):
        commit(
            f"UPDATE agents_agentversion SET revision = revision - 1 WHERE id = '{world.draft.pk}'"
        )


def test_draft__second_one__is_refused(world: World) -> None:
    with breaks_a_constraint():
        commit(copied("agents_agentversion", f"id = '{world.draft.pk}'", id="gen_random_uuid()"))


def test_draft__moved_to_another_agent__is_refused(world: World) -> None:
    with refused("stays with its agent"):
        commit(
            "SET CONSTRAINTS ALL DEFERRED",
            f"UPDATE agents_agentversion SET agent_id = '{world.other_agent.pk}' "
            f"WHERE id = '{world.draft.pk}'",
        )


def test_agents__keys_or_slugs_swapped_in_one_transaction__are_refused(world: World) -> None:
    """Versions cannot move; their agents could change places under them instead."""
    for column, mine, theirs, between in (
        ("id", world.agent.pk, world.other_agent.pk, uuid.uuid4()),
        ("slug", world.agent.slug, world.other_agent.slug, "between"),
    ):
        with refused("found by their agent"):
            commit(
                f"UPDATE agents_agent SET {column} = '{between}' WHERE {column} = '{mine}'",
                f"UPDATE agents_agent SET {column} = '{mine}' WHERE {column} = '{theirs}'",
                f"UPDATE agents_agent SET {column} = '{theirs}' WHERE {column} = '{between}'",
            )


def test_agent__deleted__is_refused(world: World) -> None:
    with refused("archived, never deleted"):
        commit(f"DELETE FROM agents_agent WHERE id = '{world.agent.pk}'")


def test_alias__pointed_to_a_draft_or_anothers_version__is_refused(world: World) -> None:
    for target in (world.draft.pk, world.other_version.pk):
        with refused("published version of its agent"):
            commit(f"UPDATE agents_alias SET version_id = '{target}' WHERE name = 'production'")
        with refused("published version of its agent"):
            commit(
                "INSERT INTO agents_alias (agent_id, name, version_id, moved_at) "
                f"VALUES ('{world.agent.pk}', 'staging', '{target}', now())"
            )


def test_alias__handed_to_another_agent__is_refused(world: World) -> None:
    with refused("keeps its agent"):
        commit(
            f"UPDATE agents_alias SET agent_id = '{world.other_agent.pk}', "
            f"version_id = '{world.other_version.pk}' WHERE name = 'production'"
        )


def test_version__after_all_attacks__has_the_parts_it_was_published_with(world: World) -> None:
    assert rows(
        "SELECT count(*), (SELECT count(*) FROM agents_tool WHERE version_id = %s) "
        "FROM agents_knowledgebinding WHERE version_id = %s",
        world.version.pk,
        world.version.pk,
    ) == [(1, 1)]
