"""Pruning that meets publishes, switches, deletions and builds: what is in use stays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from agents.models import Agent, AgentVersion
from agents.tools import call_tool
from agents.versions import runnable
from retrieval.indexing import finish_build
from retrieval.knowledge_bases import delete_knowledge_base, find
from retrieval.models import (
    Chunk,
    Document,
    IndexedDocument,
    IndexSnapshot,
    KnowledgeBase,
    SnapshotPin,
)
from retrieval.pruning import Keep, Pruned, prune_knowledge_base
from retrieval.questions import Question
from retrieval.verification import Verifier
from tests import builders
from tests.database.threads import lock_of_base, other_session, queued, together

pytestmark = pytest.mark.django_db(transaction=True)

NOTHING_MORE = Keep(last=0, days=0)


@pytest.fixture
def base(transactional_db: None) -> KnowledgeBase:
    return builders.base_with("Returns")


@pytest.fixture
def agent(base: KnowledgeBase) -> Agent:
    made = builders.make_agent("support")
    builders.edit(made, tools=[builders.rag_tool(base)])
    return made


def prune(base: KnowledgeBase) -> Pruned:
    return prune_knowledge_base(actor=builders.ACTOR, knowledge_base_id=base.pk, keep=NOTHING_MORE)


def finished_but_not_sealed(base: KnowledgeBase, days: int = 40) -> IndexSnapshot:
    document = Document.objects.get(name="returns.md")
    builders.replace_text(base, document, f"# Returns\n\nWithin {days} days.")
    return builders.build_unsealed(base)


def assert_answers(agent: Agent, version: AgentVersion) -> None:
    """The version's snapshot is whole and answers."""
    snapshot = SnapshotPin.objects.get(holder_id=str(version.pk)).snapshot
    assert [part.difference for part in Verifier().snapshot(snapshot) if not part.ok] == []
    answer = call_tool(
        version=runnable(agent, version),
        name="search",
        question=Question(query="How many days for a parcel?"),
        access=builders.ACCESS,
    )
    assert answer["results"]


@pytest.mark.parametrize("first", ["publish", "prune"])
def test_publish__with_prune_and_a_switch_at_once__pins_what_stays(
    agent: Agent, base: KnowledgeBase, first: str
) -> None:
    """The switch makes what the publish pins the one before the last, which prune would take."""
    snapshot = finished_but_not_sealed(base)
    publish = partial(builders.publish, agent, accept_outdated=True)
    switch, sweep = partial(finish_build, snapshot.pk), partial(prune, base)
    works: list[Callable[[], Any]] = (
        [publish, switch, sweep] if first == "publish" else [switch, sweep, publish]
    )

    outcomes = queued(lock_of_base(base), *works)

    assert [one for one in outcomes if isinstance(one, Exception)] == []
    version = outcomes[0 if first == "publish" else 2]
    pruned = outcomes[2 if first == "publish" else 1]
    assert pruned.snapshots == ([] if first == "publish" else [1])
    assert_answers(agent, version)


def test_publish_switch_and_prune__again_and_again_at_once__lose_nothing(
    agent: Agent, base: KnowledgeBase
) -> None:
    versions = []
    for number in range(4):
        builders.edit(agent, prompt=f"Prompt {number}")
        snapshot = finished_but_not_sealed(base, number)
        outcomes = together(
            partial(builders.publish, agent, accept_outdated=True),
            partial(finish_build, snapshot.pk),
            partial(prune, base),
            partial(prune, base),
        )
        assert [one for one in outcomes if isinstance(one, Exception)] == []
        versions.append(outcomes[0])
    prune(base)
    for version in versions:
        assert_answers(agent, version)
    held = set(SnapshotPin.objects.values_list("snapshot", flat=True))
    assert set(base.snapshots.values_list("pk", flat=True)) == held | {
        find(base.pk).current_snapshot_id
    }


@pytest.mark.parametrize("first", ["prune", "delete"])
def test_knowledge_base__deleted_while_it_is_pruned__goes_whole(
    base: KnowledgeBase, first: str
) -> None:
    switched = finished_but_not_sealed(base)
    finish_build(switched.pk)
    works: list[Callable[[], Any]] = [
        partial(prune, base),
        partial(delete_knowledge_base, actor=builders.ACTOR, knowledge_base_id=base.pk),
    ]
    outcomes = queued(lock_of_base(base), *(works if first == "prune" else works[::-1]))

    assert [one for one in outcomes if isinstance(one, Exception)] == []
    for model in (KnowledgeBase, IndexSnapshot, IndexedDocument, Chunk, Document):
        assert not model.objects.exists()


def test_prune__while_workers_build_with_the_earlier_chunking__leaves_what_they_share(
    base: KnowledgeBase,
) -> None:
    coarse = set(IndexedDocument.objects.values_list("pk", flat=True))
    for size in (40, 200):
        builders.rechunk(base, size, size // 10)
        if size == 40:
            builders.build(base)

    outcomes = together(partial(builders.build, base), partial(prune, base), partial(prune, base))

    assert [one for one in outcomes if isinstance(one, Exception)] == []
    current = find(base.pk).current_snapshot
    assert current is not None
    assert [part.difference for part in Verifier().snapshot(current) if not part.ok] == []
    assert coarse >= set(current.members.values_list("indexed_document", flat=True)) or (
        outcomes[1].indexed_documents + outcomes[2].indexed_documents > 0
    )


def test_prune__snapshot_that_somebody_is_pinning__is_left(base: KnowledgeBase) -> None:
    """Below the use cases: a pin that is not committed yet, and no lock on the base."""
    switched = finished_but_not_sealed(base)
    finish_build(switched.pk)
    old = base.snapshots.get(number=1)
    with other_session() as pinning:
        pinning.execute(
            "INSERT INTO retrieval_snapshotpin (snapshot_id, knowledge_base_id, holder_kind, "
            "holder_id, holder_label, created_at) VALUES (%s, %s, 'x', 'x', 'x', now())",
            [old.pk, base.pk],
        )
        # The foreign key of the pin holds the base, too: prune must get by, or wait in vain.
        pruned = prune(base)
        pinning.commit()
    assert pruned.snapshots == []
    assert old.members.count() == 2


def test_prune__by_two_at_once__is_done_once(base: KnowledgeBase) -> None:
    switched = finished_but_not_sealed(base)
    finish_build(switched.pk)

    outcomes = queued(lock_of_base(base), partial(prune, base), partial(prune, base))

    assert sorted(one.snapshots for one in outcomes) == [[], [1]]
