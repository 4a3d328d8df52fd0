"""Erasure lets exactly itself through: named, whole, in its own transaction, and nothing else."""

from __future__ import annotations

import pytest
from django.db import transaction

from retrieval.models import Chunk, DocumentRevision, Extraction, SnapshotMember
from tests.database.attacks import commit, purge, refused, rows, run, value
from tests.database.conftest import World

pytestmark = pytest.mark.django_db


def revision_of(world: World) -> DocumentRevision:
    """The revision that the pinned snapshot holds of the document that has two."""
    return DocumentRevision.objects.get(document=world.document, number=1)


def permission(revision_id: int) -> str:
    return str(purge(revision_id)[0])


def test_purge__of_a_pinned_revision__erases_texts_and_keeps_digests(world: World) -> None:
    revision = revision_of(world)
    member = SnapshotMember.objects.get(snapshot=world.pinned, document_id=world.document.pk)
    before = list(member.indexed_document.chunks.values_list("digest", "vector_digest", "page"))

    commit(*purge(revision.pk))

    chunks = member.indexed_document.chunks
    assert list(chunks.values_list("digest", "vector_digest", "page")) == before
    assert set(chunks.values_list("text", "section", "vector")) == {(None, None, None)}
    revision.refresh_from_db()
    assert (revision.content, revision.sha256 != "") == (None, True)
    assert Chunk.objects.filter(text__isnull=False).exists()


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_purge__that_leaves_something__is_refused_at_commit(world: World, missing: int) -> None:
    statements = purge(revision_of(world).pk)
    with refused("whole or not at all"):
        commit(*statements[:missing], *statements[missing + 1 :])


def test_purge__that_names_another_revision__erases_nothing(world: World) -> None:
    other = DocumentRevision.objects.get(document__name="warranty.md")
    statements = purge(revision_of(world).pk)
    for statement in statements[1:]:
        with refused():
            commit(permission(other.pk), statement)


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("retrieval_documentrevision", "content = NULL, notice = '', sha256 = 'sha256:0'"),
        ("retrieval_documentrevision", "content = NULL, notice = '', size = 0"),
        ("retrieval_documentrevision", "content = NULL, notice = '', media_type = 'x'"),
        ("retrieval_documentrevision", "content = NULL, notice = '', number = 9"),
        ("retrieval_documentrevision", "content = NULL, notice = '', created_at = now()"),
        ("retrieval_documentrevision", "content = NULL, notice = 'x'"),
        ("retrieval_documentrevision", "content = '\\x00'"),
        ("retrieval_extraction", "segments = NULL, notices = '[]', digest = 'sha256:0'"),
        ("retrieval_extraction", "segments = NULL, notices = '[]', pages = 7"),
        ("retrieval_extraction", "segments = NULL, notices = '[]', status = 'failed'"),
        ("retrieval_extraction", "segments = NULL, notices = '[]', error = 'x'"),
        ("retrieval_extraction", "segments = NULL, notices = '[\"x\"]'"),
        ("retrieval_extraction", "segments = '[]', notices = '[]'"),
        ("retrieval_chunk", "text = NULL, section = NULL, vector = NULL, digest = 'sha256:0'"),
        ("retrieval_chunk", "text = NULL, section = NULL, vector = NULL, vector_digest = 'x'"),
        ("retrieval_chunk", "text = NULL, section = NULL, vector = NULL, ordinal = 99"),
        ("retrieval_chunk", "text = NULL, section = NULL, vector = NULL, page = 99"),
        ("retrieval_chunk", 'text = NULL, section = NULL, vector = NULL, "end" = 99999'),
        ("retrieval_chunk", "text = 'x', section = NULL, vector = NULL"),
        ("retrieval_chunk", "text = NULL, section = 'x', vector = NULL"),
        ("retrieval_chunk", "text = NULL, section = NULL"),
    ],
)
def test_purge__that_changes_more_than_it_erases__is_refused(
    world: World, table: str, change: str
) -> None:
    revision = revision_of(world).pk
    rows_of = {
        "retrieval_documentrevision": f"id = {revision}",
        "retrieval_extraction": f"revision_id = {revision}",
        "retrieval_chunk": (
            "indexed_document_id IN (SELECT i.id FROM retrieval_indexeddocument AS i JOIN "
            f"retrieval_extraction AS e ON e.id = i.extraction_id WHERE revision_id = {revision})"
        ),
    }
    with refused("never changes"):
        commit(permission(revision), f"UPDATE {table} SET {change} WHERE {rows_of[table]}")


def test_purge__permission_rolled_back_to_a_savepoint__is_gone(world: World) -> None:
    statements = purge(revision_of(world).pk)
    point = transaction.savepoint()
    run(statements[0])
    transaction.savepoint_rollback(point)
    with refused("a revision never changes"):
        commit(statements[1])


def test_purge__with_a_transaction_of_ones_own_choosing__gets_the_real_one(world: World) -> None:
    run(
        "INSERT INTO retrieval_purge (revision_id, reason, actor, at, transaction_id) "
        f"VALUES ({world.purged.pk}, 'x', 'x', now(), 9000000000)"
    )
    assert rows("SELECT DISTINCT transaction_id FROM retrieval_purge") == [
        (value("SELECT pg_current_xact_id()::text::bigint"),)
    ]


def test_purged_text__written_again_by_a_late_worker__is_refused(world: World) -> None:
    """A worker read the bytes before the purge and has its result only now."""
    with refused("its revision was purged"):
        commit(
            "INSERT INTO retrieval_extraction (revision_id, recipe, status, error_code, error, "
            f"notices, segments, digest, created_at) VALUES ({world.purged.pk}, 'late', "
            "'sealed', '', '', '[]', '[]', 'sha256:0', now())"
        )
    extraction = Extraction.objects.get(revision=world.purged)
    with refused("its revision was purged"):
        commit(
            "INSERT INTO retrieval_indexeddocument (id, extraction_id, chunking, model_id, "
            "digest, chunk_count, sealed, created_at) "
            f"VALUES (-1, {extraction.pk}, 'late', {world.pinned.model_id}, '', 0, false, now())",
            'INSERT INTO retrieval_chunk (indexed_document_id, model_id, ordinal, start, "end", '
            "truncated, digest, text_digest, vector_digest, text) "
            f"VALUES (-1, {world.pinned.model_id}, 0, 0, 1, false, 'x', 'x', 'x', 'secret')",
        )
