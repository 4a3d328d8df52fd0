"""How this installation reads documents, and when a revision is read anew.

The recipe names everything that decides a text. A revision that has been read stays as it was
read: a newer extractor reads it again on request only (``retrieval.build_control.reindex``).
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Sequence

from django.conf import settings
from django.db import connection
from django.db.models import Q
from django.utils import timezone

from registry.fields import dump_received
from retrieval.digests import extraction_digest
from retrieval.extraction import ExtractionFailed, Ocr, extract, installed_ocr, recipe
from retrieval.models import DocumentRevision, Extraction, KnowledgeBase
from retrieval.segments import Segment

logger = logging.getLogger("retrieval.extractor")

_COUNT_READ_BY_ANOTHER = """
SELECT d.knowledge_base_id, COUNT(*) FROM retrieval_document AS d
JOIN LATERAL (
    SELECT id FROM retrieval_documentrevision
    WHERE document_id = d.id AND content IS NOT NULL ORDER BY number DESC LIMIT 1
) AS r ON TRUE
WHERE d.knowledge_base_id = ANY(%(bases)s) AND d.deleted_at IS NULL
  AND EXISTS (
      SELECT 1 FROM retrieval_extraction WHERE revision_id = r.id AND status = 'sealed'
  )
  AND NOT EXISTS (
      SELECT 1 FROM retrieval_extraction
      WHERE revision_id = r.id AND recipe = %(recipe)s AND status <> 'pending'
  )
GROUP BY d.knowledge_base_id
"""
# The revision first, as whoever deletes or purges it does: the other way round deadlocks.
_STORE = """
WITH held AS (
    SELECT id FROM retrieval_documentrevision
    WHERE id = %(revision)s AND content IS NOT NULL FOR NO KEY UPDATE
)
INSERT INTO retrieval_extraction
    (revision_id, recipe, status, error_code, error, notices, segments, pages, digest, created_at)
SELECT id, %(recipe)s, %(status)s, %(error_code)s, %(error)s, %(notices)s, %(segments)s,
       %(pages)s, %(digest)s, %(now)s
FROM held
ON CONFLICT (revision_id, recipe) DO UPDATE
SET status = EXCLUDED.status, error_code = EXCLUDED.error_code, error = EXCLUDED.error,
    notices = EXCLUDED.notices, segments = EXCLUDED.segments, pages = EXCLUDED.pages,
    digest = EXCLUDED.digest
WHERE retrieval_extraction.status = 'pending'
RETURNING id
"""
# What was counted last: it changes with the documents of a base and when a build ends
_counted: dict[uuid.UUID, tuple[tuple[int, int, str], int]] = {}
_MOST_REMEMBERED = 10_000


class RevisionGone(Exception):
    """The revision was purged while it was read, or deleted with its knowledge base."""


def ocr() -> Ocr | None:
    """Return what reads pages that are pictures; None where the setting or the machine says so."""
    if settings.OCR != "auto":
        return None
    return installed_ocr(settings.OCR_LANGUAGES, settings.OCR_DATA_DIR)


def installed_recipe() -> str:
    """Return the recipe by which this process reads documents."""
    return recipe(ocr())


def newest_reading(revision: DocumentRevision) -> Extraction | None:
    """Return what was read out of ``revision``, by the newest of the recipes that have read it."""
    return revision.extractions.filter(status="sealed").order_by("-pk").first()


def segments_of(extraction: Extraction) -> list[Segment]:
    """Return the segments of a sealed extraction; none after a purge."""
    return [
        Segment(page=item["page"], section=item["section"], text=item["text"])
        for item in extraction.segments or []
    ]


def extraction_of(revision_id: int, *, is_unread: bool = False) -> Extraction:
    """Return the newest sealed extraction of a revision, or try the installed recipe.

    One that waits to be read anew is read; where that fails, the earlier reading stays. The
    caller may know that the revision ``is_unread``. Raises RevisionGone.
    """
    wanted = installed_recipe()
    sealed = None
    if not is_unread:
        found = list(
            Extraction.objects.filter(Q(status="sealed") | Q(recipe=wanted), revision=revision_id)
            .order_by("-pk")
            .defer("segments")
        )
        sealed = next((one for one in found if one.status == "sealed"), None)
        tried = next((one for one in found if one.recipe == wanted), None)
        waits = tried is not None and tried.status == "pending"
        if sealed is not None and not waits:
            return sealed
        if tried is not None and not waits:
            return tried
    extraction = _read(revision_id, wanted)
    return sealed if sealed is not None and extraction.status == "failed" else extraction


def _read(revision_id: int, recipe: str) -> Extraction:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT content, media_type FROM retrieval_documentrevision "
            "WHERE id = %s AND content IS NOT NULL",
            [revision_id],
        )
        revision = cursor.fetchone()
    if revision is None:
        raise RevisionGone
    content, media_type = revision
    extraction = Extraction(revision_id=revision_id, recipe=recipe)
    try:
        extracted = extract(bytes(content), media_type, ocr=ocr())
    except ExtractionFailed as error:
        extraction.status = "failed"
        extraction.error_code = error.code
        extraction.error = error.sentence
    else:
        extraction.status = "sealed"
        extraction.segments = [
            {"page": segment.page, "section": segment.section, "text": segment.text}
            for segment in extracted.segments
        ]
        extraction.notices = list(extracted.notices)
        extraction.pages = extracted.pages
        extraction.digest = extraction_digest(extracted.segments)
    return _stored(extraction)


def _stored(extraction: Extraction) -> Extraction:
    """Store what was read; what another has stored meanwhile goes first. Raises RevisionGone."""
    with connection.cursor() as cursor:
        cursor.execute(
            _STORE,
            {
                "revision": extraction.revision_id,
                "recipe": extraction.recipe,
                "status": extraction.status,
                "error_code": extraction.error_code,
                "error": extraction.error,
                "notices": json.dumps(extraction.notices),
                "segments": (
                    None if extraction.segments is None else dump_received(extraction.segments)
                ),
                "pages": extraction.pages,
                "digest": extraction.digest,
                "now": timezone.now(),
            },
        )
        row = cursor.fetchone()
    if row is not None:
        extraction.pk = row[0]
        return extraction
    stored = Extraction.objects.filter(
        revision=extraction.revision_id,
        revision__content__isnull=False,
        recipe=extraction.recipe,
    ).first()
    if stored is None:
        raise RevisionGone
    return stored


def ask_to_read_anew(base: KnowledgeBase) -> int:
    """Note that the installed recipe shall read each newest revision that it has not read.

    Returns how many; the next build reads them. The caller's transaction holds ``base`` locked.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO retrieval_extraction
                (revision_id, recipe, status, error_code, error, notices, digest, created_at)
            SELECT r.id, %(recipe)s, 'pending', '', '', '[]', '', now()
            FROM retrieval_document AS d
            JOIN LATERAL (
                SELECT id FROM retrieval_documentrevision
                WHERE document_id = d.id AND content IS NOT NULL
                ORDER BY number DESC LIMIT 1
            ) AS r ON TRUE
            WHERE d.knowledge_base_id = %(base)s AND d.deleted_at IS NULL
              AND EXISTS (
                  SELECT 1 FROM retrieval_extraction AS e
                  WHERE e.revision_id = r.id AND e.status = 'sealed'
              )
            ON CONFLICT DO NOTHING
            """,
            {"recipe": installed_recipe(), "base": base.pk},
        )
        return int(cursor.rowcount)


def read_by_another(bases: Sequence[KnowledgeBase]) -> dict[uuid.UUID, int]:
    """Return how many documents of each base only other recipes have read; none left out."""
    wanted = installed_recipe()
    keys = {base.pk: (base.content_revision, base.settled_revision, wanted) for base in bases}
    unknown = [key for key in keys if _counted.get(key, (None,))[0] != keys[key]]
    if unknown:
        with connection.cursor() as cursor:
            cursor.execute(_COUNT_READ_BY_ANOTHER, {"bases": unknown, "recipe": wanted})
            counts = dict(cursor.fetchall())
        if len(_counted) > _MOST_REMEMBERED:
            _counted.clear()
        _counted.update({key: (keys[key], counts.get(key, 0)) for key in unknown})
    found = {key: _counted[key][1] for key in keys}
    return {key: count for key, count in found.items() if count}
