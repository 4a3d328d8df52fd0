"""Questions' vectors and traces: what makes an answer repeatable and traceable."""

from __future__ import annotations

import uuid

import pgtrigger
from django.db import models
from django.utils import timezone
from pgvector.django import VectorField

from registry.fields import ReceivedJSONField
from registry.immutability import (
    guard,
    insert_only,
    raise_refusal,
    refuse,
    refuse_truncate,
    unchanged,
)
from registry.models import ApiKey
from retrieval.models.knowledge_bases import EmbeddingModel

_ALL_BUT_VECTOR = ("id", "model_id", "query_digest", "truncated", "provenance", "created_at")


class QueryEmbedding(models.Model):
    """The one vector of a question, for ever, while a published version pins its model.

    ``kept`` is set when the question was first put to a published version; other rows (drafts,
    the test box) may be removed after a while.
    """

    model = models.ForeignKey(EmbeddingModel, on_delete=models.PROTECT, related_name="+")
    query_digest = models.CharField(max_length=71)
    vector = VectorField()
    kept = models.BooleanField(default=False)
    truncated = models.BooleanField(
        default=False, help_text="The question was longer than the model reads and was cut."
    )
    provenance = models.TextField(help_text="Library, version, graph and CPU that computed it.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["model", "query_digest"], name="query_embedding_once"),
        ]
        indexes = [
            models.Index(
                fields=["created_at"],
                condition=models.Q(kept=False),
                name="query_embedding_not_kept",
            ),
        ]
        triggers = [
            guard(
                "immutable",
                pgtrigger.Update,
                f"""
                IF NOT (
                    {unchanged(*_ALL_BUT_VECTOR)}
                    AND vector_send(NEW.vector) = vector_send(OLD.vector)
                    AND NEW.kept
                ) THEN
                    {raise_refusal("a question has one vector")}
                END IF;
                """,
            ),
            guard(
                "kept_while_pinned",
                pgtrigger.Delete,
                f"""
                IF OLD.kept AND EXISTS (
                    SELECT 1 FROM retrieval_snapshotpin AS p
                    JOIN retrieval_indexsnapshot AS s ON s.id = p.snapshot_id
                    WHERE s.model_id = OLD.model_id
                ) THEN
                    {raise_refusal("a published version may be asked this again")}
                END IF;
                """,
            ),
            refuse_truncate(),
        ]

    def __str__(self) -> str:
        return self.query_digest


class RerankScore(models.Model):
    """What a cross-encoder said of a question and a passage, for ever.

    Recorded before it is used: another machine's last bits cannot change a published version.
    """

    reranker = models.CharField(max_length=71, help_text="The fingerprint of the model.")
    query_digest = models.CharField(max_length=71)
    chunk_digest = models.CharField(max_length=71)
    score = models.FloatField()
    provenance = models.TextField(help_text="Library, version and CPU that computed it.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["reranker", "query_digest", "chunk_digest"], name="rerank_score_once"
            ),
        ]
        triggers = insert_only("a passage has one score for a question")

    def __str__(self) -> str:
        return f"{self.query_digest} {self.chunk_digest}"


class NewQuestions(models.Model):
    """How many new questions an API key asked in an hour: what its limit counts."""

    api_key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="+")
    hour = models.DateTimeField(help_text="When it began.")
    count = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["api_key", "hour"], name="new_questions_once_an_hour"),
        ]

    def __str__(self) -> str:
        return f"{self.count} of {self.api_key_id} from {self.hour}"


class Trace(models.Model):
    """The record of one resolution or retrieval: values only, so that it outlives all else."""

    class Kind(models.TextChoices):
        RESOLVE = "resolve"
        RETRIEVE = "retrieve"
        CALL = "call"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    at = models.DateTimeField(default=timezone.now, db_index=True, editable=False)
    kind = models.CharField(max_length=16, choices=Kind.choices)
    api_key_name = models.CharField(max_length=200, blank=True)
    agent_slug = models.CharField(max_length=100, db_index=True)
    version_number = models.PositiveIntegerField(null=True, help_text="Null for the draft.")
    draft_revision = models.PositiveIntegerField(null=True)
    manifest_digest = models.CharField(max_length=71, blank=True)
    conversation_id = models.CharField(max_length=200, blank=True)
    arguments = ReceivedJSONField(default=dict)
    decisions = ReceivedJSONField(default=list)
    context_problems = ReceivedJSONField(
        null=True,
        help_text="What resolve said of the context; null where nothing was kept of it.",
    )
    groups = ReceivedJSONField(
        default=list,
        help_text="Per knowledge base: snapshot, applied, chunk digests with confidences, receipt.",
    )
    receipt = models.CharField(max_length=71, blank=True)

    class Meta:
        ordering = ["-at", "id"]
        indexes = [
            models.Index(fields=["agent_slug", "-at"], name="trace_agent"),
            models.Index(fields=["conversation_id"], name="trace_conversation"),
        ]
        triggers = [
            refuse("immutable", pgtrigger.Update, "a trace never changes"),
            refuse_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.agent_slug} {self.id}"
