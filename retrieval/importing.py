"""Bringing a snapshot out of an archive into this installation, beside what is here.

What is here already, to the digest, is shared; what has the same identity and another content is
refused by name. Vectors come with the archive: none is computed, and none of here is taken in
the place of one of there. It runs in the caller's transaction, and the caller proves
afterwards, by ``retrieval.verification``, that the rows are what their digests say.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone

from registry import audit
from registry.actors import Actor
from registry.archives import ArchiveReader, differs
from registry.errors import Conflict
from retrieval.archive_format import described_model
from retrieval.chunking import Chunking
from retrieval.importing_documents import AddedDocuments, import_documents
from retrieval.indexing import request_build
from retrieval.models import EmbeddingModel, IndexSnapshot, KnowledgeBase
from retrieval.search_settings import SETTING_COLUMNS, SearchSettings

Json = dict[str, Any]
Progress = Callable[[int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedBase:
    """What an import did to one knowledge base, for a person and the audit log."""

    base: KnowledgeBase
    snapshot: IndexSnapshot
    created: bool = False
    reused_snapshot: bool = False
    added: AddedDocuments = field(default_factory=AddedDocuments)

    def as_json(self) -> Json:
        return {
            "knowledgeBase": str(self.base.pk),
            "name": self.base.name,
            "created": self.created,
            "snapshot": self.snapshot.number,
            "snapshotDigest": self.snapshot.digest,
            "snapshotWasHere": self.reused_snapshot,
            "documentsAdded": self.added.documents,
            "revisionsAdded": self.added.revisions,
            "indexedDocumentsAdded": self.added.indexed,
            "chunksAdded": self.added.chunks,
            "documentsWithTakenNames": len(self.added.hidden),
        }


def import_snapshot(
    reader: ArchiveReader,
    described: Json,
    *,
    name: str,
    settings: SearchSettings,
    actor: Actor,
    progress: Progress,
) -> ImportedBase:
    """Bring one knowledge base's snapshot in and return it ready to be pinned.

    A base that is not here is made, with the snapshot's documents, as ``name`` with
    ``settings``. One that is here keeps its name, settings, current snapshot and documents; what
    the snapshot needs is added to it, and a build follows where that changes what it shows.
    Raises Invalid for an archive that contradicts itself, Conflict (``import.differs``,
    ``import.building``) for one that contradicts what is here.
    """
    model = _model(described["model"])
    said = described["snapshot"]
    base_id = uuid.UUID(described["id"])
    base = KnowledgeBase.objects.select_for_update().filter(pk=base_id).first()
    created = base is None
    if base is None:
        base = _make_base(base_id, name, model, said, settings)
    elif (here := _same_snapshot(base, model, said["digest"])) is not None:
        progress(said["chunks"])
        return ImportedBase(base=base, snapshot=here, reused_snapshot=True)
    snapshot = _start_snapshot(base, model, said, created=created)
    added = import_documents(reader, snapshot, progress)
    _seal(snapshot, said)
    if created:
        KnowledgeBase.objects.filter(pk=base.pk).update(current_snapshot=snapshot)
    elif added.shows_more:
        request_build(base)
    imported = ImportedBase(base=base, snapshot=snapshot, created=created, added=added)
    audit.record(
        actor=actor,
        action="knowledge_base.imported",
        object_type="knowledge_base",
        object_id=base.pk,
        after=imported.as_json(),
    )
    return imported


def _model(said: Json) -> EmbeddingModel:
    """Return the model by its identity; one that is not here yet is noted, installed or not."""
    known = EmbeddingModel.objects.filter(fingerprint=said["fingerprint"]).first()
    if known is None:
        other = EmbeddingModel.objects.filter(name=said["name"]).first()
        if other is not None:
            raise differs(
                f"The embedding model {other.name!r} has another fingerprint here",
                model=other.name,
                here=other.fingerprint,
                archive=said["fingerprint"],
            )
        return EmbeddingModel.objects.create(
            name=said["name"],
            dimensions=said["dimensions"],
            max_tokens=said["maxTokens"],
            fingerprint=said["fingerprint"],
        )
    if described_model(known) != said:
        raise differs(
            f"The embedding model {said['name']!r} is described otherwise here",
            model=known.name,
        )
    return known


def _make_base(
    base_id: uuid.UUID, name: str, model: EmbeddingModel, said: Json, settings: SearchSettings
) -> KnowledgeBase:
    chunking = Chunking.from_recipe(said["chunking"])
    return KnowledgeBase.objects.create(
        id=base_id,
        name=_free_name(name),
        model=model,
        chunking_strategy=chunking.strategy,
        chunk_size=chunking.size,
        chunk_overlap=chunking.overlap,
        # The snapshot has the number that it has there; builds go on counting from it.
        last_snapshot_number=said["number"],
        content_revision=1,
        settled_revision=1,
        shown_revision=1,
        **{column: getattr(settings, column) for column in SETTING_COLUMNS},
    )


def _free_name(name: str) -> str:
    """Return ``name``, or the next free one after it where another base is called so."""
    wanted, number = name, 1
    while KnowledgeBase.objects.filter(name=wanted).exists():
        number += 1
        ending = f" ({number})"
        wanted = name[: 200 - len(ending)] + ending
    return wanted


def _same_snapshot(base: KnowledgeBase, model: EmbeddingModel, digest: str) -> IndexSnapshot | None:
    return (
        base.snapshots.filter(state="ready", digest=digest, model=model)
        .select_related("model")
        .order_by("-number")
        .first()
    )


def _start_snapshot(
    base: KnowledgeBase, model: EmbeddingModel, said: Json, *, created: bool
) -> IndexSnapshot:
    if base.snapshots.filter(state="building").exists():
        raise Conflict(
            f"{base.name} is being built: wait for the end of the build or cancel it.",
            code="import.building",
            knowledgeBase=str(base.pk),
        )
    if not created:
        base.last_snapshot_number += 1
        base.save(update_fields=["last_snapshot_number"])
    return IndexSnapshot.objects.create(
        knowledge_base=base,
        number=base.last_snapshot_number,
        model=model,
        chunking=said["chunking"],
        content_revision=base.content_revision,
        failed_count=said["failed"],
    )


def _seal(snapshot: IndexSnapshot, said: Json) -> None:
    snapshot.state = "ready"
    snapshot.digest = said["digest"]
    snapshot.document_count = said["documents"]
    snapshot.chunk_count = said["chunks"]
    snapshot.detail = "Imported."
    snapshot.ended_at = timezone.now()
    snapshot.save()
