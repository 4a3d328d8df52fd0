"""What a chunking would make of a document or a text, before it is saved: nothing is written.

Cut by the function that a build calls, with the tokenizer of the embedding model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from registry.errors import Conflict, Invalid
from retrieval.chunking import CUTS, Chunking, Piece, chunk, cuts_after
from retrieval.document_states import document_states
from retrieval.encoders import encoder_for
from retrieval.extraction import ExtractionFailed, detect_type, extract
from retrieval.extractor import newest_reading, segments_of
from retrieval.models import Document, EmbeddingModel
from retrieval.segments import Segment

MOST_CHUNKS = 1000
# In a second or two; what lies behind is not looked at, and the preview says so
MOST_CHARACTERS = 1_000_000
_MARKDOWN = "text/markdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedChunk:
    """A piece, its tokens, and the place that it ends at (``chunking.CUTS``)."""

    ordinal: int
    piece: Piece
    tokens: int
    # How many code points at its start the chunk before has too
    shared: int
    cut: str

    def as_json(self) -> dict[str, Any]:
        return {
            "ordinal": self.ordinal,
            "text": self.piece.text,
            "page": self.piece.page,
            "section": self.piece.section,
            "start": self.piece.start,
            "end": self.piece.end,
            "tokens": self.tokens,
            "shared": self.shared,
            "cut": self.cut,
            "truncated": self.piece.truncated,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPreview:
    """All chunks, and how they compare with those that are searched now."""

    chunking: Chunking
    model: EmbeddingModel
    document: Document | None
    revision: int | None
    chunks: Sequence[PreviewedChunk]
    # The document's chunks in the current snapshot; None for a text, and where it is not in it
    current_chunks: int | None
    # False where only the beginning was cut
    complete: bool

    @property
    def figures(self) -> dict[str, Any]:
        """Count, tokens of the shortest and longest chunk, and how many end at which place."""
        tokens = [one.tokens for one in self.chunks]
        cuts = Counter(one.cut for one in self.chunks)
        return {
            "chunks": len(tokens),
            "currentChunks": self.current_chunks,
            "shortest": min(tokens, default=None),
            "longest": max(tokens, default=None),
            "mean": round(sum(tokens) / len(tokens), 1) if tokens else None,
            "truncated": sum(one.piece.truncated for one in self.chunks),
            "cuts": {cut: cuts[cut] for cut in CUTS if cuts[cut]},
        }

    def as_json(self, *, start: int = 0, limit: int = MOST_CHUNKS) -> dict[str, Any]:
        """Return the preview with up to ``limit`` chunks from the ordinal ``start`` on."""
        return {
            "chunking": self.chunking.as_json(),
            "embeddingModel": self.model.name,
            "document": (
                None
                if self.document is None
                else {
                    "id": str(self.document.pk),
                    "name": self.document.name,
                    "revision": self.revision,
                }
            ),
            "figures": self.figures,
            "complete": self.complete,
            "chunks": [one.as_json() for one in self.chunks[start : start + limit]],
        }


def preview_document(
    *, document: Document, chunking: Chunking, model: EmbeddingModel
) -> ChunkPreview:
    """Cut the newest revision of ``document`` as it was read.

    Raises Conflict: ``document.pending`` where no worker has read it yet, ``document.failed``
    with the reason where it cannot be read, ``document.purged``.
    """
    newest = document.revisions.defer("content").order_by("-number")[:1].get()
    state = document_states([document])[document.pk]
    reading = newest_reading(newest)
    if reading is None:
        raise _not_read(document, state.revision, state.error)
    if reading.segments is None:
        raise Conflict(
            f"The content of {document.name} was purged: there is nothing to cut.",
            code="document.purged",
        )
    return replace(
        _preview(segments_of(reading), chunking, model),
        document=document,
        revision=newest.number,
        current_chunks=state.chunks if state.served_revision is not None else None,
    )


def preview_text(*, text: str, chunking: Chunking, model: EmbeddingModel) -> ChunkPreview:
    """Cut a text as the document that it would be: Markdown, or HTML where it begins so.

    Raises Invalid for one without anything to read.
    """
    content = text.encode()
    kind = detect_type(name="", content=content, default_text=_MARKDOWN)
    try:
        extracted = extract(content, kind.media_type)
    except ExtractionFailed as error:
        raise Invalid.field("text", text, error.sentence, code=error.code) from error
    return _preview(extracted.segments, chunking, model)


def _preview(
    segments: Sequence[Segment], chunking: Chunking, model: EmbeddingModel
) -> ChunkPreview:
    shown = _beginning(segments)
    encoder = encoder_for(model.name)
    pieces = chunk(shown, chunking, encoder)
    cuts = cuts_after(shown, pieces, markdown=chunking.strategy == "markdown")
    chunks, before = [], 0
    for ordinal, (piece, cut) in enumerate(zip(pieces, cuts, strict=True)):
        chunks.append(
            PreviewedChunk(
                ordinal=ordinal,
                piece=piece,
                tokens=len(encoder.token_offsets(piece.text)),
                shared=max(0, before - piece.start),
                cut=cut,
            )
        )
        before = piece.end
    return ChunkPreview(
        chunking=chunking,
        model=model,
        document=None,
        revision=None,
        chunks=chunks,
        current_chunks=None,
        complete=_length(shown) == _length(segments),
    )


def _beginning(segments: Sequence[Segment]) -> list[Segment]:
    shown: list[Segment] = []
    left = MOST_CHARACTERS
    for segment in segments:
        if left <= 0:
            break
        shown.append(replace(segment, text=segment.text[:left]))
        left -= len(segment.text)
    return shown


def _length(segments: Sequence[Segment]) -> int:
    return sum(len(segment.text) for segment in segments)


def _not_read(document: Document, revision: int, error: dict[str, str] | None) -> Conflict:
    if error is None:
        return Conflict(
            f"Revision {revision} of {document.name} has not been read yet: try again when a "
            "worker has.",
            code="document.pending",
        )
    return Conflict(
        f"Revision {revision} of {document.name} could not be read: {error['message']}",
        code="document.failed",
        reason=error,
    )
