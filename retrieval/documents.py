"""Uploading, replacing, changing and deleting documents."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from registry import audit
from registry.actors import Actor
from registry.canonical import digest_bytes
from registry.errors import Conflict, FieldError, Invalid, NotFound, TooLarge
from registry.strict_json import check_text
from retrieval.chunking import Chunking
from retrieval.extraction import detect_type
from retrieval.indexing import request_build
from retrieval.knowledge_bases import lock
from retrieval.models import Document, DocumentRevision, KnowledgeBase

NAME_TAKEN = "document.name_taken"
_LONGEST_NAME = 500
# Told apart from None, which takes a chunking away.
KEEP = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """What came in. ``written`` is a text given as JSON: without an extension it is Markdown."""

    name: str
    content: bytes
    metadata: Mapping[str, Any] | None = None
    written: bool = False


def find_document(base: KnowledgeBase, document_id: uuid.UUID) -> Document:
    """Return a living document. Raises NotFound."""
    document = Document.objects.filter(
        pk=document_id, knowledge_base=base, deleted_at__isnull=True
    ).first()
    if document is None:
        raise NotFound(f"There is no document {document_id}.", code="document.not_found")
    return document


def extracted_segments(document: Document, number: int | None = None) -> list[dict[str, Any]]:
    """Return ``[{page, section, text}]`` of a revision (default: the newest); none while unread.

    Raises NotFound.
    """
    revisions = document.revisions.defer("content").order_by("-number")
    revision = (revisions if number is None else revisions.filter(number=number)).first()
    if revision is None:
        raise NotFound(
            f"{document.name} has no revision {number}.", code="document.revision_not_found"
        )
    extraction = revision.extractions.filter(status="sealed").order_by("-pk").first()
    return [] if extraction is None else list(extraction.segments or [])


def add_document(*, actor: Actor, base: KnowledgeBase, upload: Upload) -> tuple[Document, bool]:
    """Add a document and start the next build; returns it and whether it is new.

    The same name with the same bytes is the document that is there already. Raises Invalid
    (empty, unreadable), TooLarge, UnsupportedType, and Conflict (``document.name_taken``) where
    a living document has the name and other bytes: replacing it is another request.
    """
    name = _checked_name(upload.name)
    metadata = _checked_metadata(upload.metadata)
    detected = _checked_type(name, upload)
    digest = digest_bytes(upload.content)
    with transaction.atomic():
        locked = lock(base.pk)
        existing = Document.objects.filter(
            knowledge_base=locked, name=name, deleted_at__isnull=True
        ).first()
        if existing is not None:
            newest = existing.revisions.order_by("-number")[:1].get()
            if newest.sha256 == digest:
                return existing, False
            raise Conflict(
                f"There is already a document {name!r} with other content; PUT replaces it.",
                code=NAME_TAKEN,
                document=str(existing.pk),
                errors=[_taken(name)],
            )
        document = Document.objects.create(knowledge_base=locked, name=name, metadata=metadata)
        _add_revision(document, 1, upload.content, digest, detected)
        audit.record(
            actor=actor,
            action="document.created",
            object_type="document",
            object_id=document.pk,
            after={
                "knowledgeBase": str(locked.pk),
                "name": name,
                "sha256": digest,
                "metadata": metadata,
            },
        )
        request_build(locked)
    return document, True


def replace_document(
    *, actor: Actor, base: KnowledgeBase, document_id: uuid.UUID, upload: Upload
) -> tuple[Document, bool]:
    """Give a document a new revision; returns it and whether the bytes are new.

    An empty ``upload.name`` keeps the name, None metadata keeps the metadata. Raises as
    ``add_document``, and NotFound.
    """
    with transaction.atomic():
        locked = lock(base.pk)
        document = find_document(locked, document_id)
        name = _checked_name(upload.name) if upload.name else document.name
        named = Upload(name=name, content=upload.content, written=upload.written)
        detected = _checked_type(name, named)
        digest = digest_bytes(upload.content)
        newest = document.revisions.order_by("-number")[:1].get()
        new_bytes = newest.sha256 != digest
        if new_bytes:
            _add_revision(document, newest.number + 1, upload.content, digest, detected)
            audit.record(
                actor=actor,
                action="document.replaced",
                object_type="document",
                object_id=document.pk,
                before={"revision": newest.number, "sha256": newest.sha256},
                after={"revision": newest.number + 1, "sha256": digest},
            )
        changed = _change(
            actor,
            document,
            name=name,
            metadata=upload.metadata,
            enabled=None,
            chunking=document.chunking,
        )
        if new_bytes or changed:
            request_build(locked)
    return document, new_bytes


def update_document(
    *,
    actor: Actor,
    base: KnowledgeBase,
    document_id: uuid.UUID,
    name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    enabled: bool | None = None,
    chunking: object = KEEP,
) -> Document:
    """Rename a document, replace its metadata or switch it on or off: this embeds nothing. Or give
    it a ``chunking`` of its own: this cuts and embeds it anew, and no other document.

    ``chunking`` is ``{strategy?, size?, overlap?}``, in the ranges of the knowledge base's; None
    takes it back to that of the knowledge base. None elsewhere keeps what is. Raises Invalid,
    NotFound, Conflict (``document.name_taken``).
    """
    with transaction.atomic():
        locked = lock(base.pk)
        document = find_document(locked, document_id)
        stored = document.chunking if chunking is KEEP else _checked_chunking(locked, chunking)
        if _change(actor, document, name=name, metadata=metadata, enabled=enabled, chunking=stored):
            request_build(locked)
    return document


def delete_document(*, actor: Actor, base: KnowledgeBase, document_id: uuid.UUID) -> None:
    """Delete a document from the next snapshot on; its name is free at once. Raises NotFound.

    Snapshots that hold it, and so published versions, keep answering from it.
    """
    with transaction.atomic():
        locked = lock(base.pk)
        document = find_document(locked, document_id)
        document.deleted_at = timezone.now()
        document.save(update_fields=["deleted_at"])
        audit.record(
            actor=actor,
            action="document.deleted",
            object_type="document",
            object_id=document.pk,
            before={"knowledgeBase": str(locked.pk), "name": document.name},
        )
        request_build(locked)


def _change(
    actor: Actor,
    document: Document,
    *,
    name: str | None,
    metadata: Mapping[str, Any] | None,
    enabled: bool | None,
    chunking: str | None,
) -> bool:
    before = _described(document)
    if name is not None:
        document.name = _checked_name(name)
    if metadata is not None:
        document.metadata = _checked_metadata(metadata)
    if enabled is not None:
        document.enabled = enabled
    document.chunking = chunking
    after = _described(document)
    if list(before.items()) == list(after.items()) and _same_order(before, after):
        return False
    try:
        with transaction.atomic():
            document.save(update_fields=["name", "metadata", "enabled", "chunking"])
    except IntegrityError as error:
        if "document_name_once_among_living" not in str(error):
            raise
        raise Conflict(
            f"There is already a document {document.name!r}.",
            code="document.name_taken",
            errors=[_taken(document.name)],
        ) from error
    old, new = audit.changed(before, after)
    audit.record(
        actor=actor,
        action="document.updated",
        object_type="document",
        object_id=document.pk,
        before=old,
        after=new,
    )
    return True


def _taken(name: str) -> FieldError:
    return FieldError(
        field="name",
        value=name,
        message="is the name of another document",
        allowed="a name that no living document of this knowledge base has",
    )


def _described(document: Document) -> dict[str, Any]:
    chunking = own_chunking(document)
    return {
        "name": document.name,
        "metadata": document.metadata,
        "enabled": document.enabled,
        "chunking": None if chunking is None else chunking.as_json(),
    }


def own_chunking(document: Document) -> Chunking | None:
    """Return the chunking that ``document`` has of its own, if it has one."""
    return None if document.chunking is None else Chunking.from_stored(document.chunking)


def _checked_chunking(base: KnowledgeBase, chunking: object) -> str | None:
    return None if chunking is None else Chunking.from_json(chunking, base.model.max_tokens).stored


def _same_order(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return repr(before["metadata"]) == repr(after["metadata"])


def _add_revision(
    document: Document, number: int, content: bytes, digest: str, detected: Any
) -> DocumentRevision:
    return DocumentRevision.objects.create(
        document=document,
        number=number,
        sha256=digest,
        size=len(content),
        content=content,
        media_type=detected.media_type,
        notice=detected.notice or "",
    )


def _checked_name(name: str) -> str:
    check_text(name, field="name")
    cleaned = name.strip()
    if not cleaned or len(cleaned) > _LONGEST_NAME:
        raise Invalid.field(
            "name",
            name,
            f"must have 1 to {_LONGEST_NAME} characters",
            allowed={"minLength": 1, "maxLength": _LONGEST_NAME},
        )
    if any(ord(character) < 32 for character in cleaned):
        raise Invalid.field(
            "name",
            name,
            "must not hold control characters",
            allowed="no characters below U+0020",
        )
    return cleaned


def _checked_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise Invalid.field("metadata", metadata, "must be a JSON object", allowed="object")
    return dict(metadata)


def check_size(size: int) -> None:
    """Raise TooLarge where a file of ``size`` bytes is over the limit; for use before reading it."""
    limit = settings.MAX_UPLOAD_BYTES
    if size > limit:
        raise TooLarge(
            f"The file has {size:,} bytes; allowed are {limit:,}.",
            code="document.too_large",
            limit=limit,
            errors=[
                FieldError(
                    field="file",
                    value=size,
                    message="is over the limit",
                    allowed={"maximum": limit},
                )
            ],
        )


def check_upload(upload: Upload) -> None:
    """Raise what ``add_document`` would for the upload itself, whatever is there already."""
    _checked_metadata(upload.metadata)
    _checked_type(_checked_name(upload.name), upload)


def _checked_type(name: str, upload: Upload) -> Any:
    check_size(len(upload.content))
    return detect_type(
        name=name,
        content=upload.content,
        default_text="text/markdown" if upload.written else "text/plain",
    )
