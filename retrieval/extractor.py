"""How this installation reads documents, and when a revision is read anew.

The recipe names everything that decides a text. A revision that has been read stays as it was
read: a newer extractor reads it again on request only (``retrieval.build_control.reindex``).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence

from django.conf import settings
from django.db import IntegrityError, connection, transaction

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


def extraction_of(revision: DocumentRevision) -> Extraction:
    """Return the newest sealed extraction of ``revision``, or try the installed recipe.

    One that waits to be read anew is read; where that fails, the earlier reading stays. Raises
    RevisionGone.
    """
    wanted = installed_recipe()
    sealed = newest_reading(revision)
    waits = revision.extractions.filter(status="pending", recipe=wanted).exists()
    if sealed is not None and not waits:
        return sealed
    try:
        extraction, _ = Extraction.objects.get_or_create(revision=revision, recipe=wanted)
    except IntegrityError as error:
        raise RevisionGone from error
    if extraction.status == "pending":
        extraction = _read(revision, extraction)
    return sealed if sealed is not None and extraction.status == "failed" else extraction


def _read(revision: DocumentRevision, extraction: Extraction) -> Extraction:
    try:
        extracted = extract(bytes(revision.content or b""), revision.media_type, ocr=ocr())
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
    with transaction.atomic():
        # The revision first, as whoever deletes or purges it does: the other way round deadlocks.
        held = DocumentRevision.objects.select_for_update(no_key=True).filter(
            pk=revision.pk, content__isnull=False
        )
        if not held.values_list("pk"):
            raise RevisionGone
        locked = Extraction.objects.select_for_update().filter(pk=extraction.pk).first()
        if locked is None:
            raise RevisionGone
        if locked.status != "pending":
            return locked
        extraction.save()
    return extraction


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
