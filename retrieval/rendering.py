"""Knowledge bases, documents and snapshots as the API shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from registry.access import Access
from retrieval.chunking import Chunking
from retrieval.document_states import DocumentState, document_states
from retrieval.documents import own_chunking
from retrieval.extractor import installed_recipe, read_by_another
from retrieval.knowledge_bases import chunking_of
from retrieval.models import Document, IndexSnapshot, KnowledgeBase, SnapshotPin
from retrieval.pins import shown_holders
from retrieval.progress import Builds, builds_of
from retrieval.search_settings import settings_of
from retrieval.sizes import snapshot_bytes

Json = dict[str, Any]


def render_knowledge_bases(bases: Sequence[KnowledgeBase]) -> list[Json]:
    """Return knowledge bases, selected with model and current snapshot, at two more queries."""
    builds = builds_of(bases)
    outdated = read_by_another(bases)
    return [_knowledge_base(base, builds[base.pk], outdated.get(base.pk, 0)) for base in bases]


def render_knowledge_base(base: KnowledgeBase) -> Json:
    """Return one knowledge base, selected with model and current snapshot."""
    return render_knowledge_bases([base])[0]


def _knowledge_base(base: KnowledgeBase, builds: Builds, outdated: int) -> Json:
    settings = settings_of(base)
    snapshot = base.current_snapshot
    return {
        "id": str(base.pk),
        "name": base.name,
        "embeddingModel": base.model.name,
        "chunking": chunking_of(base).as_json(),
        "settings": settings.as_json(),
        "settingsEffect": settings.effect(),
        "currentSnapshot": None if snapshot is None else _snapshot_in_short(snapshot),
        "build": None if builds.status is None else builds.status.as_json(),
        "lastBuild": None if builds.last is None else builds.last.as_json(),
        "failurePolicy": base.failure_policy,
        "newerExtractor": (
            {"recipe": installed_recipe(), "documents": outdated} if outdated else None
        ),
        "createdAt": base.created_at.isoformat(),
    }


def _snapshot_in_short(snapshot: IndexSnapshot) -> Json:
    return {
        "number": snapshot.number,
        "digest": snapshot.digest or None,
        "state": snapshot.state,
        "documents": snapshot.document_count,
        "chunks": snapshot.chunk_count,
    }


def render_snapshots(
    base: KnowledgeBase, snapshots: Sequence[IndexSnapshot], access: Access
) -> list[Json]:
    """Return snapshots, selected with their model, their size and who holds each, at two more
    queries."""
    holders: dict[int, list[str]] = defaultdict(list)
    for snapshot_id, label in (
        SnapshotPin.objects.filter(snapshot__in=[snapshot.pk for snapshot in snapshots])
        .order_by("holder_label")
        .values_list("snapshot_id", "holder_label")
    ):
        holders[snapshot_id].append(label)
    sizes = snapshot_bytes([snapshot.pk for snapshot in snapshots])
    return [
        {
            **_snapshot_in_short(snapshot),
            "bytes": sizes[snapshot.pk],
            "current": snapshot.pk == base.current_snapshot_id,
            "embeddingModel": snapshot.model.name,
            "chunking": Chunking.from_recipe(snapshot.chunking).as_json(),
            "failedDocuments": snapshot.failed_count,
            "detail": snapshot.detail or None,
            "startedAt": snapshot.started_at.isoformat(),
            "endedAt": snapshot.ended_at.isoformat() if snapshot.ended_at else None,
            "pinnedBy": shown_holders(holders[snapshot.pk], access),
        }
        for snapshot in snapshots
    ]


def render_snapshot(base: KnowledgeBase, snapshot: IndexSnapshot, access: Access) -> Json:
    """Return one snapshot of ``base``, with those of its holders that ``access`` sees."""
    return render_snapshots(base, [snapshot], access)[0]


def render_documents(documents: Sequence[Document]) -> list[Json]:
    """Return documents at one more query."""
    states = document_states(documents)
    return [_document(document, states[document.pk]) for document in documents]


def render_document(document: Document) -> Json:
    """Return one document, with where it stands on its way into the index."""
    return render_documents([document])[0]


def _document(document: Document, state: DocumentState) -> Json:
    chunking = own_chunking(document)
    return {
        "id": str(document.pk),
        "name": document.name,
        "revision": state.revision,
        "servedRevision": state.served_revision,
        "status": state.status,
        "error": state.error,
        "notices": state.notices,
        "enabled": document.enabled,
        "metadata": document.metadata,
        "chunking": None if chunking is None else chunking.as_json(),
        "mediaType": state.media_type,
        "size": state.size,
        "sha256": state.sha256,
        "pages": state.pages,
        "chunks": state.chunks,
        "createdAt": document.created_at.isoformat(),
    }
