"""Creating, changing and deleting knowledge bases."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import QuerySet

from registry import audit, requests
from registry.access import Access
from registry.actors import Actor
from registry.errors import Conflict, FieldError, Invalid, NotFound
from retrieval import reranking
from retrieval.chunking import Chunking
from retrieval.embedding_models import known_model
from retrieval.indexing import request_build
from retrieval.models import (
    BuildPiece,
    Document,
    DocumentRevision,
    Evaluation,
    Extraction,
    IndexedDocument,
    IndexSnapshot,
    KnowledgeBase,
)
from retrieval.pins import holders_of, shown_holders
from retrieval.search_settings import (
    SETTING_COLUMNS,
    SearchSettings,
    read_settings,
    settings_of,
)

MEMBERS = ("name", "embeddingModel", "chunking", "settings", "failurePolicy")
NAME_TAKEN = "knowledge_base.name_taken"
FAILURE_POLICIES = tuple(str(policy) for policy in KnowledgeBase.FailurePolicy)


def chunking_of(base: KnowledgeBase) -> Chunking:
    """Return how ``base`` is cut from now on."""
    return Chunking(
        strategy=base.chunking_strategy, size=base.chunk_size, overlap=base.chunk_overlap
    )


def find(knowledge_base_id: uuid.UUID, access: Access | None = None) -> KnowledgeBase:
    """Return a knowledge base. Raises NotFound, also where ``access`` may not see it."""
    if access is not None:
        access.require_knowledge_base(knowledge_base_id)
    base = (
        KnowledgeBase.objects.select_related("model", "current_snapshot")
        .filter(pk=knowledge_base_id)
        .first()
    )
    if base is None:
        raise NotFound(
            f"There is no knowledge base {knowledge_base_id}.", code="knowledge_base.not_found"
        )
    return base


def create_knowledge_base(*, actor: Actor, values: Mapping[str, Any]) -> KnowledgeBase:
    """Create a knowledge base from ``{name, embeddingModel?, chunking?, settings?,
    failurePolicy?}``.

    Raises Invalid naming the member, its value and what is allowed; Conflict where the name is
    taken (``knowledge_base.name_taken``).
    """
    requests.refuse_unknown(values, MEMBERS)
    name = requests.text(values, "name", longest=200).strip()
    model = known_model(
        requests.text(values, "embeddingModel", default=settings.EMBEDDING_MODEL, longest=200)
    )
    wanted = values.get("chunking")
    chunking = Chunking.from_json({} if wanted is None else wanted, model.max_tokens)
    search_settings = read_settings(values.get("settings"), SearchSettings())
    reranking.require_available(search_settings)
    failure_policy = requests.choice(
        values, "failurePolicy", FAILURE_POLICIES, default=FAILURE_POLICIES[0]
    )
    try:
        with transaction.atomic():
            base = KnowledgeBase.objects.create(
                name=name,
                model=model,
                chunking_strategy=chunking.strategy,
                chunk_size=chunking.size,
                chunk_overlap=chunking.overlap,
                failure_policy=failure_policy,
                **_columns(search_settings),
            )
            audit.record(
                actor=actor,
                action="knowledge_base.created",
                object_type="knowledge_base",
                object_id=base.id,
                after=_described(base),
            )
    except IntegrityError as error:
        raise _name_taken(name, error) from error
    return base


def update_knowledge_base(
    *, actor: Actor, knowledge_base_id: uuid.UUID, values: Mapping[str, Any]
) -> KnowledgeBase:
    """Change name, model, chunking, settings or policy; settings merge, chunking is replaced whole.

    Another model or chunking starts a build; what is served stays until it is ready. So does no
    longer holding builds back, after one was. Published versions keep the settings they were
    published with. Raises as ``create_knowledge_base``.
    """
    requests.refuse_unknown(values, MEMBERS)
    name = ""
    try:
        with transaction.atomic():
            base = lock(knowledge_base_id)
            before = _described(base)
            if "name" in values:
                base.name = name = requests.text(values, "name", longest=200).strip()
            if "embeddingModel" in values:
                base.model = known_model(requests.text(values, "embeddingModel", longest=200))
            if values.get("chunking") is not None:
                chunking = Chunking.from_json(values["chunking"], base.model.max_tokens)
                base.chunking_strategy = chunking.strategy
                base.chunk_size = chunking.size
                base.chunk_overlap = chunking.overlap
            elif base.chunk_size > base.model.max_tokens - 2:
                raise Invalid.field(
                    "chunking.size",
                    base.chunk_size,
                    f"is over what {base.model.name} reads",
                    allowed={"minimum": 1, "maximum": base.model.max_tokens - 2},
                )
            if "embeddingModel" in values:
                _require_room(base)
            if "failurePolicy" in values:
                base.failure_policy = requests.choice(
                    values, "failurePolicy", FAILURE_POLICIES, default=""
                )
            if "settings" in values:
                search_settings = read_settings(values["settings"], settings_of(base))
                reranking.require_available(search_settings)
                for column, value in _columns(search_settings).items():
                    setattr(base, column, value)
            after = _described(base)
            if after != before:
                base.save()
                old, new = audit.changed(before, after)
                audit.record(
                    actor=actor,
                    action="knowledge_base.updated",
                    object_type="knowledge_base",
                    object_id=base.id,
                    before=old,
                    after=new,
                )
                no_longer_held = "failurePolicy" in new and _was_held_back(base)
                if "chunking" in new or "embeddingModel" in new or no_longer_held:
                    request_build(base)
    except IntegrityError as error:
        raise _name_taken(name, error) from error
    return find(knowledge_base_id)


def _require_room(base: KnowledgeBase) -> None:
    """Refuse a model that does not read what a document's own chunking makes."""
    most = base.model.max_tokens - 2
    own = Document.objects.filter(
        knowledge_base=base, deleted_at=None, chunking__isnull=False
    ).order_by("name")
    for name, chunking in own.values_list("name", "chunking"):
        size = Chunking.from_stored(chunking or "").size
        if size > most:
            raise Invalid.field(
                "embeddingModel",
                base.model.name,
                f"reads {most} tokens; the chunking of {name!r} has a size of {size}",
                allowed={"minimum": 1, "maximum": most},
            )


def _was_held_back(base: KnowledgeBase) -> bool:
    return IndexSnapshot.objects.filter(
        knowledge_base=base, number=base.last_snapshot_number, state="failed"
    ).exists()


def delete_knowledge_base(
    *, actor: Actor, knowledge_base_id: uuid.UUID, access: Access | None = None
) -> None:
    """Delete a knowledge base with everything in it.

    Raises Conflict (``knowledge_base.in_use``) naming every published version and draft that
    holds it, those of agents outside ``access`` without their names.
    """
    with transaction.atomic():
        base = lock(knowledge_base_id)
        holders = holders_of(base)
        if access is not None:
            holders = shown_holders(holders, access)
        if holders:
            raise Conflict(
                f"{base.name} is in use by {', '.join(holders)}.",
                code="knowledge_base.in_use",
                holders=holders,
            )
        audit.record(
            actor=actor,
            action="knowledge_base.deleted",
            object_type="knowledge_base",
            object_id=base.id,
            before=_described(base),
        )
        _delete_rows(base.id)


def lock(knowledge_base_id: uuid.UUID) -> KnowledgeBase:
    """Return a knowledge base locked for this transaction. Raises NotFound."""
    base = (
        KnowledgeBase.objects.select_for_update(of=("self",))
        .select_related("model")
        .filter(pk=knowledge_base_id)
        .first()
    )
    if base is None:
        raise NotFound(
            f"There is no knowledge base {knowledge_base_id}.", code="knowledge_base.not_found"
        )
    return base


def _delete_rows(knowledge_base_id: uuid.UUID) -> None:
    """Delete wholes before their parts: foreign keys are deferred, and the triggers want it so.

    The pieces of a running build go first, which waits for the workers that are writing; then
    the revisions are locked, so that no worker adds an extraction to what is about to go.
    """
    BuildPiece.objects.filter(snapshot__knowledge_base=knowledge_base_id).delete()
    documents = _ids(Document.objects.filter(knowledge_base=knowledge_base_id))
    revisions = _ids(DocumentRevision.objects.select_for_update().filter(document_id__in=documents))
    snapshots = _ids(IndexSnapshot.objects.filter(knowledge_base=knowledge_base_id))
    extractions = _ids(Extraction.objects.filter(revision_id__in=revisions))
    indexed = _ids(IndexedDocument.objects.filter(extraction_id__in=extractions))
    evaluations = _ids(Evaluation.objects.filter(knowledge_base=knowledge_base_id))
    with connection.cursor() as cursor:
        for table, column, ids in (
            ("knowledgebase", "id", [knowledge_base_id]),
            ("indexsnapshot", "id", snapshots),
            ("snapshotmember", "snapshot_id", snapshots),
            ("indexeddocument", "id", indexed),
            ("chunk", "indexed_document_id", indexed),
            ("extraction", "id", extractions),
            ("document", "id", documents),
            ("documentrevision", "id", revisions),
            ("evaluation", "id", evaluations),
            ("evaluationscore", "evaluation_id", evaluations),
            ("evaluationquestion", "knowledge_base_id", [knowledge_base_id]),
        ):
            cursor.execute(f"DELETE FROM retrieval_{table} WHERE {column} = ANY(%s)", [ids])


def _ids(rows: QuerySet[Any]) -> list[Any]:
    return list(rows.order_by("pk").values_list("pk", flat=True))


def _columns(values: SearchSettings) -> dict[str, Any]:
    return {column: getattr(values, column) for column in SETTING_COLUMNS}


def _described(base: KnowledgeBase) -> dict[str, Any]:
    return {
        "name": base.name,
        "embeddingModel": base.model.name,
        "chunking": chunking_of(base).as_json(),
        "settings": settings_of(base).as_json(),
        "failurePolicy": base.failure_policy,
    }


def _name_taken(name: str, error: IntegrityError) -> Exception:
    if "retrieval_knowledgebase_name" in str(error):
        return Conflict(
            f"There is already a knowledge base named {name!r}.",
            code=NAME_TAKEN,
            errors=[
                FieldError(
                    field="name",
                    value=name,
                    message="is the name of another knowledge base",
                    allowed="a name that no knowledge base has",
                )
            ],
        )
    return error
