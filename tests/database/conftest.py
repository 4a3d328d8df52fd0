"""A small world that every attack starts from, made once per module by the use cases."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import transaction

from agents.aliases import move_alias
from agents.drafting import draft_of
from agents.models import Agent, AgentVersion
from agents.tools import call_tool
from agents.versions import runnable
from registry.installation import installation_id
from retrieval.build_control import cancel_build
from retrieval.evaluation import start_evaluation
from retrieval.evaluation_questions import save_questions
from retrieval.indexing import start_build
from retrieval.knowledge_bases import find
from retrieval.models import Document, DocumentRevision, IndexSnapshot, KnowledgeBase, RerankScore
from retrieval.questions import Question
from tests import builders
from tests.database.attacks import commit, purge
from tests.traces import forget_traces, kept_traces

# Cut into several chunks, whatever the chunking.
LONG = "\n\n".join(
    f"## Rule {number}\n\n{builders.RETURNS.replace('30 days', f'{number} days')}"
    for number in range(10, 16)
)


@dataclass(frozen=True, kw_only=True)
class World:
    """``base`` has three ready snapshots: 1 pinned, 2 held by nobody, 3 current; ``other`` has a
    current one, a cancelled one and one that is being built."""

    base: KnowledgeBase
    other: KnowledgeBase
    agent: Agent
    other_agent: Agent
    version: AgentVersion
    other_version: AgentVersion
    draft: AgentVersion
    document: Document
    pinned: IndexSnapshot
    unheld: IndexSnapshot
    current: IndexSnapshot
    cancelled: IndexSnapshot
    building: IndexSnapshot
    purged: DocumentRevision


def make_world() -> World:
    installation_id()
    base = builders.base_with("Returns")
    agent, version = builders.published(base, slug="support")
    call_tool(
        version=runnable(agent, version),
        name="search",
        question=Question(query="How long do I have to send it back?"),
        access=builders.ACCESS,
    )
    # The writer commits on a connection of its own; this row is the world's, like all the others.
    trace = kept_traces().get()
    trace.pk = uuid.uuid4()
    trace.save(force_insert=True)
    forget_traces()
    RerankScore.objects.create(
        reranker="sha256:" + "0" * 64,
        query_digest=Question(query="How long?").digest,
        chunk_digest="sha256:" + "1" * 64,
        score=0.5,
        provenance="recorded elsewhere",
    )
    move_alias(actor=builders.ACTOR, agent=agent, name="production", number=1)
    document = Document.objects.get(name="returns.md", knowledge_base=base)
    builders.replace_text(base, document, LONG)
    unheld = builders.build(base)
    builders.rechunk(base, 40)
    current = builders.build(base)

    question = {"query": "How long are lamps covered?", "documents": ["returns.md"]}
    save_questions(actor=builders.ACTOR, base=base, questions=[question])
    start_evaluation(actor=builders.ACTOR, base=find(base.pk), snapshots=[1, 3], at_once=60)
    start_evaluation(actor=builders.ACTOR, base=find(base.pk), at_once=0)

    other = builders.base_with("Privacy", secret_md="# Name\n\nMrs Example lives here.")
    other_agent = builders.make_agent("sales")
    builders.edit(other_agent, prompt="Sell lamps.")
    other_version = builders.publish(other_agent)
    builders.add_text(other, "more.md", "# More\n\nA second document.")
    cancelled = start_build(other.pk)
    assert cancelled is not None
    cancel_build(actor=builders.ACTOR, base=other, number=cancelled.number)
    builders.add_text(other, "most.md", "# Most\n\nA third document.")
    building = start_build(other.pk)
    assert building is not None
    purged = DocumentRevision.objects.get(document__name="secret.md")
    commit(*purge(purged.pk))
    pinned = version_snapshot(version)
    cancelled.refresh_from_db()
    return World(
        base=find(base.pk),
        other=find(other.pk),
        agent=agent,
        other_agent=other_agent,
        version=version,
        other_version=other_version,
        draft=draft_of(agent),
        document=document,
        pinned=pinned,
        unheld=unheld,
        current=current,
        cancelled=cancelled,
        building=building,
        purged=purged,
    )


def version_snapshot(version: AgentVersion) -> IndexSnapshot:
    return IndexSnapshot.objects.get(pins__holder_id=str(version.pk))


@pytest.fixture(scope="module")
def _made(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    with django_db_blocker.unblock(), transaction.atomic():
        yield make_world()
        transaction.set_rollback(True)


@pytest.fixture
def world(_made: World, db: None) -> World:
    """The world; what a test does to it is undone afterwards."""
    return _made
