"""Documents, their immutable revisions, and what was read out of them."""

from __future__ import annotations

import uuid

import pgtrigger
from django.db import models

from registry.fields import ReceivedJSONField
from registry.immutability import (
    at_commit,
    comes_without_parts,
    guard,
    insert_only,
    parent_must_be_gone,
    raise_refusal,
    refuse_truncate,
    unchanged,
)
from retrieval.models.knowledge_bases import KnowledgeBase

# True inside the transaction that inserted a Purge row for the revision.
PURGING = """EXISTS (
    SELECT 1 FROM retrieval_purge AS p
    WHERE p.revision_id = {revision} AND p.transaction_id = pg_current_xact_id()::text::bigint
)"""


_REVISION = ("id", "document_id", "number", "sha256", "size", "media_type", "created_at")
_EXTRACTION = (
    "id",
    "revision_id",
    "recipe",
    "status",
    "error_code",
    "error",
    "pages",
    "digest",
    "created_at",
)


class Document(models.Model):
    """A named document of a knowledge base; deleting it leaves a tombstone."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    knowledge_base = models.ForeignKey(
        KnowledgeBase, on_delete=models.PROTECT, related_name="documents"
    )
    name = models.CharField(max_length=500)
    metadata = ReceivedJSONField(default=dict)
    enabled = models.BooleanField(
        default=True, help_text="Switched off, it leaves the next snapshot and keeps its history."
    )
    chunking = models.CharField(  # noqa: DJ001 - none of its own is not the empty text
        max_length=200,
        null=True,
        blank=True,
        help_text="A chunking of its own, canonical JSON; null: that of its knowledge base.",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["knowledge_base", "name"],
                condition=models.Q(deleted_at__isnull=True),
                name="document_name_once_among_living",
            ),
        ]
        triggers = [
            guard(
                "stays_in_its_base",
                pgtrigger.Update,
                f"""
                IF NOT {unchanged("id", "knowledge_base_id")} THEN
                    {raise_refusal("a document stays in its knowledge base")}
                END IF;
                """,
            ),
            comes_without_parts(
                "revisions of an earlier document with this id are left",
                ("retrieval_documentrevision", "document_id"),
            ),
            guard(
                "kept_while_read",
                pgtrigger.Delete,
                f"""
                IF OLD.deleted_at IS NULL AND EXISTS (
                    SELECT 1 FROM retrieval_knowledgebase WHERE id = OLD.knowledge_base_id
                ) THEN
                    {raise_refusal("a living document goes only with its knowledge base")}
                END IF;
                IF EXISTS (
                    SELECT 1 FROM retrieval_documentrevision AS r
                    JOIN retrieval_extraction AS e ON e.revision_id = r.id
                    WHERE r.document_id = OLD.id
                ) THEN
                    {raise_refusal("what was extracted from this document is still kept")}
                END IF;
                """,
            ),
            refuse_truncate(),
        ]

    def __str__(self) -> str:
        return self.name


class DocumentRevision(models.Model):
    """One immutable content of a document.

    ``media_type`` was decided at upload from content and name; it stays, so that renaming a
    document never changes how its bytes are read.
    """

    document = models.ForeignKey(Document, on_delete=models.PROTECT, related_name="revisions")
    number = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=71)
    size = models.PositiveBigIntegerField(help_text="In bytes.")
    content = models.BinaryField(null=True, help_text="Null after a purge only.")
    media_type = models.CharField(max_length=100)
    notice = models.TextField(blank=True, help_text="What was noticed at upload, for a person.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["document", "number"]
        constraints = [
            models.UniqueConstraint(fields=["document", "number"], name="document_revision_number"),
        ]
        triggers = [
            guard(
                "immutable",
                pgtrigger.Update,
                f"""
                IF NOT (
                    {unchanged(*_REVISION)}
                    AND NEW.content IS NULL AND NEW.notice = ''
                    AND {PURGING.format(revision="OLD.id")}
                ) THEN
                    {raise_refusal("a revision never changes")}
                END IF;
                """,
            ),
            guard(
                "kept_while_extracted",
                pgtrigger.Delete,
                f"""
                IF EXISTS (SELECT 1 FROM retrieval_extraction WHERE revision_id = OLD.id) THEN
                    {raise_refusal("what was extracted from this revision is still kept")}
                END IF;
                """,
            ),
            parent_must_be_gone(
                "document_id", "retrieval_document", "goes only together with its document"
            ),
            refuse_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.document_id} r{self.number}"


class Extraction(models.Model):
    """A revision read by one extractor recipe; immutable once sealed.

    ``segments`` is ``[{"page": int | null, "section": str | null, "text": str}]``.
    """

    class Status(models.TextChoices):
        PENDING = "pending"
        SEALED = "sealed"
        FAILED = "failed"

    revision = models.ForeignKey(
        DocumentRevision, on_delete=models.PROTECT, related_name="extractions"
    )
    recipe = models.CharField(max_length=200, help_text="Extractor, version, OCR engine or none.")
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.PENDING)
    error_code = models.CharField(max_length=64, blank=True)
    error = models.TextField(blank=True, help_text="A sentence for a person.")
    notices = models.JSONField(default=list)
    segments = ReceivedJSONField(null=True)
    pages = models.PositiveIntegerField(null=True)
    digest = models.CharField(max_length=71, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["revision", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["revision", "recipe"], name="extraction_once_per_recipe"
            ),
            models.CheckConstraint(
                name="extraction_status_known",
                condition=models.Q(status__in=["pending", "sealed", "failed"]),
            ),
            models.CheckConstraint(
                name="extraction_sealed_has_digest",
                condition=~models.Q(status="sealed") | ~models.Q(digest=""),
            ),
        ]
        triggers = [
            guard(
                "immutable_once_sealed",
                pgtrigger.Update,
                f"""
                IF NOT {unchanged("id", "revision_id", "recipe")} THEN
                    {raise_refusal("an extraction stays with its revision and recipe")}
                END IF;
                IF OLD.status = 'sealed' AND NOT (
                    {unchanged(*_EXTRACTION)}
                    AND NEW.segments IS NULL AND NEW.notices = '[]'::jsonb
                    AND {PURGING.format(revision="OLD.revision_id")}
                ) THEN
                    {raise_refusal("a sealed extraction never changes")}
                END IF;
                """,
            ),
            guard(
                "reads_what_is_there",
                pgtrigger.Insert | pgtrigger.Update,
                f"""
                IF NEW.segments IS NOT NULL THEN
                    SELECT content IS NULL INTO purged FROM retrieval_documentrevision
                    WHERE id = NEW.revision_id FOR SHARE;
                    IF purged IS DISTINCT FROM FALSE THEN
                        {raise_refusal("its revision was purged")}
                    END IF;
                END IF;
                """,
                declare=[("purged", "BOOLEAN")],
            ),
            guard(
                "kept_while_indexed",
                pgtrigger.Delete,
                f"""
                IF EXISTS (
                    SELECT 1 FROM retrieval_indexeddocument WHERE extraction_id = OLD.id
                ) THEN
                    {raise_refusal("what was indexed from this extraction is still kept")}
                END IF;
                """,
            ),
            refuse_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.revision_id} by {self.recipe}"


class Purge(models.Model):
    """Legal erasure of one revision: the permission and the record of it.

    The permission ends with the transaction that inserted it, and that transaction must use it
    whole. The record stays when the revision's row is gone.
    """

    revision = models.ForeignKey(
        DocumentRevision,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        related_name="purges",
    )
    reason = models.TextField()
    actor = models.CharField(max_length=200)
    at = models.DateTimeField(auto_now_add=True)
    transaction_id = models.BigIntegerField(
        editable=False, default=0, help_text="Set by a trigger: the permission ends with it."
    )

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(name="purge_has_reason", condition=~models.Q(reason="")),
        ]
        triggers = [
            *insert_only("a purge is a record for ever"),
            guard(
                "own_transaction",
                pgtrigger.Insert,
                "NEW.transaction_id = pg_current_xact_id()::text::bigint;",
            ),
            guard(
                "begins_epoch",
                pgtrigger.Insert,
                """
                UPDATE retrieval_knowledgebase SET purge_epoch = gen_random_uuid()
                WHERE id = (
                    SELECT d.knowledge_base_id FROM retrieval_documentrevision AS r
                    JOIN retrieval_document AS d ON d.id = r.document_id
                    WHERE r.id = NEW.revision_id
                );
                """,
            ),
            at_commit(
                "erases_whole",
                pgtrigger.Insert,
                f"""
                IF EXISTS (
                    SELECT 1 FROM retrieval_documentrevision
                    WHERE id = NEW.revision_id AND content IS NOT NULL
                ) OR EXISTS (
                    SELECT 1 FROM retrieval_extraction
                    WHERE revision_id = NEW.revision_id AND segments IS NOT NULL
                ) OR EXISTS (
                    SELECT 1 FROM retrieval_chunk AS c
                    JOIN retrieval_indexeddocument AS i ON i.id = c.indexed_document_id
                    JOIN retrieval_extraction AS e ON e.id = i.extraction_id
                    WHERE e.revision_id = NEW.revision_id
                      AND (c.text IS NOT NULL OR c.section IS NOT NULL OR c.vector IS NOT NULL)
                ) THEN
                    {raise_refusal("a purge erases its revision whole or not at all")}
                END IF;
                """,
            ),
        ]

    def __str__(self) -> str:
        return f"purge of revision {self.revision_id}"
