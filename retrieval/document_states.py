"""Where documents stand on their way into the index: derived, never stored.

One statement per page of documents, the knowledge base's own counters included, so that no build
that ends meanwhile mixes two moments.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from django.db import connection

from retrieval.models import Document

Status = Literal["pending", "extracted", "indexed", "failed"]

BUILD_CRASHED = "build.crashed"
_CRASHED = (
    "The worker stopped again and again while it read this document. "
    "POST …/reindex on its knowledge base tries once more."
)

_FIND = """
SELECT d.id, d.enabled, r.number, r.media_type, r.size, r.sha256, r.notice,
       e.status, e.error_code, e.error, e.notices::text, e.pages,
       m.revision_number, i.chunk_count,
       k.shown_revision = k.content_revision
FROM retrieval_document AS d
JOIN retrieval_knowledgebase AS k ON k.id = d.knowledge_base_id
JOIN LATERAL (
    SELECT id, number, media_type, size, sha256, notice FROM retrieval_documentrevision
    WHERE document_id = d.id ORDER BY number DESC LIMIT 1
) AS r ON TRUE
LEFT JOIN LATERAL (
    SELECT status, error_code, error, notices, pages FROM retrieval_extraction
    WHERE revision_id = r.id ORDER BY (status = 'sealed') DESC, id DESC LIMIT 1
) AS e ON TRUE
LEFT JOIN retrieval_snapshotmember AS m
    ON m.snapshot_id = k.current_snapshot_id AND m.document_id = d.id
LEFT JOIN retrieval_indexeddocument AS i ON i.id = m.indexed_document_id
WHERE d.id = ANY(%s)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentState:
    """A document's newest revision, and what the current snapshot holds of the document."""

    enabled: bool
    revision: int
    media_type: str
    # In bytes
    size: int
    sha256: str
    upload_notice: str
    # None until a worker has looked at the revision
    extraction: Literal["pending", "sealed", "failed"] | None
    error_code: str
    error_sentence: str
    extraction_notices: tuple[str, ...]
    pages: int | None
    # The revision that is searched now, None where none is, and its chunks
    served_revision: int | None
    chunks: int
    # Every accepted change was looked at by the build of the current snapshot
    base_is_settled: bool

    @property
    def status(self) -> Status:
        if self.extraction == "failed" or self._was_left_out:
            return "failed"
        if self.served_revision == self.revision:
            return "indexed"
        return "extracted" if self.extraction == "sealed" else "pending"

    @property
    def error(self) -> dict[str, str] | None:
        """What went wrong, ``{code, message}``, where the status is ``failed``."""
        if self.extraction == "failed":
            return {"code": self.error_code, "message": self.error_sentence}
        if self._was_left_out:
            return {"code": BUILD_CRASHED, "message": _CRASHED}
        return None

    @property
    def notices(self) -> list[str]:
        """Sentences for a person about what was guessed, left out or is served instead."""
        notices = [self.upload_notice] if self.upload_notice else []
        notices += self.extraction_notices
        if self.served_revision is not None and self.status == "failed":
            notices.append(
                f"Revision {self.revision} could not be read: searches still find "
                f"revision {self.served_revision}."
            )
        return notices

    @property
    def _was_left_out(self) -> bool:
        """The build that looked at this revision ended without it, and not for its content."""
        return (
            self.enabled
            and self.base_is_settled
            and self.extraction != "failed"
            and self.served_revision != self.revision
        )


def document_states(documents: Iterable[Document]) -> dict[uuid.UUID, DocumentState]:
    """Return the state of each document, in one query."""
    with connection.cursor() as cursor:
        cursor.execute(_FIND, [[document.pk for document in documents]])
        return {row[0]: _state(row[1:]) for row in cursor.fetchall()}


def _state(row: tuple[Any, ...]) -> DocumentState:
    return DocumentState(
        enabled=row[0],
        revision=row[1],
        media_type=row[2],
        size=row[3],
        sha256=row[4],
        upload_notice=row[5],
        extraction=row[6],
        error_code=row[7] or "",
        error_sentence=row[8] or "",
        extraction_notices=tuple(json.loads(row[9] or "[]")),
        pages=row[10],
        served_revision=row[11],
        chunks=row[12] or 0,
        base_is_settled=row[13],
    )
