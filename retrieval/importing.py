"""Bringing a snapshot out of an archive into this installation, beside what is here.

What is here already, to the digest, is shared; what has the same identity and another content is
refused by name. Vectors come with the archive: none is computed, and none of here is taken in
the place of one of there. Every function runs in the caller's transaction, and the caller proves
afterwards, by ``retrieval.verification``, that the rows are what their digests say.
"""

from __future__ import annotations

import uuid
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import IO, Any

import numpy as np
from django.db import connection
from django.utils import timezone

from registry import audit
from registry.actors import Actor
from registry.archives import ArchiveReader, read_exactly, refused
from registry.errors import Conflict
from retrieval.chunking import Chunking
from retrieval.exporting import (
    QUESTION_VECTORS,
    QUESTIONS,
    SCORES,
    described_model,
    folder_of,
    little_endian,
)
from retrieval.indexing import request_build
from retrieval.models import (
    Document,
    DocumentRevision,
    EmbeddingModel,
    Extraction,
    IndexedDocument,
    IndexSnapshot,
    KnowledgeBase,
    Purge,
    QueryEmbedding,
    RerankScore,
    SnapshotMember,
)
from retrieval.search_settings import SETTING_COLUMNS, SearchSettings
from retrieval.vectors import Vector, literal

Json = dict[str, Any]
Progress = Callable[[int], object]
_BATCH = 500
_COPY_CHUNKS = """
COPY retrieval_chunk (indexed_document_id, model_id, ordinal, text, page, section, start, "end",
                      truncated, digest, text_digest, vector, vector_digest) FROM STDIN
"""


@dataclass(slots=True, kw_only=True)
class ImportedBase:
    """What an import did to one knowledge base, for a person and the audit log."""

    base: KnowledgeBase
    snapshot: IndexSnapshot
    created: bool = False
    reused_snapshot: bool = False
    documents: int = 0
    revisions: int = 0
    indexed: int = 0
    chunks: int = 0
    # Names that other documents have here: these came as deleted ones, for the version alone.
    hidden: list[str] = field(default_factory=list)

    def as_json(self) -> Json:
        return {
            "knowledgeBase": str(self.base.pk),
            "name": self.base.name,
            "created": self.created,
            "snapshot": self.snapshot.number,
            "snapshotDigest": self.snapshot.digest,
            "snapshotWasHere": self.reused_snapshot,
            "documentsAdded": self.documents,
            "revisionsAdded": self.revisions,
            "indexedDocumentsAdded": self.indexed,
            "chunksAdded": self.chunks,
            "documentsWithTakenNames": len(self.hidden),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedQuestions:
    """``different``: asked here before, with a vector that is not the same to the bit."""

    added: int
    different: int


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
    imported = ImportedBase(
        base=base, snapshot=_start_snapshot(base, model, said, created=created), created=created
    )
    shows_more = _Loader(reader, described["id"], imported, progress).load()
    _seal(imported, said)
    if created:
        KnowledgeBase.objects.filter(pk=base.pk).update(current_snapshot=imported.snapshot)
    elif shows_more:
        request_build(base)
    audit.record(
        actor=actor,
        action="knowledge_base.imported",
        object_type="knowledge_base",
        object_id=base.pk,
        after=imported.as_json(),
    )
    return imported


def import_questions(reader: ArchiveReader) -> ImportedQuestions:
    """Bring in the vectors of questions; one that was asked here before keeps its own.

    A question has one vector for ever, and versions here have answered with it.
    """
    added = different = 0
    with reader.stream(QUESTION_VECTORS) as vectors:
        for batch in _batches(reader.lines(QUESTIONS)):
            rows = _questions(batch, vectors)
            before = _stored(rows)
            QueryEmbedding.objects.bulk_create(rows, ignore_conflicts=True)
            for row in rows:
                here = before.get((row.model_id, row.query_digest))
                added += here is None
                different += here is not None and here != little_endian(row.vector)
            QueryEmbedding.objects.filter(
                pk__in=[found.pk for found in _found(rows) if not found.kept]
            ).update(kept=True)
        if vectors.read(1):
            raise refused(f"{QUESTION_VECTORS} is longer than its list.", code="damaged")
    return ImportedQuestions(added=added, different=different)


def import_scores(reader: ArchiveReader) -> ImportedQuestions:
    """Bring in what cross-encoders said; what was said here before stays, as with questions."""
    added = different = 0
    for batch in _batches(reader.lines(SCORES)):
        wanted = {
            (reranker, query, chunk): RerankScore(
                reranker=reranker,
                query_digest=query,
                chunk_digest=chunk,
                score=score,
                provenance=provenance,
            )
            for reranker, query, chunk, score, provenance in batch
        }
        before = {
            (one.reranker, one.query_digest, one.chunk_digest): one.score
            for one in RerankScore.objects.filter(
                query_digest__in={query for _, query, _ in wanted},
                chunk_digest__in={chunk for *_, chunk in wanted},
            )
        }
        RerankScore.objects.bulk_create(wanted.values(), ignore_conflicts=True)
        added += len(wanted.keys() - before.keys())
        different += sum(before.get(key, row.score) != row.score for key, row in wanted.items())
    return ImportedQuestions(added=added, different=different)


def _model(said: Json) -> EmbeddingModel:
    """Return the model by its identity; one that is not here yet is noted, installed or not."""
    known = EmbeddingModel.objects.filter(fingerprint=said["fingerprint"]).first()
    if known is None:
        other = EmbeddingModel.objects.filter(name=said["name"]).first()
        if other is not None:
            raise _differs(
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
        raise _differs(
            f"The embedding model {said['name']!r} is described otherwise here",
            model=known.name,
        )
    return known


def _differs(sentence: str, **data: Any) -> Conflict:
    return Conflict(f"{sentence} than in the archive.", code="import.differs", **data)


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


def _seal(imported: ImportedBase, said: Json) -> None:
    snapshot = imported.snapshot
    snapshot.state = "ready"
    snapshot.digest = said["digest"]
    snapshot.document_count = said["documents"]
    snapshot.chunk_count = said["chunks"]
    snapshot.detail = "Imported."
    snapshot.ended_at = timezone.now()
    snapshot.save()


class _Loader:
    """Reads the members of one knowledge base side by side, document by document."""

    def __init__(
        self, reader: ArchiveReader, base_id: str, imported: ImportedBase, progress: Progress
    ) -> None:
        folder = folder_of(base_id)
        self.imported = imported
        self.base = imported.base
        self.snapshot = imported.snapshot
        self.dimensions = imported.snapshot.model.dimensions
        self.progress = progress
        self.documents = reader.lines(f"{folder}/documents.jsonl")
        self.segments = reader.lines(f"{folder}/segments.jsonl")
        self.chunks = reader.lines(f"{folder}/chunks.jsonl")
        self.contents_name = f"{folder}/contents.bin"
        self.vectors_name = f"{folder}/vectors.bin"
        self.contents = reader.stream(self.contents_name)
        self.vectors = reader.stream(self.vectors_name)

    def load(self) -> bool:
        """Write everything; return whether the base's own documents are more or newer now."""
        shows_more = False
        with self.contents, self.vectors:
            for batch in _batches(self.documents):
                members = []
                for said in batch:
                    indexed, more = self._document(said)
                    shows_more |= more
                    members.append(
                        SnapshotMember(
                            snapshot=self.snapshot,
                            indexed_document=indexed,
                            document_id=uuid.UUID(said["id"]),
                            name=said["name"],
                            revision_number=said["revision"]["number"],
                            metadata=said["metadata"],
                        )
                    )
                SnapshotMember.objects.bulk_create(members)
            left = any(next(lines, None) is not None for lines in (self.segments, self.chunks))
            if left or self.contents.read(1) or self.vectors.read(1):
                raise refused("The archive holds more than its documents.", code="damaged")
        return shows_more

    def _document(self, said: Json) -> tuple[IndexedDocument, bool]:
        document, more = self._own_document(said)
        revision, is_newest = self._revision(document, said)
        extraction = self._extraction(revision, said)
        indexed = self._indexed(revision, extraction, said)
        return indexed, more or (is_newest and document.deleted_at is None)

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
            self.imported.documents += 1
            if taken:
                self.imported.hidden.append(said["name"])
            return document, document.deleted_at is None
        if document.knowledge_base_id != self.base.pk:
            raise _differs(
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
                raise _differs(
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
        self.imported.revisions += 1
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
                raise _differs(
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
        self.imported.indexed += 1
        self.imported.chunks += count
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
        return _read_vector(self.vectors, self.dimensions, self.vectors_name)


def _read_vector(stream: IO[bytes], dimensions: int, name: str) -> Vector:
    content = read_exactly(stream, 4 * dimensions, name)
    return np.frombuffer(content, dtype="<f4").astype(np.float32)


def _questions(said: Iterable[Any], vectors: IO[bytes]) -> list[QueryEmbedding]:
    models = {model.fingerprint: model for model in EmbeddingModel.objects.all()}
    rows = []
    for fingerprint, digest, truncated, provenance in said:
        model = models[fingerprint]
        rows.append(
            QueryEmbedding(
                model=model,
                query_digest=digest,
                vector=_read_vector(vectors, model.dimensions, QUESTION_VECTORS),
                truncated=truncated,
                provenance=provenance,
                kept=True,
            )
        )
    return rows


def _found(rows: Iterable[QueryEmbedding]) -> list[QueryEmbedding]:
    digests: dict[int, list[str]] = {}
    for row in rows:
        digests.setdefault(row.model_id, []).append(row.query_digest)
    return [
        found
        for model_id, wanted in digests.items()
        for found in QueryEmbedding.objects.filter(model_id=model_id, query_digest__in=wanted)
    ]


def _stored(rows: Iterable[QueryEmbedding]) -> dict[tuple[int, str], bytes]:
    return {
        (found.model_id, found.query_digest): little_endian(np.asarray(found.vector))
        for found in _found(rows)
    }


def _batches(items: Iterator[Any]) -> Iterator[list[Any]]:
    while batch := list(islice(items, _BATCH)):
        yield batch
