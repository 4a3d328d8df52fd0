"""Where documents stand on their way into the index: derived, never stored.

One statement per page of documents, the knowledge base's own counters included, so that no build
that ends meanwhile mixes two moments.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from django.db import connection
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from retrieval.models import Document

Status = Literal["pending", "extracted", "indexed", "failed"]
STATUSES: tuple[Status, ...] = get_args(Status)

BUILD_CRASHED = "build.crashed"
_CRASHED = (
    "The worker stopped again and again while it read this document. "
    "POST …/retry on it tries once more."
)

# What decides it, for documents d.
_STANDING = """
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
LEFT JOIN retrieval_indexsnapshot AS h
    ON h.knowledge_base_id = k.id AND h.number = k.last_snapshot_number
    AND h.state = 'failed' AND h.content_revision = k.content_revision
"""
# Every accepted change was looked at by the build of the current snapshot, and still this
# revision is not in it: not for its content. Or by a build that was held back, which says so.
_LEFT_OUT = """(
    d.enabled AND e.status IS DISTINCT FROM 'failed'
    AND m.revision_number IS DISTINCT FROM r.number
    AND (k.shown_revision = k.content_revision
         OR COALESCE(h.crashed @> to_jsonb(d.id::text), FALSE))
)"""
_STATUS = f"""CASE
    WHEN e.status = 'failed' OR {_LEFT_OUT} THEN 'failed'
    WHEN m.revision_number = r.number THEN 'indexed'
    WHEN e.status = 'sealed' THEN 'extracted'
    ELSE 'pending'
END"""
_FIND = f"""
SELECT d.id, {_STATUS}, r.number, r.media_type, r.size, r.sha256, r.notice,
       e.error_code, e.error, e.notices::text, e.pages,
       m.revision_number, i.chunk_count, {_LEFT_OUT}
{_STANDING} WHERE d.id = ANY(%s)
"""
_WITH_STATUS = f"SELECT d.id {_STANDING} WHERE d.deleted_at IS NULL AND {_STATUS} = %s"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentState:
    """A document's newest revision, and what the current snapshot holds of the document."""

    status: Status
    revision: int
    media_type: str
    # In bytes
    size: int
    sha256: str
    upload_notice: str
    error_code: str
    error_sentence: str
    extraction_notices: tuple[str, ...]
    pages: int | None
    # The revision that is searched now, None where none is, and its chunks
    served_revision: int | None
    chunks: int

    @property
    def error(self) -> dict[str, str] | None:
        """What went wrong, ``{code, message}``, where the status is ``failed``."""
        if self.status != "failed":
            return None
        return {"code": self.error_code, "message": self.error_sentence}

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


def document_states(documents: Iterable[Document]) -> dict[uuid.UUID, DocumentState]:
    """Return the state of each document, in one query."""
    with connection.cursor() as cursor:
        cursor.execute(_FIND, [[document.pk for document in documents]])
        return {row[0]: _state(row[1:]) for row in cursor.fetchall()}


def with_status(documents: QuerySet[Document], status: str) -> QuerySet[Document]:
    """Return the living ones among ``documents`` that stand so."""
    return documents.filter(pk__in=RawSQL(_WITH_STATUS, [status]))  # noqa: S611 - constant


def _state(row: tuple[Any, ...]) -> DocumentState:
    was_left_out = row[12]
    return DocumentState(
        status=row[0],
        revision=row[1],
        media_type=row[2],
        size=row[3],
        sha256=row[4],
        upload_notice=row[5],
        error_code=BUILD_CRASHED if was_left_out else row[6] or "",
        error_sentence=_CRASHED if was_left_out else row[7] or "",
        extraction_notices=tuple(json.loads(row[8] or "[]")),
        pages=row[9],
        served_revision=row[10],
        chunks=row[11] or 0,
    )
