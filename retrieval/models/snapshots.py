"""Snapshots, what they hold, who holds them, and the build that makes one."""

from __future__ import annotations

import pgtrigger
from django.db import models

from registry.fields import ReceivedJSONField
from registry.immutability import (
    comes_without_parts,
    guard,
    insert_only,
    parent_must_be_gone,
    raise_refusal,
    refuse,
    refuse_truncate,
    unchanged,
)
from retrieval.models.documents import Document, DocumentRevision
from retrieval.models.indexes import IndexedDocument
from retrieval.models.knowledge_bases import EmbeddingModel, KnowledgeBase

_IDENTITY = (
    "id",
    "knowledge_base_id",
    "number",
    "model_id",
    "chunking",
    "content_revision",
    "started_at",
)


class IndexSnapshot(models.Model):
    """The immutable, content-addressed state of a knowledge base that is searched."""

    class State(models.TextChoices):
        BUILDING = "building"
        READY = "ready"
        FAILED = "failed"
        CANCELLED = "cancelled"
        UNCHANGED = "unchanged"

    knowledge_base = models.ForeignKey(
        KnowledgeBase, on_delete=models.PROTECT, related_name="snapshots"
    )
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.BUILDING)
    model = models.ForeignKey(EmbeddingModel, on_delete=models.PROTECT, related_name="+")
    chunking = models.CharField(max_length=300, help_text="The chunking recipe, canonical JSON.")
    content_revision = models.PositiveBigIntegerField(
        help_text="Which changes of the knowledge base this build looked at."
    )
    digest = models.CharField(max_length=71, blank=True, db_index=True)
    document_count = models.PositiveIntegerField(default=0)
    chunk_count = models.PositiveIntegerField(default=0)
    failed_count = models.PositiveIntegerField(default=0)
    detail = models.TextField(blank=True, help_text="Why it ended as it did, for a person.")
    crashed = models.JSONField(
        default=list,
        help_text="The ids of documents over which workers stopped: nothing else tells, where "
        "their text had been read before.",
    )
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["knowledge_base", "-number"]
        constraints = [
            models.UniqueConstraint(
                fields=["knowledge_base", "number"], name="snapshot_number_once"
            ),
            models.UniqueConstraint(
                fields=["knowledge_base"],
                condition=models.Q(state="building"),
                name="snapshot_one_building",
            ),
            models.CheckConstraint(
                name="snapshot_ready_has_digest",
                condition=~models.Q(state="ready") | ~models.Q(digest=""),
            ),
            models.CheckConstraint(
                name="snapshot_state_known",
                condition=models.Q(
                    state__in=["building", "ready", "failed", "cancelled", "unchanged"]
                ),
            ),
        ]
        triggers = [
            guard(
                "starts_building",
                pgtrigger.Insert,
                f"""
                IF NEW.state <> 'building' THEN
                    {raise_refusal("a snapshot starts as building")}
                END IF;
                IF NEW.number IS DISTINCT FROM (
                    SELECT last_snapshot_number FROM retrieval_knowledgebase
                    WHERE id = NEW.knowledge_base_id
                ) THEN
                    {raise_refusal("a snapshot takes the next number of its knowledge base")}
                END IF;
                """,
            ),
            comes_without_parts(
                "members of an earlier snapshot with this id are left",
                ("retrieval_snapshotmember", "snapshot_id"),
            ),
            guard(
                "immutable_once_ended",
                pgtrigger.Update,
                f"""
                IF OLD.state <> 'building' OR NOT {unchanged(*_IDENTITY)} THEN
                    {raise_refusal("an ended snapshot never changes")}
                END IF;
                IF NEW.state = 'ready' THEN
                    SELECT count(*), COALESCE(sum(i.chunk_count), 0) INTO documents, chunks
                    FROM retrieval_snapshotmember AS m
                    JOIN retrieval_indexeddocument AS i ON i.id = m.indexed_document_id
                    WHERE m.snapshot_id = NEW.id;
                    IF NEW.document_count <> documents OR NEW.chunk_count <> chunks THEN
                        {raise_refusal("a snapshot is sealed whole")}
                    END IF;
                END IF;
                """,
                declare=[("documents", "BIGINT"), ("chunks", "BIGINT")],
            ),
            guard(
                "kept_while_in_use",
                pgtrigger.Delete,
                f"""
                IF EXISTS (SELECT 1 FROM retrieval_snapshotpin WHERE snapshot_id = OLD.id) THEN
                    {raise_refusal("a published version holds this snapshot")}
                END IF;
                IF EXISTS (
                    SELECT 1 FROM retrieval_knowledgebase WHERE current_snapshot_id = OLD.id
                ) THEN
                    {raise_refusal("this snapshot is current")}
                END IF;
                """,
            ),
            refuse_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.knowledge_base_id} #{self.number}"


class SnapshotMember(models.Model):
    """One document as a snapshot holds it: everything about it frozen."""

    snapshot = models.ForeignKey(IndexSnapshot, on_delete=models.PROTECT, related_name="members")
    indexed_document = models.ForeignKey(
        IndexedDocument, on_delete=models.PROTECT, related_name="memberships"
    )
    document_id = models.UUIDField()
    name = models.CharField(max_length=500)
    revision_number = models.PositiveIntegerField()
    metadata = ReceivedJSONField()

    class Meta:
        ordering = ["snapshot", "document_id"]
        constraints = [
            models.UniqueConstraint(
                fields=["snapshot", "document_id"], name="snapshot_member_document_once"
            ),
        ]
        triggers = [
            guard(
                "only_while_building",
                pgtrigger.Insert,
                f"""
                SELECT state, model_id, knowledge_base_id
                INTO parent_state, parent_model, parent_base
                FROM retrieval_indexsnapshot WHERE id = NEW.snapshot_id FOR SHARE;
                IF parent_state IS DISTINCT FROM 'building' THEN
                    {raise_refusal("its snapshot is sealed")}
                END IF;
                SELECT i.sealed, i.model_id, d.knowledge_base_id
                INTO part_sealed, part_model, part_base
                FROM retrieval_indexeddocument AS i
                JOIN retrieval_extraction AS e ON e.id = i.extraction_id
                JOIN retrieval_documentrevision AS r ON r.id = e.revision_id
                JOIN retrieval_document AS d ON d.id = r.document_id
                WHERE i.id = NEW.indexed_document_id FOR SHARE OF i;
                IF part_sealed IS DISTINCT FROM TRUE THEN
                    {raise_refusal("a snapshot holds whole documents only")}
                END IF;
                IF part_model <> parent_model OR part_base <> parent_base THEN
                    {raise_refusal("a snapshot holds its own base's documents by one model")}
                END IF;
                """,
                declare=[
                    ("parent_state", "TEXT"),
                    ("parent_model", "BIGINT"),
                    ("parent_base", "UUID"),
                    ("part_sealed", "BOOLEAN"),
                    ("part_model", "BIGINT"),
                    ("part_base", "UUID"),
                ],
            ),
            refuse("immutable", pgtrigger.Update, "a member never changes"),
            parent_must_be_gone(
                "snapshot_id", "retrieval_indexsnapshot", "goes only together with its snapshot"
            ),
            refuse_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.snapshot_id}: {self.name}"


class SnapshotPin(models.Model):
    """A published version holds a snapshot. Written by publish; read by prune, delete, purge."""

    snapshot = models.ForeignKey(IndexSnapshot, on_delete=models.PROTECT, related_name="pins")
    knowledge_base = models.ForeignKey(KnowledgeBase, on_delete=models.PROTECT, related_name="+")
    holder_kind = models.CharField(max_length=32)
    holder_id = models.CharField(max_length=64)
    holder_label = models.CharField(max_length=200, help_text="For a person: support v3.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["holder_kind", "holder_id", "knowledge_base"],
                name="snapshot_pin_one_per_knowledge_base",
            ),
        ]
        triggers = [
            guard(
                "pins_ready_snapshots",
                pgtrigger.Insert,
                f"""
                SELECT state, knowledge_base_id INTO pinned_state, pinned_base
                FROM retrieval_indexsnapshot WHERE id = NEW.snapshot_id FOR SHARE;
                IF pinned_state IS DISTINCT FROM 'ready'
                   OR pinned_base IS DISTINCT FROM NEW.knowledge_base_id THEN
                    {raise_refusal("only a ready snapshot of that knowledge base can be pinned")}
                END IF;
                """,
                declare=[("pinned_state", "TEXT"), ("pinned_base", "UUID")],
            ),
            *insert_only("a published version holds its snapshots for ever"),
        ]

    def __str__(self) -> str:
        return f"{self.holder_label} holds {self.snapshot_id}"


class BuildPiece(models.Model):
    """One document of a running build: planned, claimed by one worker at a time, then done.

    Name, metadata, revision and chunking are frozen when the build starts. The rows go when it
    ends; members and extractions keep what matters.
    """

    class State(models.TextChoices):
        WAITING = "waiting"
        DONE = "done"
        FAILED = "failed"

    snapshot = models.ForeignKey(IndexSnapshot, on_delete=models.CASCADE, related_name="pieces")
    document = models.ForeignKey(Document, on_delete=models.PROTECT, related_name="+")
    revision = models.ForeignKey(DocumentRevision, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=500)
    metadata = ReceivedJSONField()
    chunking = models.CharField(max_length=300, help_text="The chunking recipe, canonical JSON.")
    state = models.CharField(max_length=16, choices=State.choices, default=State.WAITING)
    indexed_document = models.ForeignKey(
        IndexedDocument, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    chunks_done = models.PositiveIntegerField(default=0)
    attempts = models.PositiveSmallIntegerField(default=0)
    claim = models.UUIDField(null=True, default=None, help_text="The worker that holds it.")
    holder = models.CharField(
        max_length=100, blank=True, help_text="Host and process of that worker, for a person."
    )
    leased_until = models.DateTimeField(null=True)
    claimed_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(
        null=True, help_text="Null also where it had been indexed before the build began."
    )
    error_code = models.CharField(max_length=64, blank=True)
    error = models.TextField(blank=True)

    class Meta:
        ordering = ["snapshot", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["snapshot", "document"], name="build_piece_document_once"
            ),
            models.CheckConstraint(
                name="build_piece_done_is_indexed",
                condition=~models.Q(state="done") | models.Q(indexed_document__isnull=False),
            ),
        ]
        indexes = [
            models.Index(
                fields=["snapshot", "attempts", "id"],
                condition=models.Q(state="waiting"),
                name="build_piece_waiting",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.snapshot_id}: {self.name}"
