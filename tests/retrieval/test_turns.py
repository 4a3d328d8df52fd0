"""Who is served first: an edit of one document does not wait for a large build elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from django.db import transaction

from retrieval.build_control import cancel_build, pause_build, resume_build
from retrieval.claims import claim_piece
from retrieval.indexing import SMALL_BYTES, SMALL_DOCUMENTS, is_small, start_build
from retrieval.knowledge_bases import find
from retrieval.models import IndexSnapshot, KnowledgeBase
from retrieval.pieces import work_on
from retrieval.turns import take_turn, work_off_small, work_off_small_builds
from tests import builders
from tests.builders import RETURNS
from tests.worker import Worker, running_worker, wait_until

SHORT = {"strategy": "recursive", "size": 6, "overlap": 0}


def _text(number: int, words: int) -> str:
    return " ".join(f"word{number}x{word}" for word in range(words))


def _make_large(fill: Callable[[KnowledgeBase], None], **values: object) -> KnowledgeBase:
    """A base whose documents are built at once, not one after the other as they come in."""
    base = builders.make_base("Large", **values)
    with transaction.atomic():  # or a worker is quicker, and builds the first alone
        builders.add_text(base, "first.md", "First.")
        pause_build(actor=builders.ACTOR, base=base)
    fill(base)
    return base


def _many_documents(
    base: KnowledgeBase, *, words: int = 400, count: int = SMALL_DOCUMENTS + 4
) -> None:
    for number in range(count):
        builders.add_text(base, f"{number:03}.md", _text(number, words))


def _one_long_document(base: KnowledgeBase) -> None:
    builders.add_text(base, "long.md", _text(0, SMALL_BYTES // 10))


def _number(base: KnowledgeBase) -> int:
    current = find(base.pk).current_snapshot
    return 0 if current is None else current.number


def _large_is_building(base: KnowledgeBase) -> bool:
    return IndexSnapshot.objects.filter(knowledge_base=base, state="building").exists()


@pytest.mark.django_db
def test_build__few_and_short_documents_waiting__is_small() -> None:
    few, many, long = builders.make_base(), builders.make_base(), builders.make_base()
    for number in range(SMALL_DOCUMENTS):
        builders.add_text(few, f"{number}.md", RETURNS)
        builders.add_text(many, f"{number}.md", RETURNS)
    builders.add_text(many, "one more.md", RETURNS)
    builders.add_text(long, "long.md", "x" * (SMALL_BYTES + 1))

    found = [start_build(base.pk) for base in (few, many, long)]

    assert [snapshot is not None and is_small(snapshot) for snapshot in found] == [
        True,
        False,
        False,
    ]


@pytest.mark.django_db
def test_turn__at_a_large_build__works_off_small_ones_first_and_gets_further() -> None:
    large = _make_large(partial(_many_documents, words=5))
    resume_build(actor=builders.ACTOR, base=large)
    new, edited = builders.make_base(), builders.base_with()
    builders.add_text(new, "a.md", "New.")
    builders.replace_text(edited, edited.documents.get(name="returns.md"), "Edited.")

    take_turn(large.pk, seconds=0)

    assert (_number(new), _number(edited)) == (1, 2)
    snapshot = IndexSnapshot.objects.get(knowledge_base=large)
    assert snapshot.state == "building"
    assert snapshot.pieces.filter(state="done").count() == 1


@pytest.mark.django_db
def test_turn__small_build_that_is_paused_or_held_by_others__goes_on_without_it() -> None:
    large = _make_large(partial(_many_documents, words=5))
    resume_build(actor=builders.ACTOR, base=large)
    paused, held = builders.make_base(), builders.make_base()
    builders.add_text(paused, "a.md", "New.")
    pause_build(actor=builders.ACTOR, base=paused)
    builders.add_text(held, "a.md", "New.")
    snapshot = start_build(held.pk)
    assert snapshot is not None
    claim_piece(snapshot.pk)

    take_turn(large.pk, seconds=0)

    assert (_number(paused), _number(held)) == (0, 0)
    assert IndexSnapshot.objects.get(knowledge_base=large).pieces.filter(state="done").exists()


@pytest.mark.django_db
def test_small_build__found_to_be_large__is_left_to_the_turns() -> None:
    large = _make_large(partial(_many_documents, words=5))
    resume_build(actor=builders.ACTOR, base=large)

    work_off_small(large.pk)

    snapshot = IndexSnapshot.objects.get(knowledge_base=large)
    assert snapshot.state == "building"
    assert not snapshot.pieces.exclude(state="waiting").exists()


@pytest.mark.django_db
def test_piece__long_document__lets_other_work_in_between() -> None:
    large, other = builders.make_base(chunking=SHORT), builders.make_base()
    builders.add_text(large, "long.md", _text(0, 200))
    builders.add_text(other, "a.md", "New.")
    snapshot = start_build(large.pk)
    assert snapshot is not None
    claim = claim_piece(snapshot.pk)
    assert claim is not None
    seen: list[tuple[int, str]] = []

    def meanwhile() -> None:
        work_off_small_builds(but=large.pk)
        seen.append((_number(other), snapshot.pieces.get().state))

    work_on(claim, meanwhile=meanwhile)

    assert seen[0] == (1, "waiting")
    assert snapshot.pieces.get().state == "done"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("fill", "chunking"),
    # So many that they take much longer than this process may be held up
    [(partial(_many_documents, count=150), None), (_one_long_document, SHORT)],
    ids=["many documents", "one long document"],
)
def test_edit__while_the_one_worker_is_at_a_large_build__is_current_before_that_ends(
    worker: Worker, fill: Callable[[KnowledgeBase], None], chunking: dict[str, object] | None
) -> None:
    other = builders.make_base()
    builders.add_text(other, "a.md", "Before.")
    wait_until(lambda: _number(other) == 1)
    large = _make_large(fill, chunking=chunking)
    resume_build(actor=builders.ACTOR, base=large)
    wait_until(
        lambda: bool(
            IndexSnapshot.objects.filter(
                knowledge_base=large, state="building", pieces__claim__isnull=False
            )
        )
    )

    builders.replace_text(other, other.documents.get(), "After.")

    wait_until(lambda: _number(other) == 2)
    # Cancelled, which is refused where it has ended, so that the worker need not finish it.
    cancel_build(actor=builders.ACTOR, base=large, number=1)


@pytest.mark.django_db(transaction=True)
def test_worker__reserved_for_edits__does_them_and_leaves_large_builds_alone() -> None:
    large = _make_large(partial(_many_documents, words=5))
    other = builders.make_base()

    with running_worker(queues="edits"):
        resume_build(actor=builders.ACTOR, base=large)
        wait_until(lambda: _large_is_building(large))
        builders.add_text(other, "a.md", "New.")
        wait_until(lambda: _number(other) == 1)

    snapshot = IndexSnapshot.objects.get(knowledge_base=large)
    assert (snapshot.state, snapshot.pieces.exclude(state="waiting").count()) == ("building", 0)
