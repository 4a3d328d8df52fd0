"""Loading the example handbook: knowledge bases, documents, an agent, a published version."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agents.aliases import move_alias
from agents.drafting import create_agent, edit_draft
from agents.models import Agent
from agents.publishing import publish_draft
from registry.actors import Actor
from retrieval.documents import Upload, add_document
from retrieval.knowledge_bases import create_knowledge_base, find
from retrieval.models import KnowledgeBase
from retrieval.progress import build_status

Say = Callable[[str], None]
_POLL_SECONDS = 0.5


def load_example(folder: Path, *, actor: Actor, say: Say) -> None:
    """Load the example in ``folder`` and publish it; waits for the workers to index it.

    What an interrupted load has already made is kept and completed.
    """
    described = json.loads((folder / "handbook.json").read_text(encoding="utf-8"))
    bases = {
        entry["key"]: _load_knowledge_base(folder, entry, actor=actor, say=say)
        for entry in described["knowledgeBases"]
    }
    _wait_until_indexed(list(bases.values()), say)
    for entry in described["agents"]:
        _load_agent(entry, bases, actor=actor, say=say)


def _load_knowledge_base(
    folder: Path, entry: Mapping[str, Any], *, actor: Actor, say: Say
) -> KnowledgeBase:
    base = KnowledgeBase.objects.filter(name=entry["name"]).first()
    if base is None:
        values = {key: entry[key] for key in ("name", "chunking", "settings") if key in entry}
        base = create_knowledge_base(actor=actor, values=values)
    source = folder / entry["folder"]
    files = sorted(path for path in source.rglob("*") if path.is_file())
    for path in files:
        name = path.relative_to(folder).as_posix()
        upload = Upload(name=name, content=path.read_bytes(), metadata=entry.get("metadata"))
        add_document(actor=actor, base=base, upload=upload)
    say(f"{entry['name']}: {len(files)} documents")
    return base


def _wait_until_indexed(bases: list[KnowledgeBase], say: Say) -> None:
    shown = ""
    while True:
        builds = [
            (base.name, status)
            for base in bases
            if (status := build_status(find(base.pk))) is not None
        ]
        if not builds:
            return
        text = ", ".join(f"{name} {status.done}/{status.documents}" for name, status in builds)
        if text != shown:
            say(f"indexing {text}")
            shown = text
        time.sleep(_POLL_SECONDS)


def _load_agent(
    entry: Mapping[str, Any], bases: Mapping[str, KnowledgeBase], *, actor: Actor, say: Say
) -> None:
    agent = Agent.objects.filter(slug=entry["slug"]).first()
    if agent is None:
        agent = create_agent(actor=actor, values={"slug": entry["slug"], "name": entry["name"]})
    if not agent.versions.filter(state="published").exists():
        draft = entry["draft"]
        edit_draft(
            actor=actor,
            access=None,
            agent=agent,
            values={
                **draft,
                "bindings": [_with_id(item, bases) for item in draft["bindings"]],
                "tools": [_with_id(item, bases) for item in draft["tools"]],
            },
            expected_revision="*",
            whole=True,
        )
        version = publish_draft(actor=actor, agent=agent, notes="The example handbook.")
        say(f"{agent.slug} version {version.number} published")
    if not agent.aliases.filter(name="production").exists():
        move_alias(actor=actor, agent=agent, name="production", number=1)


def _with_id(item: Mapping[str, Any], bases: Mapping[str, KnowledgeBase]) -> dict[str, Any]:
    """Return a binding or tool with its knowledge base's id where the file has its key."""
    if "knowledgeBase" not in item:
        return dict(item)
    return {**item, "knowledgeBase": str(bases[item["knowledgeBase"]].pk)}
