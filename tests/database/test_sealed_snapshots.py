"""What is searched is sealed whole and stays; only what nobody holds can go, and only whole."""

from __future__ import annotations

import pytest

from retrieval.models import Chunk, IndexedDocument, SnapshotMember
from tests.database.attacks import breaks_a_constraint, commit, copied, refused, rows, value
from tests.database.conftest import World

pytestmark = pytest.mark.django_db


def indexed_of(world: World) -> IndexedDocument:
    found = SnapshotMember.objects.filter(snapshot=world.pinned).first()
    assert found is not None
    return found.indexed_document


def new_indexed(world: World) -> str:
    """An INSERT of an unsealed indexed document like a pinned one; it gets the id -1."""
    return copied(
        "retrieval_indexeddocument",
        f"id = {indexed_of(world).pk}",
        id="-1",
        sealed="false",
    )


def new_chunk(world: World, **changes: str) -> str:
    chosen = Chunk.objects.filter(indexed_document=indexed_of(world)).earliest("ordinal")
    return copied(
        "retrieval_chunk",
        f"id = {chosen.pk}",
        **({"indexed_document_id": "-1", "ordinal": "0"} | changes),
    )


def test_chunk__inserted_into_a_sealed_document__is_refused(world: World) -> None:
    with refused("is sealed"):
        commit(new_chunk(world, indexed_document_id=str(indexed_of(world).pk), ordinal="1000000"))


def test_chunk__moved_to_another_document__is_refused(world: World) -> None:
    with refused("a chunk never changes"):
        commit(
            new_indexed(world),
            "UPDATE retrieval_chunk SET indexed_document_id = -1 "
            f"WHERE indexed_document_id = {indexed_of(world).pk}",
        )


def test_chunk__of_another_model_than_its_document__is_refused(world: World) -> None:
    with refused("its model"):
        commit(
            "INSERT INTO retrieval_embeddingmodel (id, name, dimensions, max_tokens, fingerprint) "
            "VALUES (-1, 'other', 3, 8, 'sha256:other')",
            new_indexed(world),
            new_chunk(world, model_id="-1"),
        )


def test_chunks__swapped_between_documents_in_one_transaction__are_refused(world: World) -> None:
    (first, one), (second, two) = rows(
        "SELECT DISTINCT ON (indexed_document_id) id, indexed_document_id FROM retrieval_chunk "
        "ORDER BY indexed_document_id LIMIT 2"
    )
    with refused("a chunk never changes"):
        commit(
            "SET CONSTRAINTS ALL DEFERRED",
            "UPDATE retrieval_chunk SET indexed_document_id = CASE id "
            f"WHEN {first} THEN {two} ELSE {one} END, ordinal = 1000 + ordinal "
            f"WHERE id IN ({first}, {second})",
        )


def test_indexed_document__inserted_sealed__is_refused(world: World) -> None:
    with refused("not before"):
        commit(copied("retrieval_indexeddocument", f"id = {indexed_of(world).pk}", id="-1"))


def test_indexed_document__sealed_without_all_its_chunks__is_refused(world: World) -> None:
    with refused("with all its chunks"):
        commit(
            new_indexed(world),
            new_chunk(world),
            "UPDATE retrieval_indexeddocument SET sealed = true, chunk_count = 2 WHERE id = -1",
        )


def test_indexed_document__of_an_extraction_that_is_not_sealed__is_refused(world: World) -> None:
    with refused("only a sealed extraction"):
        commit(
            "INSERT INTO retrieval_extraction (id, revision_id, recipe, status, error_code, error,"
            " notices, digest, created_at) SELECT -1, id, 'other', 'pending', '', '', '[]', '', "
            "now() FROM retrieval_documentrevision WHERE content IS NOT NULL LIMIT 1",
            copied(
                "retrieval_indexeddocument",
                f"id = {indexed_of(world).pk}",
                extraction_id="-1",
                sealed="false",
            ),
        )


def test_member__inserted_into_an_ended_snapshot__is_refused(world: World) -> None:
    for ended in (world.pinned, world.unheld, world.current, world.cancelled):
        with refused("is sealed"):
            commit(
                copied(
                    "retrieval_snapshotmember",
                    f"snapshot_id = {world.pinned.pk}",
                    snapshot_id=str(ended.pk),
                    document_id="gen_random_uuid()",
                )
            )


def test_member__not_sealed_or_of_another_base__is_refused(world: World) -> None:
    into_building = {
        "snapshot_id": str(world.building.pk),
        "document_id": "gen_random_uuid()",
    }
    where = f"snapshot_id = {world.pinned.pk}"
    with refused("whole documents only"):
        commit(
            new_indexed(world),
            copied("retrieval_snapshotmember", where, **into_building, indexed_document_id="-1"),
        )
    with refused("its own base's documents"):
        commit(copied("retrieval_snapshotmember", where, **into_building))


def test_member__taken_out_of_a_snapshot_that_stays__is_refused(world: World) -> None:
    with refused("together with its snapshot"):
        commit(f"DELETE FROM retrieval_snapshotmember WHERE snapshot_id = {world.unheld.pk}")


def test_snapshot__inserted_ready__is_refused(world: World) -> None:
    with refused("starts as building"):
        commit(copied("retrieval_indexsnapshot", f"id = {world.pinned.pk}", number="4"))


def test_snapshot__inserted_under_another_number_than_the_next__is_refused(world: World) -> None:
    for number in (1, 4, 99):
        with refused("the next number"):
            commit(
                copied(
                    "retrieval_indexsnapshot",
                    f"id = {world.pinned.pk}",
                    number=str(number),
                    state="'building'",
                )
            )


def test_snapshot_numbers__set_back__are_refused(world: World) -> None:
    for column in ("last_snapshot_number", "content_revision"):
        with refused("upwards only"):
            commit(
                f"UPDATE retrieval_knowledgebase SET {column} = {column} - 1, "
                f"settled_revision = 0, shown_revision = 0 WHERE id = '{world.base.pk}'"
            )


def test_snapshot__sealed_with_other_counts_than_its_members__is_refused(world: World) -> None:
    with refused("sealed whole"):
        commit(
            "UPDATE retrieval_indexsnapshot SET state = 'ready', digest = 'sha256:0', "
            f"document_count = 1 WHERE id = {world.building.pk}"
        )


@pytest.mark.parametrize("state", ["building", "ready", "failed"])
def test_ended_snapshot__given_another_state__is_refused(world: World, state: str) -> None:
    for ended in (world.cancelled, world.unheld):
        if ended.state != state:
            with refused("never changes"):
                commit(
                    f"UPDATE retrieval_indexsnapshot SET state = '{state}', digest = 'sha256:0' "
                    f"WHERE id = {ended.pk}"
                )


def test_snapshot__pinned_or_current__cannot_be_deleted(world: World) -> None:
    with refused("a published version holds"):
        commit(f"DELETE FROM retrieval_indexsnapshot WHERE id = {world.pinned.pk}")
    with refused("is current"):
        commit(f"DELETE FROM retrieval_indexsnapshot WHERE id = {world.current.pk}")


def test_current_snapshot__moved_anywhere_but_forwards__is_refused(world: World) -> None:
    elsewhere = value(
        "SELECT current_snapshot_id FROM retrieval_knowledgebase WHERE id = %s", world.other.pk
    )
    for target in (
        world.pinned.pk,
        world.unheld.pk,
        world.building.pk,
        world.cancelled.pk,
        elsewhere,
        "NULL",
    ):
        with refused("moves only to a newer ready one"):
            commit(
                f"UPDATE retrieval_knowledgebase SET current_snapshot_id = {target} "
                f"WHERE id = '{world.base.pk}'"
            )


def test_current_snapshot__of_its_own_but_not_ready__is_refused(world: World) -> None:
    for target in (world.building.pk, world.cancelled.pk):
        with refused("moves only to a newer ready one"):
            commit(
                f"UPDATE retrieval_knowledgebase SET current_snapshot_id = {target} "
                f"WHERE id = '{world.other.pk}'"
            )


def test_knowledge_base__inserted_with_a_current_snapshot__is_refused(world: World) -> None:
    with refused("no snapshot yet"):
        commit(
            copied(
                "retrieval_knowledgebase",
                f"id = '{world.base.pk}'",
                id="gen_random_uuid()",
                name="'Twin'",
            )
        )


def test_pin__of_anything_but_a_ready_snapshot_of_that_base__is_refused(world: World) -> None:
    for snapshot, base in (
        (world.building, world.other),
        (world.cancelled, world.other),
        (world.current, world.other),
    ):
        with refused("only a ready snapshot"):
            commit(
                "INSERT INTO retrieval_snapshotpin (snapshot_id, knowledge_base_id, holder_kind, "
                f"holder_id, holder_label, created_at) VALUES ({snapshot.pk}, '{base.pk}', "
                "'agentVersion', 'x', 'x', now())"
            )


def test_pin__second_one_of_a_base_for_one_version__is_refused(world: World) -> None:
    with breaks_a_constraint():
        commit(
            "INSERT INTO retrieval_snapshotpin (snapshot_id, knowledge_base_id, holder_kind, "
            f"holder_id, holder_label, created_at) VALUES ({world.current.pk}, "
            f"'{world.base.pk}', 'agentVersion', '{world.version.pk}', 'x', now())"
        )


def test_knowledge_base__pinned__cannot_be_deleted(world: World) -> None:
    with refused("a published version holds a snapshot"):
        commit(f"DELETE FROM retrieval_knowledgebase WHERE id = '{world.base.pk}'")


def test_document__living_or_still_read__cannot_be_deleted(world: World) -> None:
    with refused("a living document"):
        commit(f"DELETE FROM retrieval_document WHERE id = '{world.document.pk}'")
    with refused("is still kept"):
        commit(
            f"UPDATE retrieval_document SET deleted_at = now() WHERE id = '{world.document.pk}'",
            f"DELETE FROM retrieval_document WHERE id = '{world.document.pk}'",
        )


def test_revision__not_yet_read__cannot_be_deleted_from_its_document(world: World) -> None:
    unread = value(
        "SELECT r.id FROM retrieval_documentrevision AS r JOIN retrieval_document AS d "
        "ON d.id = r.document_id WHERE d.name = 'most.md'"
    )
    with refused("together with its document"):
        commit(f"DELETE FROM retrieval_documentrevision WHERE id = {unread}")


def test_question__asked_of_a_published_version__keeps_its_vector(world: World) -> None:
    with refused("one vector"):
        commit("UPDATE retrieval_queryembedding SET vector = vector + vector")
    with refused("may be asked this again"):
        commit("DELETE FROM retrieval_queryembedding")


def test_question__with_a_zero_of_another_sign__is_another_vector(world: World) -> None:
    commit(
        "INSERT INTO retrieval_queryembedding (model_id, query_digest, vector, kept, truncated, "
        "provenance, created_at) SELECT model_id, 'sha256:zero', '[0,1]', true, false, '', now() "
        "FROM retrieval_queryembedding LIMIT 1"
    )
    with refused("one vector"):
        commit(
            "UPDATE retrieval_queryembedding SET vector = '[-0,1]' "
            "WHERE query_digest = 'sha256:zero'"
        )


def test_unheld_snapshot__deleted_whole_with_what_only_it_held__is_allowed(world: World) -> None:
    only_here = (
        "SELECT indexed_document_id FROM retrieval_snapshotmember GROUP BY 1 "
        f"HAVING bool_and(snapshot_id = {world.unheld.pk})"
    )
    doomed = ", ".join(str(identity) for (identity,) in rows(only_here))
    assert doomed

    commit(
        f"DELETE FROM retrieval_indexsnapshot WHERE id = {world.unheld.pk}",
        f"DELETE FROM retrieval_snapshotmember WHERE snapshot_id = {world.unheld.pk}",
        f"DELETE FROM retrieval_indexeddocument WHERE id IN ({doomed})",
        f"DELETE FROM retrieval_chunk WHERE indexed_document_id IN ({doomed})",
    )

    held = SnapshotMember.objects.filter(snapshot__in=[world.pinned, world.current])
    assert held.count() == 4
    for member in held.select_related("indexed_document"):
        indexed = member.indexed_document
        assert indexed.chunks.count() == indexed.chunk_count
