"""Proving that what was sealed is what is there, down to bytes, texts and vectors.

Everything is recomputed from the rows and compared with the digests that were written when it
was sealed; the first difference of each part is named. Caches are not asked.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from django.db import connection
from django.db.backends.utils import CursorWrapper

from registry.canonical import digest_bytes
from registry.errors import Damaged
from retrieval.digests import (
    chunk_digest,
    extraction_digest,
    indexed_document_digest,
    snapshot_digest,
    text_digest,
    vector_digest,
)
from retrieval.extractor import segments_of
from retrieval.lexical import document_statistics, is_readable
from retrieval.models import IndexedDocument, IndexSnapshot, SnapshotMember
from retrieval.purging import is_purged
from retrieval.segments import joined_text
from retrieval.term_counts import counted_texts
from retrieval.vectors import from_wire

_ROWS_AT_ONCE = 500
_CHUNKS = """
SELECT ordinal, text, page, section, start, "end", truncated, digest, text_digest,
       vector_send(vector), vector_digest, model_id
FROM retrieval_chunk WHERE indexed_document_id = %s ORDER BY ordinal
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What was found instead of what was sealed; ``chunk`` counts from 0 in its document."""

    what: str
    expected: str | None
    found: str | None
    document: str | None = None
    chunk: int | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "expected": self.expected,
            "found": self.found,
            "document": self.document,
            "chunk": self.chunk,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedPart:
    """One part, whether it holds, and the first difference where it does not."""

    part: str
    difference: Difference | None = None
    purged: bool = False

    @property
    def ok(self) -> bool:
        return self.difference is None

    def as_json(self) -> dict[str, Any]:
        described: dict[str, Any] = {"part": self.part, "ok": self.ok}
        if self.purged:
            described["purged"] = True
        return described


class Verifier:
    """Verifies snapshots; what several of them share is recomputed once.

    ``progress`` is told how many chunks were dealt with since the last time, and each snapshot
    comes to its number of chunks in the end. Memory holds one document at a time.
    """

    def __init__(self, progress: Callable[[int], object] = lambda _: None) -> None:
        self._seen: dict[int, VerifiedPart] = {}
        self._progress = progress

    def snapshot(self, snapshot: IndexSnapshot) -> Iterator[VerifiedPart]:
        """Yield each document of ``snapshot`` and then the snapshot itself."""
        label = f"snapshot {snapshot.number} of knowledge base {snapshot.knowledge_base_id}"
        members = (
            SnapshotMember.objects.filter(snapshot=snapshot)
            .select_related("indexed_document__extraction__revision", "indexed_document__model")
            # Read document by document, when it is its turn.
            .defer(
                "metadata",
                "indexed_document__extraction__segments",
                "indexed_document__extraction__revision__content",
            )
            .order_by("document_id")
        )
        sealed: list[tuple[str, str, int, Any, str]] = []
        chunks = 0
        for member in members.iterator(chunk_size=10):
            indexed = member.indexed_document
            metadata = _metadata_of(member)
            found = self._document(member, indexed)
            if isinstance(metadata, Difference):
                found, metadata = replace(found, difference=found.difference or metadata), None
            yield found
            sealed.append(
                (
                    str(member.document_id),
                    member.name,
                    member.revision_number,
                    metadata,
                    indexed.digest,
                )
            )
            chunks += indexed.chunk_count
        yield VerifiedPart(
            part=label,
            difference=_first(
                _same("its state", "ready", snapshot.state),
                _same("its digest", snapshot.digest, snapshot_digest(sealed)),
                _same("its number of documents", snapshot.document_count, len(sealed)),
                _same("its number of chunks", snapshot.chunk_count, chunks),
            ),
        )

    def differs(
        self, snapshot: IndexSnapshot, document_ids: Collection[uuid.UUID]
    ) -> Difference | None:
        """Return the first difference of some documents of ``snapshot``, or of its own digest."""
        members = SnapshotMember.objects.filter(snapshot=snapshot).order_by("document_id")
        members = members.defer("metadata")
        for member in members.filter(document_id__in=document_ids).select_related(
            "indexed_document__extraction__revision", "indexed_document__model"
        ):
            difference = self._document(member, member.indexed_document).difference
            if difference is not None:
                return difference
        try:
            sealed = [
                (str(document_id), *rest)
                for document_id, *rest in members.values_list(
                    "document_id", "name", "revision_number", "metadata", "indexed_document__digest"
                )
            ]
        except Damaged as error:
            return _unreadable("the metadata of its documents", error)
        return _first(
            _same("its digest", snapshot.digest, snapshot_digest(sealed)),
            _same("its number of documents", snapshot.document_count, len(sealed)),
        )

    def _document(self, member: SnapshotMember, indexed: IndexedDocument) -> VerifiedPart:
        known = self._seen.get(indexed.pk)
        if known is None:
            known = _verify_indexed(indexed, member.name, self._progress)
            self._seen[indexed.pk] = known
        else:
            self._progress(indexed.chunk_count)
        revision = indexed.extraction.revision
        difference = known.difference or _first(
            _same("its revision's number", member.revision_number, revision.number, member.name),
            _same("its document", str(member.document_id), str(revision.document_id), member.name),
        )
        return VerifiedPart(
            part=f"document {member.name} revision {member.revision_number}",
            difference=difference,
            purged=known.purged,
        )


def _metadata_of(member: SnapshotMember) -> Any:
    """Return a member's metadata, or the difference where it cannot be read."""
    try:
        return member.metadata
    except Damaged as error:
        return _unreadable("its metadata", error, member.name)


def _verify_indexed(
    indexed: IndexedDocument, name: str, progress: Callable[[int], object]
) -> VerifiedPart:
    found = _verify_as_read(indexed, name, progress)
    if found.ok or found.purged or not is_purged(indexed.extraction.revision.document_id):
        return found
    # Purged while it was being read, half before and half after.
    again = IndexedDocument.objects.select_related("extraction__revision", "model")
    return _verify_as_read(again.get(pk=indexed.pk), name, lambda _: None)


def _verify_as_read(
    indexed: IndexedDocument, name: str, progress: Callable[[int], object]
) -> VerifiedPart:
    extraction = indexed.extraction
    revision = extraction.revision
    purged = revision.content is None and is_purged(revision.document_id)
    checks: list[Callable[[], Difference | None]] = []
    try:
        segments = segments_of(extraction)
        text = None if purged else joined_text(segments)
    except (Damaged, LookupError, TypeError) as error:
        progress(indexed.chunk_count)
        return VerifiedPart(
            part=name, difference=_unreadable("the text of its extraction", error, name)
        )
    if purged:
        checks.append(
            lambda: _same("what was read out of it, purged", None, extraction.segments, name)
        )
    else:
        checks += [
            lambda: _same(
                "the bytes of its revision",
                revision.sha256,
                digest_bytes(bytes(revision.content or b"")),
                name,
            ),
            lambda: _same("its size", revision.size, len(revision.content or b""), name),
            lambda: _same(
                "the text of its extraction", extraction.digest, extraction_digest(segments), name
            ),
        ]
    sealed: list[tuple[str, str]] = []
    checks += [
        lambda: _verify_chunks(indexed, name, text, sealed, progress),
        lambda: None if text is None else _verify_terms(indexed, name, text),
        lambda: _same("its number of chunks", indexed.chunk_count, len(sealed), name),
        lambda: _same(
            "its digest",
            indexed.digest,
            indexed_document_digest(
                revision_sha256=revision.sha256,
                extraction=extraction.digest,
                chunking=indexed.chunking,
                model_fingerprint=indexed.model.fingerprint,
                chunks=sealed,
            ),
            name,
        ),
    ]
    difference = next((found for check in checks if (found := check()) is not None), None)
    return VerifiedPart(part=name, difference=difference, purged=purged)


def _verify_chunks(
    indexed: IndexedDocument,
    name: str,
    text: str | None,
    sealed: list[tuple[str, str]],
    progress: Callable[[int], object],
) -> Difference | None:
    """Return the first difference among the chunks; ``text`` None means they were purged.

    Purged ones must be empty; what is left of them is proven by their sealed digests.
    """
    with connection.chunked_cursor() as cursor:
        cursor.execute(_CHUNKS, [indexed.pk])
        for position, row in enumerate(_in_batches(cursor)):
            progress(1)
            (ordinal, passage, page, section, start, end, truncated) = row[:7]
            (digest, passage_digest, vector, sealed_vector, model) = row[7:]
            sealed.append((digest, sealed_vector))
            difference = _first(
                _same("its place", position, ordinal, name, position),
                _same("its model", indexed.model_id, model, name, position),
            )
            if difference is None and text is None:
                left = "" if (passage, section, vector) == (None, None, None) else "some"
                difference = _same("its content, purged", "", left, name, position)
            elif difference is None and text is not None:
                place = text[start:end]
                difference = _first(
                    _same("its text", passage_digest, _text_digest(passage), name, position),
                    _same(
                        "its text, page or section",
                        digest,
                        chunk_digest(text=passage or "", page=page, section=section),
                        name,
                        position,
                    ),
                    _same(
                        "its offsets in the extraction",
                        _text_digest(passage),
                        text_digest(place[: len(passage or "")] if truncated else place),
                        name,
                        position,
                    ),
                    _same(
                        "its vector",
                        sealed_vector,
                        None if vector is None else vector_digest(from_wire(vector)),
                        name,
                        position,
                    ),
                )
            if difference is not None:
                return difference
    return None


def _in_batches(cursor: CursorWrapper) -> Iterator[tuple[Any, ...]]:
    while rows := cursor.fetchmany(_ROWS_AT_ONCE):
        yield from rows


def _verify_terms(indexed: IndexedDocument, name: str, document: str) -> Difference | None:
    """Reranking reads these, so a flipped byte in them could change an order."""
    packed = bytes(indexed.term_statistics or b"")
    if not is_readable(packed):
        # Nobody reads these: reranking counts anew.
        return None
    return _same(
        "its term statistics",
        digest_bytes(packed),
        digest_bytes(document_statistics(counted_texts(indexed.pk, document))),
        name,
    )


def _text_digest(passage: str | None) -> str | None:
    return None if passage is None else text_digest(passage)


def _unreadable(what: str, error: Exception, document: str | None = None) -> Difference:
    return Difference(what=what, expected="readable", found=str(error), document=document)


def _same(
    what: str,
    expected: object,
    found: object,
    document: str | None = None,
    chunk: int | None = None,
) -> Difference | None:
    if expected == found:
        return None
    return Difference(
        what=what,
        expected=None if expected is None else str(expected),
        found=None if found is None else str(found),
        document=document,
        chunk=chunk,
    )


def _first(*differences: Difference | None) -> Difference | None:
    return next((one for one in differences if one is not None), None)
