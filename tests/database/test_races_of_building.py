"""Workers that meet in one build: each piece is done once, each snapshot is sealed once."""

from __future__ import annotations

from functools import partial

import pytest
from django.db import transaction

from registry.errors import Unavailable
from retrieval import pieces
from retrieval.build_control import cancel_build
from retrieval.claims import Claim, ClaimLost, claim_piece
from retrieval.documents import Upload, replace_document
from retrieval.indexing import finish_build, start_build
from retrieval.knowledge_bases import delete_knowledge_base, find
from retrieval.models import BuildPiece, Chunk, IndexedDocument, IndexSnapshot, KnowledgeBase
from retrieval.pieces import work_on
from tests import builders
from tests.database.threads import Running, lock_of_base, queued, together, waiting
from tests.worker import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def base(transactional_db: None) -> KnowledgeBase:
    made = builders.make_base("Returns")
    for number in range(4):
        builders.add_text(made, f"page {number}.md", f"# Page {number}\n\n{builders.RETURNS}")
    return made


@pytest.fixture
def snapshot(base: KnowledgeBase) -> IndexSnapshot:
    started = start_build(base.pk)
    assert started is not None
    return started


def claimed(snapshot: IndexSnapshot) -> Claim:
    claim = claim_piece(snapshot.pk)
    assert claim is not None
    return claim


def end_leases() -> None:
    BuildPiece.objects.filter(claim__isnull=False).update(leased_until="2000-01-01T00:00:00Z")


def taken_over(snapshot: IndexSnapshot, claim: Claim) -> Claim:
    """Claim the piece of a claim whose lease has ended; those that nobody has tried come first."""
    end_leases()
    while (new := claimed(snapshot)).piece_id != claim.piece_id:
        pass
    return new


def test_build__started_by_many_at_once__is_one_build(base: KnowledgeBase) -> None:
    outcomes = together(*[partial(start_build, base.pk)] * 4)
    assert len({one.pk for one in outcomes}) == 1
    assert BuildPiece.objects.count() == 4


def test_piece__claimed_while_another_is_being_claimed__is_the_next_one(
    snapshot: IndexSnapshot,
) -> None:
    """A worker that came second must not go away with nothing to do."""
    with transaction.atomic():
        first = claimed(snapshot)
        second = Running(partial(claim_piece, snapshot.pk)).end()
    assert isinstance(second, Claim)
    assert second.piece_id != first.piece_id


def test_pieces__claimed_by_many_at_once__are_claimed_once_each(snapshot: IndexSnapshot) -> None:
    outcomes = together(*[partial(claim_piece, snapshot.pk)] * 6)
    claims = [one for one in outcomes if isinstance(one, Claim)]
    assert len(claims) == len({one.piece_id for one in claims}) == 4
    assert outcomes.count(None) == 2


def test_build__worked_off_by_three_workers__has_every_document_once(
    base: KnowledgeBase, snapshot: IndexSnapshot
) -> None:
    counts = together(*[partial(builders.work_off, snapshot)] * 3)
    assert sum(counts) == 4
    assert finish_build(snapshot.pk)
    current = find(base.pk).current_snapshot
    assert current is not None
    assert (current.document_count, current.members.count()) == (4, 4)
    assert IndexedDocument.objects.count() == 4


def test_snapshot__sealed_by_two_at_once__is_sealed_once(
    base: KnowledgeBase, snapshot: IndexSnapshot
) -> None:
    builders.work_off(snapshot)
    outcomes = queued(lock_of_base(base), *[partial(finish_build, snapshot.pk)] * 2)
    assert outcomes == [True, True]
    snapshot.refresh_from_db()
    assert (snapshot.state, snapshot.members.count()) == ("ready", 4)
    assert find(base.pk).current_snapshot == snapshot


def test_build__cancelled_while_it_is_being_sealed__is_one_or_the_other(
    base: KnowledgeBase, snapshot: IndexSnapshot
) -> None:
    builders.work_off(snapshot)
    cancelled, ended = queued(
        lock_of_base(base),
        partial(cancel_build, actor=builders.ACTOR, base=base, number=1),
        partial(finish_build, snapshot.pk),
    )
    assert cancelled.state == "cancelled"
    assert ended is True
    snapshot.refresh_from_db()
    assert (snapshot.state, snapshot.members.count()) == ("cancelled", 0)
    assert find(base.pk).current_snapshot is None


def test_build__when_another_still_holds_a_piece__is_not_sealed(snapshot: IndexSnapshot) -> None:
    held = claimed(snapshot)
    builders.work_off(snapshot)
    assert finish_build(snapshot.pk) is False
    work_on(held)
    assert finish_build(snapshot.pk) is True


def test_piece__whose_holder_vanished__comes_after_those_nobody_has_tried(
    snapshot: IndexSnapshot,
) -> None:
    first = claimed(snapshot)
    end_leases()
    order = [claimed(snapshot).piece_id for _ in range(4)]
    assert first.piece_id not in order[:3]
    assert order[3] == first.piece_id


@pytest.mark.parametrize(
    ("error", "attempts"),
    [(Unavailable("Not here.", code="model.not_available"), 0), (RuntimeError("A bug."), 1)],
)
def test_piece__that_fails_by_an_error__is_given_back_at_once(
    snapshot: IndexSnapshot, monkeypatch: pytest.MonkeyPatch, error: Exception, attempts: int
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(pieces, "encoder_for", fail)
    claim = claimed(snapshot)
    with pytest.raises(type(error)):
        work_on(claim)
    piece = BuildPiece.objects.get(pk=claim.piece_id)
    assert (piece.state, piece.claim, piece.leased_until) == ("waiting", None, None)
    assert piece.attempts == attempts


def test_claim__lost_before_the_work__leaves_nothing_of_it(snapshot: IndexSnapshot) -> None:
    lost = claimed(snapshot)
    new = taken_over(snapshot, lost)

    work_on(lost)

    with pytest.raises(ClaimLost):
        lost.renew(chunks_done=1)
    assert IndexedDocument.objects.count() == Chunk.objects.count() == 0
    piece = BuildPiece.objects.get(pk=lost.piece_id)
    assert (piece.state, piece.claim) == ("waiting", new.token)
    work_on(new)
    assert IndexedDocument.objects.count() == 1


def test_claim__lost_while_the_result_is_being_written__leaves_nothing_of_it(
    snapshot: IndexSnapshot,
) -> None:
    """The slow worker waits for the row of the one who is taking its piece over."""
    slow = claimed(snapshot)
    with transaction.atomic():
        end_leases()
        working = Running(partial(work_on, slow))
        wait_until(lambda: waiting() >= 1)
        new = taken_over(snapshot, slow)
    assert working.end() is None
    assert IndexedDocument.objects.count() == 0
    work_on(new)
    assert BuildPiece.objects.get(pk=slow.piece_id).state == "done"
    assert IndexedDocument.objects.count() == 1


def test_document__replaced_while_its_base_is_built__waits_for_the_next_build(
    base: KnowledgeBase, snapshot: IndexSnapshot
) -> None:
    document = base.documents.get(name="page 0.md")
    replace = partial(
        replace_document,
        actor=builders.ACTOR,
        base=base,
        document_id=document.pk,
        upload=Upload(name="", content=b"# Page 0\n\nOnly this."),
    )
    together(partial(builders.work_off, snapshot), replace)
    builders.work_off(snapshot)
    assert finish_build(snapshot.pk)
    assert snapshot.members.get(document_id=document.pk).revision_number == 1

    following = builders.build(base)
    assert following.number == 2
    assert following.members.get(document_id=document.pk).revision_number == 2


def test_knowledge_base__deleted_while_workers_build_it__goes_whole(
    base: KnowledgeBase, snapshot: IndexSnapshot
) -> None:
    delete = partial(delete_knowledge_base, actor=builders.ACTOR, knowledge_base_id=base.pk)
    outcomes = together(
        partial(builders.work_off, snapshot), partial(builders.work_off, snapshot), delete
    )
    assert [one for one in outcomes if isinstance(one, Exception)] == []
    for model in (KnowledgeBase, IndexSnapshot, IndexedDocument, Chunk, BuildPiece):
        assert not model.objects.exists()
