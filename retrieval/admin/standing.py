"""Where a knowledge base stands, as its page says it: build, settings, what could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from retrieval.chunking import Chunking
from retrieval.document_states import DocumentState, document_states, with_status
from retrieval.extractor import installed_recipe, read_by_another
from retrieval.indexing import outdated
from retrieval.knowledge_bases import chunking_of
from retrieval.models import Document, IndexSnapshot, KnowledgeBase
from retrieval.progress import build_status
from retrieval.search_settings import settings_of

_MOST_FAILED = 100
_SETTINGS = (
    ("defaultTopK", "Default top K", "1 to 50; at most 25 are returned"),
    ("similarityThreshold", "Similarity threshold", "0 to 1"),
    ("maxContextLength", "Max context length", "500 to 16,000 characters"),
    ("rerankEnabled", "Reranking", "on or off"),
    ("diversityEnabled", "Diversity", "on or off"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A document whose newest revision is not searched, and why."""

    document: Document
    state: DocumentState


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the page of a knowledge base shows of it besides its fields."""

    # ``BuildStatus.as_json()`` of the build that is due or running
    build: dict[str, Any] | None
    # The chunking is another than that of the current snapshot
    chunking_waits: bool
    # Sentences about what was accepted and is not in the current snapshot
    not_applied: list[str]
    # How many accepted changes the running build does not look at any more
    waiting: int
    # The snapshot that is being built
    running: IndexSnapshot | None
    # The newest build, where it ended without a result
    ended_badly: IndexSnapshot | None
    documents: int
    switched_off: int
    chunking: str
    settings: list[dict[str, Any]]
    failures: list[Failure]
    # How the installation reads documents, and how many were read otherwise
    extractor: str
    read_by_another: int


def standing_of(base: KnowledgeBase) -> Standing:
    """Return where ``base`` stands now; a handful of queries, whatever its size."""
    build = build_status(base)
    living = Document.objects.filter(knowledge_base=base, deleted_at__isnull=True)
    newest = IndexSnapshot.objects.filter(knowledge_base=base).order_by("-number").first()
    settings = settings_of(base)
    values, effect = settings.as_json(), settings.effect()
    return Standing(
        build=build.as_json() if build else None,
        chunking_waits=_chunking_waits(base),
        not_applied=_not_applied(base),
        waiting=(
            base.content_revision - newest.content_revision
            if newest is not None and newest.state == "building"
            else 0
        ),
        running=newest if newest is not None and newest.state == "building" else None,
        ended_badly=(
            newest
            if build is None and newest is not None and newest.state in {"failed", "cancelled"}
            else None
        ),
        documents=living.count(),
        switched_off=living.filter(enabled=False).count(),
        chunking=_cut(chunking_of(base)),
        settings=[
            {"label": label, "range": allowed, "value": values[name], "effect": effect[name]}
            for name, label, allowed in _SETTINGS
        ],
        failures=_failures(base),
        extractor=installed_recipe(),
        read_by_another=read_by_another([base]).get(base.pk, 0),
    )


def _chunking_waits(base: KnowledgeBase) -> bool:
    current = base.current_snapshot
    return current is not None and current.chunking != chunking_of(base).recipe


def _not_applied(base: KnowledgeBase) -> list[str]:
    current = base.current_snapshot
    if current is None:
        return []
    found: list[str] = []
    if _chunking_waits(base):
        found.append(
            f"Chunking {_cut(chunking_of(base))} is not yet applied: what is searched was cut by "
            f"{_cut(Chunking.from_recipe(current.chunking))}."
        )
    if current.model_id != base.model_id:
        found.append(
            f"The model {base.model} is not yet applied: what is searched was embedded by "
            f"{current.model}."
        )
    behind = outdated(base)
    if behind is not None and behind.changes:
        plural = "change is" if behind.changes == 1 else "changes are"
        found.append(f"{behind.changes} accepted {plural} not yet in the snapshot.")
    return found


def _cut(chunking: Chunking) -> str:
    return f"{chunking.strategy}, {chunking.size} tokens, overlap {chunking.overlap}"


def _failures(base: KnowledgeBase) -> list[Failure]:
    """Return the documents that failed, the first ones by name."""
    failed = with_status(Document.objects.filter(knowledge_base=base), "failed")
    documents = list(failed.order_by("name")[:_MOST_FAILED])
    states = document_states(documents)
    return [Failure(document=document, state=states[document.pk]) for document in documents]
