"""A purge that meets builds, publishes and searches: no text comes back, nothing else is lost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from agents.models import Agent, AgentVersion
from agents.versions import runnable
from registry.errors import Conflict
from retrieval import candidates, pieces, search, segments, verification
from retrieval.claims import claim_piece
from retrieval.documents import Upload, delete_document, replace_document
from retrieval.encoders import encoder_for
from retrieval.extractor import extraction_of
from retrieval.indexing import finish_build, start_build
from retrieval.models import (
    BuildPiece,
    Chunk,
    Document,
    DocumentRevision,
    Extraction,
    IndexSnapshot,
    KnowledgeBase,
    PendingVector,
    Purge,
)
from retrieval.pieces import work_on
from retrieval.purging import PurgedDocument, purge_document, purged_documents
from retrieval.questions import Question
from retrieval.verification import Verifier
from tests import builders
from tests.database.attacks import run
from tests.database.threads import lock_of_base, queued, together

pytestmark = pytest.mark.django_db(transaction=True)

QUESTION = Question(query="How many days do I have to send a parcel back?")


@pytest.fixture
def base(transactional_db: None) -> KnowledgeBase:
    return builders.base_with("Returns")


@pytest.fixture
def document(base: KnowledgeBase) -> Document:
    return Document.objects.get(name="returns.md")


def purge(document: Document) -> PurgedDocument:
    return purge_document(
        actor=builders.ACTOR,
        base=document.knowledge_base,
        document_id=document.pk,
        reason="asked for by law",
    )


def started(base: KnowledgeBase) -> IndexSnapshot:
    snapshot = start_build(base.pk)
    assert snapshot is not None
    return snapshot


def left_of(document: Document) -> list[int]:
    """How much of the document's content there is: bytes, segments, passages."""
    return [
        document.revisions.filter(content__isnull=False).count(),
        Extraction.objects.filter(revision__document=document, segments__isnull=False).count(),
        Chunk.objects.filter(
            indexed_document__extraction__revision__document=document, text__isnull=False
        ).count(),
    ]


def first_or_second(first: bool, one: Callable[[], Any], other: Callable[[], Any]) -> list[Any]:
    return [one, other] if first else [other, one]


@pytest.mark.parametrize("purge_first", [True, False])
@pytest.mark.parametrize("lock", ["retrieval_documentrevision", "retrieval_buildpiece"])
def test_purge__while_a_worker_writes_the_document__wins(
    base: KnowledgeBase, lock: str, purge_first: bool
) -> None:
    """Both wait for the same row: the worker when it writes segments, or when it writes chunks."""
    document = builders.add_text(base, "secret.md", "# Secret\n\nMrs Example lives here.")
    snapshot = started(base)
    piece = BuildPiece.objects.get(document=document)
    row = piece.pk if lock == "retrieval_buildpiece" else piece.revision_id
    if lock == "retrieval_buildpiece":
        extraction_of(piece.revision_id)
    claim = claim_piece(snapshot.pk)
    assert claim is not None
    assert claim.piece_id == piece.pk

    outcomes = queued(
        f"SELECT 1 FROM {lock} WHERE id = {row} FOR UPDATE",
        *first_or_second(purge_first, partial(purge, document), partial(work_on, claim)),
    )

    assert [one for one in outcomes if isinstance(one, Exception)] == []
    assert left_of(document) == [0, 0, 0]
    assert finish_build(snapshot.pk) is True
    snapshot.refresh_from_db()
    assert (snapshot.state, snapshot.failed_count) == ("unchanged", 0)
    assert not Extraction.objects.filter(revision__document=document, status="failed").exists()


def test_purge__while_workers_build_its_base__leaves_the_others_indexed(
    base: KnowledgeBase,
) -> None:
    secrets = [
        builders.add_text(base, f"secret {number}.md", f"# Secret {number}\n\n{builders.RETURNS}")
        for number in range(4)
    ]
    snapshot = started(base)

    outcomes = together(
        partial(builders.work_off, snapshot),
        partial(builders.work_off, snapshot),
        *(partial(purge, one) for one in secrets[:2]),
    )

    assert [one for one in outcomes if isinstance(one, Exception)] == []
    assert [left_of(one) for one in secrets[:2]] == [[0, 0, 0]] * 2
    builders.work_off(snapshot)
    assert finish_build(snapshot.pk)
    builders.build(base)
    base.refresh_from_db()
    assert base.current_snapshot is not None
    names = set(base.current_snapshot.members.values_list("name", flat=True))
    assert names == {"returns.md", "warranty.md", "secret 2.md", "secret 3.md"}
    assert purged_documents(base.current_snapshot) == frozenset()


def test_purge__of_a_large_document_half_embedded__leaves_no_vector(
    base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that has committed vectors of it, and would commit more, has lost its claim."""
    monkeypatch.setattr(pieces, "PART", 1)
    monkeypatch.setattr(pieces, "_BATCH", 1)
    text = "\n\n".join(f"# Part {number}\n\n{builders.RETURNS}{number}" for number in range(6))
    document = builders.add_text(base, "secret.md", text)
    snapshot = started(base)
    real = encoder_for(base.model.name)
    seen: list[int] = []

    class Encoder:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def encode_passages(self, texts: Any) -> Any:
            if PendingVector.objects.exists() and not seen:
                seen.append(PendingVector.objects.count())
                purge(document)
            return real.encode_passages(texts)

    monkeypatch.setattr(pieces, "encoder_for", lambda name: Encoder())

    builders.work_off(snapshot)

    assert seen == [1]
    assert PendingVector.objects.count() == 0
    assert left_of(document) == [0, 0, 0]


@pytest.mark.parametrize("purge_first", [True, False])
def test_purge__while_an_agent_publishes__is_seen_by_the_version(
    base: KnowledgeBase, document: Document, purge_first: bool
) -> None:
    agent = builders.make_agent("support")
    builders.edit(agent, tools=[builders.rag_tool(base)])
    outcomes = queued(
        lock_of_base(base),
        *first_or_second(
            purge_first,
            partial(purge, document),
            partial(builders.publish, agent, accept_outdated=True),
        ),
    )
    version = outcomes[1 if purge_first else 0]

    assert isinstance(version, AgentVersion)
    assert left_of(document) == [0, 0, 0]
    assert answer(agent, version, base).purged_documents == 1


def test_publish__after_a_purge_without_its_build__says_that_it_is_outdated(
    base: KnowledgeBase, document: Document
) -> None:
    agent = builders.make_agent("support")
    builders.edit(agent, tools=[builders.rag_tool(base)])
    purge(document)
    with pytest.raises(Conflict) as refused:
        builders.publish(agent)
    assert refused.value.code == "publish.snapshot_outdated"


def answer(agent: Agent, version: AgentVersion, base: KnowledgeBase) -> search.Retrieval:
    return search.retrieve(runnable(agent, version).target(base.pk), QUESTION)


def test_search__with_a_purge_in_its_midst__answers_as_before_or_as_after(
    base: KnowledgeBase, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, version = builders.published(base)
    other = Document.objects.exclude(pk=document.pk).get()
    rank = candidates.rank
    answers = [answer(agent, version, base)]

    # The first purge begins the first epoch, the second follows one that was counted already.
    for purged in (document, other):

        def rank_then_purge(*args: Any, purged: Document = purged) -> Any:
            found = rank(*args)
            if not Purge.objects.filter(revision__document=purged).exists():
                purge(purged)
            return found

        monkeypatch.setattr(search, "rank", rank_then_purge)
        during = answer(agent, version, base)
        after = answer(agent, version, base)

        assert during.receipt in {answers[-1].receipt, after.receipt}
        assert after.purged_documents == len(answers)
        assert str(purged.pk) not in str(after.results)
        answers.append(after)


def test_verify__with_a_purge_in_its_midst__finds_no_difference(
    base: KnowledgeBase, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined_text = segments.joined_text

    def join_then_purge(read: Any) -> str:
        if not Purge.objects.exists():
            purge(document)
        return joined_text(read)

    monkeypatch.setattr(verification, "joined_text", join_then_purge)
    assert base.current_snapshot is not None
    parts = list(Verifier().snapshot(base.current_snapshot))
    assert [part.difference for part in parts] == [None, None, None]


def test_verify__purged_part_with_something_left__is_a_difference(
    base: KnowledgeBase, document: Document
) -> None:
    """Below the triggers: a text that came back by another way."""
    purge(document)
    run(
        "ALTER TABLE retrieval_chunk DISABLE TRIGGER USER",
        "UPDATE retrieval_chunk SET section = 'back' WHERE id = (SELECT min(c.id) FROM "
        "retrieval_chunk AS c WHERE c.text IS NULL)",
        "ALTER TABLE retrieval_chunk ENABLE TRIGGER USER",
    )
    assert base.current_snapshot is not None
    parts = list(Verifier().snapshot(base.current_snapshot))
    (different,) = [part for part in parts if not part.ok]
    assert different.difference is not None
    assert (different.difference.what, different.difference.chunk) == ("its content, purged", 0)


@pytest.mark.parametrize("purge_first", [True, False])
def test_purge__while_the_document_is_replaced__erases_the_new_content_or_refuses_it(
    base: KnowledgeBase, document: Document, purge_first: bool
) -> None:
    replace = partial(
        replace_document,
        actor=builders.ACTOR,
        base=base,
        document_id=document.pk,
        upload=Upload(name="", content=b"# New\n\nMrs Example lives there."),
    )
    outcomes = queued(
        lock_of_base(base), *first_or_second(purge_first, partial(purge, document), replace)
    )
    assert isinstance(outcomes[1 if purge_first else 0], Exception) is purge_first
    assert left_of(document) == [0, 0, 0]
    assert DocumentRevision.objects.filter(document=document).count() == (1 if purge_first else 2)


def test_purge__while_the_document_is_deleted__erases_it_once(
    base: KnowledgeBase, document: Document
) -> None:
    delete = partial(delete_document, actor=builders.ACTOR, base=base, document_id=document.pk)
    outcomes = queued(
        lock_of_base(base), delete, partial(purge, document), partial(purge, document)
    )
    assert [type(one) for one in outcomes] == [type(None), PurgedDocument, PurgedDocument]
    assert Purge.objects.count() == 1
