from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from agents.tools import call_tool
from agents.verification import verify_version
from agents.versions import runnable
from registry.errors import NotFound
from registry.models import AuditEvent
from retrieval import pieces, pruning, search
from retrieval.build_control import cancel_build
from retrieval.claims import claim_piece
from retrieval.documents import delete_document
from retrieval.evaluation import claim_evaluation, start_evaluation, work_on_evaluation
from retrieval.evaluation_questions import save_questions
from retrieval.indexing import start_build
from retrieval.knowledge_bases import find, update_knowledge_base
from retrieval.models import (
    Chunk,
    Document,
    DocumentRevision,
    Extraction,
    IndexedDocument,
    KnowledgeBase,
    PendingVector,
    Purge,
    SnapshotMember,
)
from retrieval.pieces import work_on
from retrieval.pruning import Keep, Pruned, planned, prune, prune_knowledge_base
from retrieval.purging import purge_document
from retrieval.questions import Question
from retrieval.sizes import snapshot_bytes
from retrieval.verification import Verifier
from tests import builders
from tests.database.attacks import run
from tests.worker import running_worker, wait_until

pytestmark = pytest.mark.django_db

NOTHING_MORE = Keep(last=0, days=0)
COARSE = {"strategy": "recursive", "size": 200, "overlap": 20}
FINE = {"strategy": "recursive", "size": 40, "overlap": 0}
QUESTION = Question(query="How many days do I have to send a parcel back?")


@pytest.fixture
def base() -> KnowledgeBase:
    return builders.base_with("Returns")


def pruned(base: KnowledgeBase, keep: Keep = NOTHING_MORE) -> Pruned:
    """What went; a dry run had said just that before and changed nothing."""
    said = planned(base, keep)
    rows = AuditEvent.objects.count()
    done = prune_knowledge_base(actor=builders.ACTOR, knowledge_base_id=base.pk, keep=keep)
    assert AuditEvent.objects.count() > rows or not done.something
    assert done == said
    return done


def edited(base: KnowledgeBase, times: int, name: str = "returns.md") -> None:
    document = Document.objects.get(name=name, knowledge_base=base, deleted_at=None)
    for number in range(times):
        newest = document.revisions.count()
        builders.replace_text(base, document, f"# Edit {newest} {number}\n\n{builders.RETURNS}")
        builders.build(base)


def numbers(base: KnowledgeBase) -> list[int]:
    return list(base.snapshots.order_by("number").values_list("number", flat=True))


def cut(base: KnowledgeBase, chunking: dict[str, Any]) -> None:
    update_knowledge_base(
        actor=builders.ACTOR, knowledge_base_id=base.pk, values={"chunking": chunking}
    )


def test_prune__many_snapshots__keeps_the_current_the_last_and_the_pinned(
    base: KnowledgeBase,
) -> None:
    edited(base, 1)
    builders.published(base, slug="support")
    edited(base, 6)

    assert pruned(base, Keep(last=3, days=0)).snapshots == [1, 3, 4]

    assert numbers(base) == [2, 5, 6, 7, 8]
    assert set(SnapshotMember.objects.values_list("snapshot__number", flat=True)) == {2, 5, 6, 7, 8}
    # One document came in eight contents, three of which nothing holds; the other is shared.
    assert IndexedDocument.objects.count() == 6
    assert DocumentRevision.objects.filter(document__name="returns.md").count() == 8


def test_prune__young_snapshots__are_kept(base: KnowledgeBase) -> None:
    edited(base, 2)

    assert not pruned(base, Keep(last=0, days=1)).something

    assert numbers(base) == [1, 2, 3]


def test_prune__what_a_version_answers__stays_byte_for_byte(base: KnowledgeBase) -> None:
    agent, version = builders.published(base, slug="support")
    called = {
        "version": runnable(agent, version),
        "name": "search",
        "question": QUESTION,
        "access": builders.ACCESS,
    }
    before = call_tool(**called)  # type: ignore[arg-type]
    edited(base, 2)
    delete_document(
        actor=builders.ACTOR, base=base, document_id=base.documents.get(name="warranty.md").pk
    )
    builders.build(base)

    assert pruned(base).snapshots == [2, 3]

    after = call_tool(**called)  # type: ignore[arg-type]
    assert {**after, "traceId": ""} == {**before, "traceId": ""}
    assert all(part.ok for part in verify_version(version, Verifier()))


def test_prune__earlier_chunking_still_kept__is_switched_back_to_without_embedding(
    base: KnowledgeBase,
) -> None:
    cut(base, FINE)
    builders.build(base)
    pruned(base, Keep(last=1, days=0))
    cut(base, COARSE)

    snapshot = start_build(base.pk)

    assert snapshot is not None
    assert set(snapshot.pieces.values_list("state", flat=True)) == {"done"}


def test_prune__earlier_chunking_not_kept__goes_with_its_chunks(base: KnowledgeBase) -> None:
    coarse = Chunk.objects.count()
    cut(base, FINE)
    builders.build(base)
    size = sum(one.size or 0 for one in IndexedDocument.objects.filter(chunking__contains="200"))

    done = pruned(base)

    assert (done.snapshots, done.indexed_documents, done.chunks, done.bytes) == (
        [1],
        2,
        coarse,
        size,
    )
    assert set(IndexedDocument.objects.values_list("chunking", flat=True)) == {
        find(base.pk).current_snapshot.chunking  # type: ignore[union-attr]
    }
    # What was read is not read again.
    assert Extraction.objects.count() == 2


def test_prune__build_that_was_superseded__is_kept_to_be_shared_while_it_is_young(
    base: KnowledgeBase,
) -> None:
    cut(base, FINE)
    builders.build_unsealed(base)
    cut(base, COARSE)
    builders.build(base)

    assert pruned(base, Keep(last=0, days=1)).indexed_documents == 0
    assert pruned(base).indexed_documents == 2


def test_prune__deleted_document_that_nothing_holds__goes_with_all_its_revisions(
    base: KnowledgeBase,
) -> None:
    document = base.documents.get(name="returns.md")
    edited(base, 1)
    delete_document(actor=builders.ACTOR, base=base, document_id=document.pk)
    builders.build(base)
    assert pruned(base, Keep(last=9, days=0)).documents == []

    done = pruned(base)

    assert (done.snapshots, done.documents) == ([1, 2], [document.pk])
    assert not Document.objects.filter(pk=document.pk).exists()
    assert not DocumentRevision.objects.filter(document_id=document.pk).exists()
    assert Extraction.objects.count() == IndexedDocument.objects.count() == 1
    event = AuditEvent.objects.filter(action="knowledge_base.pruned").first()
    assert event is not None
    assert event.after == {"documents": [str(document.pk)]}


def test_prune__deleted_document_that_a_version_holds__stays_whole(base: KnowledgeBase) -> None:
    builders.published(base)
    document = base.documents.get(name="returns.md")
    delete_document(actor=builders.ACTOR, base=base, document_id=document.pk)
    builders.build(base)

    assert not pruned(base).something

    assert document.revisions.get().content is not None


def test_prune__deleted_while_its_build_failed_or_never_read__goes(base: KnowledgeBase) -> None:
    document = builders.add_text(base, "never.md", "Never read.")
    delete_document(actor=builders.ACTOR, base=base, document_id=document.pk)
    builders.build(base)

    assert pruned(base).documents == [document.pk]


def test_prune__purged_document__goes_and_its_record_stays(base: KnowledgeBase) -> None:
    document = base.documents.get(name="returns.md")
    purge_document(actor=builders.ACTOR, base=base, document_id=document.pk, reason="by law")
    builders.build(base)

    assert pruned(base).documents == [document.pk]

    assert Purge.objects.count() == 1


def test_prune__reading_of_a_replaced_content__goes_and_the_content_stays(
    base: KnowledgeBase,
) -> None:
    edited(base, 1)

    assert pruned(base).readings == 1

    revisions = DocumentRevision.objects.filter(document__name="returns.md")
    assert [revision.extractions.count() for revision in revisions.order_by("number")] == [0, 1]
    assert all(revision.content for revision in revisions)


def test_prune__while_a_build_runs__takes_snapshots_and_leaves_documents(
    base: KnowledgeBase,
) -> None:
    cut(base, FINE)
    builders.build(base)
    builders.add_text(base, "new.md", "New.")
    start_build(base.pk)
    indexed = IndexedDocument.objects.count()

    done = pruned(base)

    assert (done.snapshots, done.indexed_documents, done.waits) == ([1], 0, True)
    assert IndexedDocument.objects.count() == indexed
    builders.build(base)
    assert pruned(base).indexed_documents == 2


def test_prune__snapshot_that_is_being_judged__is_kept_until_it_is(base: KnowledgeBase) -> None:
    question = {"query": QUESTION.query, "documents": ["returns.md"]}
    save_questions(actor=builders.ACTOR, base=base, questions=[question])
    evaluation = start_evaluation(actor=builders.ACTOR, base=base, snapshots=[1], at_once=0)
    edited(base, 2)
    assert pruned(base).snapshots == [2]

    claim = claim_evaluation(evaluation.pk)
    assert claim is not None
    work_on_evaluation(claim, seconds=60)

    assert pruned(base).snapshots == [1]


def test_prune__builds_without_a_result__go_but_the_newest(base: KnowledgeBase) -> None:
    for number in range(2):
        builders.add_text(base, f"{number}.md", f"Number {number}.")
        snapshot = start_build(base.pk)
        assert snapshot is not None
        cancel_build(actor=builders.ACTOR, base=base, number=snapshot.number)

    assert pruned(base).snapshots == [2]

    assert numbers(base) == [1, 3]


def long_document_half_embedded(monkeypatch: pytest.MonkeyPatch) -> KnowledgeBase:
    """A base whose one long document's worker broke down after it had committed some vectors."""
    monkeypatch.setattr(pieces, "PART", 1)
    monkeypatch.setattr(pieces, "_BATCH", 1)
    base = builders.make_base("Manuals", chunking=FINE)
    builders.add_text(base, "manual.md", f"{builders.RETURNS}\n\n{builders.WARRANTY}")
    snapshot = start_build(base.pk)
    assert snapshot is not None
    claim = claim_piece(snapshot.pk)
    assert claim is not None
    with pytest.raises(RuntimeError):
        work_on(claim, meanwhile=broken_down)
    assert PendingVector.objects.exists()
    return base


def broken_down() -> None:
    if PendingVector.objects.exists():
        raise RuntimeError("no space left on device")


def test_prune__vectors_of_a_cancelled_build__go_after_a_day_whatever_else_is_built(
    base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = long_document_half_embedded(monkeypatch)
    cancel_build(actor=builders.ACTOR, base=long, number=1)
    left = PendingVector.objects.count()
    assert prune(actor=builders.ACTOR).pending_vectors == 0

    monkeypatch.setattr(pruning, "_PENDING_VECTORS_KEPT", timedelta(0))
    builders.replace_text(base, base.documents.get(name="returns.md"), "Edited.")
    assert start_build(base.pk) is not None

    assert prune(actor=builders.ACTOR, dry_run=True).pending_vectors == left
    assert prune(actor=builders.ACTOR).pending_vectors == left
    assert not PendingVector.objects.exists()


def test_prune__vectors_of_a_build_that_takes_days__are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long_document_half_embedded(monkeypatch)
    left = PendingVector.objects.count()

    monkeypatch.setattr(pruning, "_PENDING_VECTORS_KEPT", timedelta(0))

    assert prune(actor=builders.ACTOR).pending_vectors == 0
    assert PendingVector.objects.count() == left


def test_prune__in_small_steps__takes_everything(
    base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_MEMBERS_AT_ONCE", "_DOCUMENTS_AT_ONCE", "_CHUNKS_AT_ONCE"):
        monkeypatch.setattr(f"retrieval.pruning.{name}", 1)
    edited(base, 3)

    assert pruned(base).snapshots == [1, 2, 3]

    assert IndexedDocument.objects.count() == Extraction.objects.count() == 2


def test_search__snapshot_pruned_after_it_was_found__says_so(base: KnowledgeBase) -> None:
    target = search.current_target(base)
    edited(base, 1)
    pruned(base)

    with pytest.raises(NotFound) as refused:
        search.retrieve(target, QUESTION)

    assert refused.value.code == "snapshot.not_found"


def test_sizes__of_built_and_uncounted_documents__are_the_same(base: KnowledgeBase) -> None:
    snapshot = find(base.pk).current_snapshot
    assert snapshot is not None
    counted = snapshot_bytes([snapshot.pk])[snapshot.pk]
    chunks = Chunk.objects.all()
    assert counted == sum(
        len((one.text or "").encode()) + len((one.section or "").encode()) + 4 * 384
        for one in chunks
    )
    run(
        "SET CONSTRAINTS ALL IMMEDIATE",
        "ALTER TABLE retrieval_indexeddocument DISABLE TRIGGER USER",
        "UPDATE retrieval_indexeddocument SET size = NULL",
        "ALTER TABLE retrieval_indexeddocument ENABLE TRIGGER USER",
    )
    assert snapshot_bytes([snapshot.pk, -1]) == {snapshot.pk: counted, -1: 0}


def _run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("prune", *arguments, stdout=out)
    return out.getvalue()


def test_prune_command__dry_run__says_what_goes_and_removes_nothing(base: KnowledgeBase) -> None:
    edited(base, 2)
    keep = ("--keep-last", "0", "--keep-days", "0", "--knowledge-base", "Returns")

    said = _run("--dry-run", *keep)

    assert "Returns: snapshots #1, #2; 2 indexed documents; 2 chunks; 2 readings" in said
    assert "Nothing was removed." in said
    assert numbers(base) == [1, 2, 3]
    assert _run(*keep).replace("Removed.", "Nothing was removed.") == said
    assert numbers(base) == [3]


def test_prune_command__all_bases__tells_of_each(base: KnowledgeBase) -> None:
    builders.base_with("Warranty")
    said = _run("--dry-run")
    assert said.splitlines()[:2] == ["Returns: nothing", "Warranty: nothing"]
    with pytest.raises(CommandError):
        _run("--knowledge-base", "Nothing")
    with pytest.raises(CommandError):
        _run("--keep-days", "-1")


def test_prune__one_base_held_by_another__goes_on_with_the_rest(base: KnowledgeBase) -> None:
    edited(base, 1)
    other = builders.base_with("Warranty")
    edited(other, 1)

    found = prune(actor=builders.ACTOR, keep=NOTHING_MORE)

    assert [one.snapshots for one in found.bases] == [[1], [1]]


@pytest.mark.django_db(transaction=True)
def test_prune__by_beat_and_a_real_worker__happens_by_itself(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = builders.base_with()
    edited(base, 1)
    for name, value in {
        "PRUNE_INTERVAL_SECONDS": "1",
        "SNAPSHOTS_KEPT_LAST": "0",
        "SNAPSHOTS_KEPT_DAYS": "0",
    }.items():
        monkeypatch.setenv(name, value)
    with running_worker():
        wait_until(lambda: numbers(base) == [2])
    assert AuditEvent.objects.filter(action="knowledge_base.pruned", actor="prune").exists()
