"""The roots that tests start from, made by the use cases."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from agents.drafting import create_agent, edit_draft
from agents.models import Agent, AgentVersion
from agents.publishing import publish_draft
from registry.access import Access
from registry.actors import Actor
from retrieval.claims import claim_piece
from retrieval.documents import Upload, add_document, replace_document
from retrieval.indexing import finish_build, start_build
from retrieval.knowledge_bases import create_knowledge_base, find, update_knowledge_base
from retrieval.models import Document, IndexSnapshot, KnowledgeBase
from retrieval.pieces import work_on

ACTOR = Actor(kind="command", label="tests")
ACCESS = Access(actor=ACTOR, scope="admin")
_numbers = itertools.count(1)

RETURNS = """# Returns by post

Send the parcel back within 30 days of delivery. We pay the postage inside the European Union.

## Refunds

The money is back on your card five working days after the parcel has reached our warehouse.
"""
WARRANTY = """# Warranty

Lamps are covered for two years from the day of purchase, batteries for six months.

## What is not covered

Damage by water is not covered unless the lamp is marked as waterproof.
"""


def make_base(name: str = "", **values: Any) -> KnowledgeBase:
    return create_knowledge_base(
        actor=ACTOR, values={"name": name or f"Base {next(_numbers)}", **values}
    )


def add_text(
    base: KnowledgeBase, name: str, text: str, metadata: Mapping[str, Any] | None = None
) -> Document:
    upload = Upload(name=name, content=text.encode(), metadata=metadata)
    return add_document(actor=ACTOR, base=base, upload=upload)[0]


def replace_text(base: KnowledgeBase, document: Document, text: str) -> None:
    replace_document(
        actor=ACTOR,
        base=base,
        document_id=document.pk,
        upload=Upload(name="", content=text.encode()),
    )


def rechunk(base: KnowledgeBase, size: int, overlap: int = 0) -> None:
    """Cut a base's documents otherwise, from its next build on; sizes are in tokens."""
    chunking = {"strategy": "recursive", "size": size, "overlap": overlap}
    update_knowledge_base(actor=ACTOR, knowledge_base_id=base.pk, values={"chunking": chunking})


def work_off(snapshot: IndexSnapshot) -> int:
    """Do all pieces of a build in this process, as a worker does; return how many there were."""
    done = 0
    while (claim := claim_piece(snapshot.pk)) is not None:
        work_on(claim)
        done += 1
    return done


def build_unsealed(base: KnowledgeBase) -> IndexSnapshot:
    """Run the build that is due up to its end, but for sealing it."""
    snapshot = start_build(base.pk)
    assert snapshot is not None, "no build was due"
    work_off(snapshot)
    return snapshot


def build(base: KnowledgeBase) -> IndexSnapshot:
    """Run what is due in this process, by the functions that a worker calls."""
    last = None
    while (snapshot := start_build(base.pk)) is not None:
        work_off(snapshot)
        assert finish_build(snapshot.pk)
        last = snapshot
    assert last is not None, "no build was due"
    last.refresh_from_db()
    return last


def base_with(name: str = "", **texts: str) -> KnowledgeBase:
    """A built knowledge base; ``returns_md="…"`` is a document named ``returns.md``."""
    base = make_base(name)
    for key, text in (texts or {"returns_md": RETURNS, "warranty_md": WARRANTY}).items():
        add_text(base, key.replace("_md", ".md"), text)
    build(base)
    return find(base.pk)


def apply_settings(base: KnowledgeBase, **settings: Any) -> KnowledgeBase:
    update_knowledge_base(actor=ACTOR, knowledge_base_id=base.pk, values={"settings": settings})
    return find(base.pk)


def make_agent(slug: str = "") -> Agent:
    return create_agent(actor=ACTOR, values={"slug": slug or f"agent-{next(_numbers)}"})


def edit(agent: Agent, *, accept_warnings: bool = False, **values: Any) -> AgentVersion:
    return edit_draft(
        actor=ACTOR,
        access=None,
        agent=agent,
        values=values,
        expected_revision="*",
        whole=False,
        accept_warnings=accept_warnings,
    )


def rag_tool(base: KnowledgeBase, name: str = "search") -> dict[str, Any]:
    return {
        "type": "rag",
        "name": name,
        "description": "Search the handbook.",
        "knowledgeBase": str(base.pk),
    }


def published(
    base: KnowledgeBase, *, slug: str = "", bindings: Sequence[Mapping[str, Any]] | None = None
) -> tuple[Agent, AgentVersion]:
    """An agent whose version 1 has a binding to ``base`` and a rag tool called ``search``."""
    agent = make_agent(slug)
    edit(
        agent,
        prompt="Answer from the passages.",
        bindings=bindings if bindings is not None else [{"knowledgeBase": str(base.pk)}],
        tools=[rag_tool(base)],
    )
    return agent, publish(agent)


def publish(agent: Agent, **options: Any) -> AgentVersion:
    return publish_draft(actor=ACTOR, agent=agent, **options)
