"""Documents cut and embedded: what snapshots share."""

from __future__ import annotations

import pgtrigger
from django.db import models
from pgvector.django import VectorField

from registry.immutability import (
    comes_without_parts,
    guard,
    parent_must_be_gone,
    raise_refusal,
    refuse_truncate,
    unchanged,
)
from retrieval.models.documents import PURGING, Extraction
from retrieval.models.knowledge_bases import EmbeddingModel

_IDENTITY = ("id", "extraction_id", "chunking", "model_id", "created_at")
_ALL_BUT_CONTENT = unchanged(
    "id",
    "indexed_document_id",
    "model_id",
    "ordinal",
    "page",
    "start",
    '"end"',
    "truncated",
    "digest",
    "text_digest",
    "vector_digest",
)


class IndexedDocument(models.Model):
    """One extraction, cut by one chunking and embedded by one model, with all its chunks.

    Written and sealed in one transaction. Not unique: two installations may hold different bits
    under equal recipes, and the digest tells them apart.
    """

    extraction = models.ForeignKey(Extraction, on_delete=models.PROTECT, related_name="indexed")
    chunking = models.CharField(max_length=300, help_text="The chunking recipe, canonical JSON.")
    model = models.ForeignKey(EmbeddingModel, on_delete=models.PROTECT, related_name="+")
    digest = models.CharField(max_length=71, blank=True, db_index=True)
    chunk_count = models.PositiveIntegerField(default=0)
    # Its form, and what it says of a document of one chunk: retrieval.lexical.document_statistics.
    term_statistics = models.BinaryField(
        null=True,
        help_text="How many chunks hold each term, for reranking; terms as digests. Null where "
        "the document was indexed before these were kept.",
    )
    size = models.PositiveBigIntegerField(
        null=True, help_text="Of its texts, sections and vectors, in bytes; null: not counted."
    )
    sealed = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(
                fields=["extraction", "chunking", "model"], name="indexed_document_lookup"
            ),
        ]
        constraints = [
            models.CheckConstraint(
                name="indexed_document_sealed_has_digest",
                condition=models.Q(sealed=False) | ~models.Q(digest=""),
            ),
        ]
        triggers = [
            guard(
                "starts_unsealed",
                pgtrigger.Insert,
                f"""
                IF NEW.sealed THEN
                    {raise_refusal("is sealed after its chunks are there, not before")}
                END IF;
                IF NOT EXISTS (
                    SELECT 1 FROM retrieval_extraction
                    WHERE id = NEW.extraction_id AND status = 'sealed'
                ) THEN
                    {raise_refusal("only a sealed extraction is indexed")}
                END IF;
                """,
            ),
            comes_without_parts(
                "chunks of an earlier one with this id are left",
                ("retrieval_chunk", "indexed_document_id"),
            ),
            guard(
                "immutable_once_sealed",
                pgtrigger.Update,
                f"""
                IF OLD.sealed OR NOT {unchanged(*_IDENTITY)} THEN
                    {raise_refusal("an indexed document never changes")}
                END IF;
                IF NEW.sealed AND NEW.chunk_count <> (
                    SELECT count(*) FROM retrieval_chunk WHERE indexed_document_id = NEW.id
                ) THEN
                    {raise_refusal("is sealed with all its chunks")}
                END IF;
                """,
            ),
            guard(
                "kept_while_held",
                pgtrigger.Delete,
                f"""
                IF EXISTS (
                    SELECT 1 FROM retrieval_snapshotmember WHERE indexed_document_id = OLD.id
                ) THEN
                    {raise_refusal("a snapshot holds this indexed document")}
                END IF;
                """,
            ),
            refuse_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.extraction_id} {self.chunking}"


class Chunk(models.Model):
    """A piece of an extraction's text with everything a citation needs, and its vector."""

    indexed_document = models.ForeignKey(
        IndexedDocument, on_delete=models.PROTECT, related_name="chunks"
    )
    model = models.ForeignKey(EmbeddingModel, on_delete=models.PROTECT, related_name="+")
    ordinal = models.PositiveIntegerField()
    text = models.TextField(null=True, help_text="Null after a purge only.")  # noqa: DJ001
    page = models.PositiveIntegerField(null=True)
    section = models.TextField(null=True)  # noqa: DJ001 - none is not the empty heading
    start = models.PositiveIntegerField(help_text="In code points of the extraction's text.")
    end = models.PositiveIntegerField()
    truncated = models.BooleanField(
        default=False, help_text="The piece was longer than the model reads and was cut."
    )
    digest = models.CharField(max_length=71)
    text_digest = models.CharField(max_length=71)
    vector = VectorField(null=True)
    vector_digest = models.CharField(max_length=71)

    class Meta:
        ordering = ["indexed_document", "ordinal"]
        constraints = [
            models.UniqueConstraint(
                fields=["indexed_document", "ordinal"], name="chunk_ordinal_once"
            ),
            models.CheckConstraint(
                name="chunk_offsets_ordered", condition=models.Q(end__gte=models.F("start"))
            ),
        ]
        # No index on the vector, ever: with one, ORDER BY silently becomes approximate.
        indexes = [models.Index(fields=["model", "text_digest"], name="chunk_same_text")]
        triggers = [
            guard(
                "only_before_sealing",
                pgtrigger.Insert,
                f"""
                SELECT i.sealed, i.model_id, e.segments IS NULL
                INTO parent_sealed, parent_model, purged
                FROM retrieval_indexeddocument AS i
                JOIN retrieval_extraction AS e ON e.id = i.extraction_id
                WHERE i.id = NEW.indexed_document_id FOR SHARE;
                IF parent_sealed IS DISTINCT FROM FALSE THEN
                    {raise_refusal("its indexed document is sealed")}
                END IF;
                IF parent_model <> NEW.model_id THEN
                    {raise_refusal("its model is that of its indexed document")}
                END IF;
                IF purged AND (NEW.text IS NOT NULL OR NEW.vector IS NOT NULL) THEN
                    {raise_refusal("its revision was purged")}
                END IF;
                """,
                declare=[
                    ("parent_sealed", "BOOLEAN"),
                    ("parent_model", "BIGINT"),
                    ("purged", "BOOLEAN"),
                ],
            ),
            guard(
                "immutable",
                pgtrigger.Update,
                f"""
                IF NOT (
                    {_ALL_BUT_CONTENT}
                    AND NEW.text IS NULL AND NEW.section IS NULL AND NEW.vector IS NULL
                    AND EXISTS (
                        SELECT 1 FROM retrieval_indexeddocument AS i
                        JOIN retrieval_extraction AS e ON e.id = i.extraction_id
                        WHERE i.id = OLD.indexed_document_id
                          AND {PURGING.format(revision="e.revision_id")}
                    )
                ) THEN
                    {raise_refusal("a chunk never changes")}
                END IF;
                """,
            ),
            parent_must_be_gone(
                "indexed_document_id",
                "retrieval_indexeddocument",
                "goes only together with its indexed document",
            ),
            refuse_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.indexed_document_id}#{self.ordinal}"


class PendingVector(models.Model):
    """A vector of a large document's build, until the document is whole."""

    model = models.ForeignKey(EmbeddingModel, on_delete=models.CASCADE, related_name="+")
    text_digest = models.CharField(max_length=71)
    vector = VectorField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["model", "text_digest"], name="pending_vector_once"),
        ]

    def __str__(self) -> str:
        return self.text_digest
