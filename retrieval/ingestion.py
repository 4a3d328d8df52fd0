"""Many files at once: each is added, replaced or left alone for itself, and none stops another.

Shared by the command, the API and the admin. Each file is one transaction with its audit row; a
file whose bytes are there already costs its hash and no write.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from django.db import transaction

from registry.actors import Actor
from registry.canonical import digest_bytes
from registry.errors import Conflict, Invalid, NotFound, RegistryError
from retrieval.documents import (
    NAME_TAKEN,
    Upload,
    add_document,
    check_size,
    check_upload,
    delete_document,
    replace_document,
)
from retrieval.knowledge_bases import lock
from retrieval.models import Document, DocumentRevision, KnowledgeBase

Kind = Literal["created", "updated", "replaced", "unchanged", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A file on its way in: the document's name, its size in bytes, and how to get its bytes.

    ``read`` may raise OSError or RegistryError.
    """

    name: str
    size: int
    read: Callable[[], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one file; ``document`` is None where it failed and in a dry run.

    ``updated``: the same bytes with other metadata.
    """

    name: str
    kind: Kind
    document: Document | None = None
    error: RegistryError | None = None


def ingest(
    *,
    actor: Actor,
    base: KnowledgeBase,
    files: Iterable[Incoming],
    metadata: Mapping[str, Any] | None = None,
    replace: bool = True,
    dry_run: bool = False,
) -> Iterator[Outcome]:
    """Add each file, or give the document of its name a new revision; yield what became of it.

    ``metadata`` is that of each document; None keeps what a document has. Without ``replace`` a
    name that is taken by other content fails. ``dry_run`` writes nothing. Never raises for a
    file: what is wrong with it is in its outcome.
    """
    known = _known(base)
    seen = set[str]()
    for file in files:
        name = document_name(file.name)
        try:
            if name in seen:
                raise Conflict(
                    f"The name {name!r} comes twice; the first file has it.",
                    code="document.name_repeated",
                )
            seen.add(name)
            upload = Upload(name=name, content=_content(file), metadata=metadata)
            yield _ingest(actor, base, upload, known.get(name), replace=replace, dry_run=dry_run)
        except RegistryError as error:
            yield Outcome(name=name, kind="failed", error=error)


def document_name(path: str) -> str:
    """Return the name of the document that a file makes, in the form it is stored and compared."""
    return unicodedata.normalize("NFC", path).strip()


def in_folder(folder: str, name: str) -> str:
    """Return ``name`` below ``folder``; a blank folder is none."""
    folder = folder.strip().strip("/")
    return f"{folder}/{name}" if folder else name


def delete_missing(
    *,
    actor: Actor,
    base: KnowledgeBase,
    names: Iterable[str],
    folder: str = "",
    keep: Callable[[str], bool] = lambda name: False,
    force: bool = False,
    dry_run: bool = False,
) -> list[Document]:
    """Delete the living documents that have none of ``names``, and return them.

    With a ``folder``, only of those whose names begin with it; never those that ``keep`` names.
    Raises Conflict (``ingest.nothing_found``) for no names at all without ``force``: an empty
    folder is rather a mistake than the wish to delete everything.
    """
    kept = {document_name(name) for name in names}
    if not kept and not force:
        raise Conflict(
            "There is no file at all: deleting what is missing would delete every document.",
            code="ingest.nothing_found",
        )
    living = Document.objects.filter(knowledge_base=base, deleted_at__isnull=True)
    if below := in_folder(folder, ""):
        living = living.filter(name__startswith=below)
    deleted = []
    for document in living.order_by("name"):
        if document.name in kept or keep(document.name):
            continue
        with suppress(NotFound):  # deleted meanwhile by another
            if not dry_run:
                delete_document(actor=actor, base=base, document_id=document.pk)
            deleted.append(document)
    return deleted


def counted(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Return how many files had which outcome, every kind named."""
    counts = Counter(outcome.kind for outcome in outcomes)
    kinds: tuple[Kind, ...] = ("created", "updated", "replaced", "unchanged", "failed")
    return {kind: counts[kind] for kind in kinds}


def _known(base: KnowledgeBase) -> dict[str, tuple[Document, str]]:
    """Return name → document and the digest of its newest revision, in one query."""
    newest = (
        DocumentRevision.objects.filter(
            document__knowledge_base=base, document__deleted_at__isnull=True
        )
        .select_related("document")
        .order_by("document_id", "-number")
        .distinct("document_id")
        .only("sha256", "document")
    )
    return {revision.document.name: (revision.document, revision.sha256) for revision in newest}


def _content(file: Incoming) -> bytes:
    check_size(file.size)
    try:
        return file.read()
    except OSError as error:
        raise Invalid.field(
            "file",
            file.name,
            f"cannot be read: {error.strerror or error}",
            allowed="a file that can be read",
            code="file.unreadable",
        ) from error


def _ingest(
    actor: Actor,
    base: KnowledgeBase,
    upload: Upload,
    known: tuple[Document, str] | None,
    *,
    replace: bool,
    dry_run: bool,
) -> Outcome:
    same = known is not None and known[1] == digest_bytes(upload.content)
    if known is not None and same and upload.metadata is None:
        return Outcome(name=upload.name, kind="unchanged", document=known[0])
    if dry_run:
        check_upload(upload)
        if known is not None and not replace and not same:
            raise _taken(upload.name)
        kind: Kind = "created"
        if known is not None:
            kind = "replaced" if not same else _by_metadata(known[0], upload)
        return Outcome(name=upload.name, kind=kind)
    document, kind = _store(actor, base, upload, replace=replace)
    return Outcome(name=upload.name, kind=kind, document=document)


def _store(
    actor: Actor, base: KnowledgeBase, upload: Upload, *, replace: bool
) -> tuple[Document, Kind]:
    with transaction.atomic():
        locked = lock(base.pk)
        existing = Document.objects.filter(
            knowledge_base=locked, name=upload.name, deleted_at__isnull=True
        ).first()
        if existing is None:
            return add_document(actor=actor, base=locked, upload=upload)[0], "created"
        if not replace:
            return add_document(actor=actor, base=locked, upload=upload)[0], "unchanged"
        otherwise = _by_metadata(existing, upload)
        document, new_bytes = replace_document(
            actor=actor, base=locked, document_id=existing.pk, upload=upload
        )
        return document, "replaced" if new_bytes else otherwise


def _by_metadata(document: Document, upload: Upload) -> Kind:
    """Return what the same bytes are: the order of metadata's keys counts too."""
    if upload.metadata is None or repr(document.metadata) == repr(dict(upload.metadata)):
        return "unchanged"
    return "updated"


def _taken(name: str) -> Conflict:
    return Conflict(f"There is already a document {name!r} with other content.", code=NAME_TAKEN)
