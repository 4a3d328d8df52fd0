"""Bringing the documents of a snapshot in from an archive: revisions, extractions, chunks, vectors.

What is here already, to the digest, is shared; what has the same identity and another content is
refused by name. What was purged comes as purged, and what was purged here stays so.
"""

from __future__ import annotations

import uuid
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from django.db import connection
from django.utils import timezone

from registry.archives import ArchiveReader, differs, read_exactly, refused
from retrieval.archive_format import folder_of, read_vector
from retrieval.chunking import Chunking
from retrieval.models import (
    Document,
    DocumentRevision,
    Extraction,
    IndexedDocument,
    IndexSnapshot,
    Purge,
    SnapshotMember,
)
from retrieval.vectors import Vector, literal

Json = dict[str, Any]
Progress = Callable[[int], object]
_BATCH = 500
_COPY_CHUNKS = """
COPY retrieval_chunk (indexed_document_id, model_id, ordinal, text, page, section, start, "end",
                      truncated, digest, text_digest, vector, vector_digest) FROM STDIN
"""


@dataclass(slots=True, kw_only=True)
class AddedDocuments:
    """How much of a snapshot was not here before."""

    documents: int = 0
    revisions: int = 0
    indexed: int = 0
    chunks: int = 0
    # Names that other documents have here: these came as deleted ones, for the version alone.
    hidden: list[str] = field(default_factory=list)
    # Whether the documents that the knowledge base shows are more or newer now.
    shows_more: bool = False


def import_documents(
    reader: ArchiveReader, snapshot: IndexSnapshot, progress: Progress
) -> AddedDocuments:
    """Make the archive's documents of the snapshot's knowledge base the members of ``snapshot``.

    ``progress`` is told how many chunks were brought in since the last time. Raises Invalid
    (``archive.damaged``) for an archive that contradicts itself, Conflict (``import.differs``)
    for one that contradicts what is here.
    """
    loader = _Loader(reader, snapshot, progress)
    loader.load()
    return loader.added


class _Loader:
    """Reads the members of one knowledge base side by side, document by document."""

    def __init__(self, reader: ArchiveReader, snapshot: IndexSnapshot, progress: Progress) -> None:
        folder = folder_of(str(snapshot.knowledge_base_id))
        self.added = AddedDocuments()
        self.base = snapshot.knowledge_base
        self.snapshot = snapshot
        self.dimensions = snapshot.model.dimensions
        self.progress = progress
        self.batches = reader.batches(f"{folder}/documents.jsonl", _BATCH)
        self.segments = reader.lines(f"{folder}/segments.jsonl")
        self.chunks = reader.lines(f"{folder}/chunks.jsonl")
        self.contents_name = f"{folder}/contents.bin"
        self.vectors_name = f"{folder}/vectors.bin"
        self.contents = reader.stream(self.contents_name)
        self.vectors = reader.stream(self.vectors_name)

    def load(self) -> None:
        with self.contents, self.vectors:
            for batch in self.batches:
                SnapshotMember.objects.bulk_create(
                    [
                        SnapshotMember(
                            snapshot=self.snapshot,
                            indexed_document=self._document(said),
                            document_id=uuid.UUID(said["id"]),
                            name=said["name"],
                            revision_number=said["revision"]["number"],
                            metadata=said["metadata"],
                        )
                        for said in batch
                    ]
                )
            left = any(next(lines, None) is not None for lines in (self.segments, self.chunks))
            if left or self.contents.read(1) or self.vectors.read(1):
                raise refused("The archive holds more than its documents.", code="damaged")

    def _document(self, said: Json) -> IndexedDocument:
        document, is_shown = self._own_document(said)
        revision, is_newest = self._revision(document, said)
        self.added.shows_more |= is_shown or (is_newest and document.deleted_at is None)
        extraction = self._extraction(revision, said)
        return self._indexed(revision, extraction, said)

    def _own_document(self, said: Json) -> tuple[Document, bool]:
        identity = uuid.UUID(said["id"])
        document = Document.objects.filter(pk=identity).first()
        if document is None:
            purged = said["purges"] is not None
            taken = (
                not purged
                and self.base.documents.filter(name=said["name"], deleted_at=None).exists()
            )
            document = Document.objects.create(
                id=identity,
                knowledge_base=self.base,
                name=said["name"],
                metadata=said["metadata"],
                chunking=self._own_chunking(said["indexed"]["chunking"]),
                # As a purge leaves it.
                deleted_at=timezone.now() if taken or purged else None,
            )
            self.added.documents += 1
            if taken:
                self.added.hidden.append(said["name"])
            return document, document.deleted_at is None
        if document.knowledge_base_id != self.base.pk:
            raise differs(
                f"The document {said['name']!r} is in another knowledge base",
                document=said["id"],
            )
        return document, False

    def _own_chunking(self, recipe: str) -> str | None:
        same = recipe == self.snapshot.chunking
        return None if same else Chunking.from_recipe(recipe).stored

    def _revision(self, document: Document, said: Json) -> tuple[DocumentRevision, bool]:
        wanted = said["revision"]
        content = (
            None
            if said["purges"] is not None
            else read_exactly(self.contents, wanted["size"], self.contents_name)
        )
        here = document.revisions.filter(number=wanted["number"]).first()
        if here is not None:
            if here.sha256 != wanted["sha256"]:
                raise differs(
                    f"Revision {here.number} of the document {said['name']!r} has another content",
                    document=said["id"],
                    here=here.sha256,
                    archive=wanted["sha256"],
                )
            return here, False
        newest = not document.revisions.filter(number__gt=wanted["number"]).exists()
        made = DocumentRevision.objects.create(
            document=document,
            number=wanted["number"],
            sha256=wanted["sha256"],
            size=wanted["size"],
            content=content,
            media_type=wanted["mediaType"],
            notice=wanted["notice"],
        )
        for purge in said["purges"] or []:
            Purge.objects.create(
                revision=made,
                reason=f"{purge['reason']} (purged {purge['at']}, before the export)",
                actor="import",
            )
        self.added.revisions += 1
        return made, newest and content is not None

    def _extraction(self, revision: DocumentRevision, said: Json) -> Extraction:
        wanted = said["extraction"]
        segments = next(self.segments, None)
        if revision.content is None:
            segments = None  # what was erased here stays erased
        here = Extraction.objects.filter(revision=revision, recipe=wanted["recipe"]).first()
        if here is not None and here.status != "sealed":
            # The revision first, as a worker that is reading it does.
            DocumentRevision.objects.select_for_update(no_key=True).get(pk=revision.pk)
            here = Extraction.objects.select_for_update().get(pk=here.pk)
        if here is not None and here.status == "sealed":
            if here.digest != wanted["digest"]:
                raise differs(
                    f"The document {said['name']!r} was read otherwise", document=said["id"]
                )
            return here
        extraction = here or Extraction(revision=revision, recipe=wanted["recipe"])
        extraction.status = "sealed"
        extraction.error = extraction.error_code = ""
        extraction.segments = segments
        extraction.notices = [] if segments is None else wanted["notices"]
        extraction.pages = wanted["pages"]
        extraction.digest = wanted["digest"]
        extraction.save()
        return extraction

    def _indexed(
        self, revision: DocumentRevision, extraction: Extraction, said: Json
    ) -> IndexedDocument:
        wanted = said["indexed"]
        count = wanted["chunks"]
        rows = islice(self.chunks, count)
        has_vectors = said["purges"] is None
        here = extraction.indexed.filter(
            digest=wanted["digest"], sealed=True, model=self.snapshot.model
        ).first()
        if here is not None:
            for _ in rows:
                if has_vectors:
                    self._vector()
            self.progress(count)
            return here
        indexed = IndexedDocument.objects.create(
            extraction=extraction, chunking=wanted["chunking"], model=self.snapshot.model
        )
        self._copy_chunks(indexed, rows, has_vectors=has_vectors, keep=revision.content is not None)
        indexed.digest = wanted["digest"]
        indexed.chunk_count = count
        if wanted["termStatistics"] is not None:
            indexed.term_statistics = b64decode(wanted["termStatistics"], validate=True)
        indexed.sealed = True
        indexed.save()
        self.added.indexed += 1
        self.added.chunks += count
        return indexed

    def _copy_chunks(
        self, indexed: IndexedDocument, rows: Iterator[Any], *, has_vectors: bool, keep: bool
    ) -> None:
        with (
            connection.cursor() as cursor,
            connection.wrap_database_errors,
            cursor.copy(_COPY_CHUNKS) as copy,
        ):
            for ordinal, row in enumerate(rows):
                text, page, section, start, end, truncated, digest, text_digest, sealed = row
                vector = self._vector() if has_vectors else None
                copy.write_row(
                    (
                        indexed.pk,
                        indexed.model_id,
                        ordinal,
                        text if keep else None,
                        page,
                        section if keep else None,
                        start,
                        end,
                        truncated,
                        digest,
                        text_digest,
                        literal(vector) if keep and vector is not None else None,
                        sealed,
                    )
                )
                self.progress(1)

    def _vector(self) -> Vector:
        return read_vector(self.vectors, self.dimensions, self.vectors_name)
