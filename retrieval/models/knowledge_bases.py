"""Embedding models and knowledge bases."""

from __future__ import annotations

import uuid

import pgtrigger
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from registry.immutability import (
    comes_without_parts,
    guard,
    insert_only,
    raise_refusal,
    refuse_truncate,
)


class EmbeddingModel(models.Model):
    """A model by its identity; how it is run is provenance and no part of it."""

    name = models.CharField(max_length=200, unique=True)
    dimensions = models.PositiveIntegerField()
    max_tokens = models.PositiveIntegerField(
        help_text="How many word pieces it reads at most, special ones included."
    )
    fingerprint = models.CharField(max_length=71, unique=True)

    class Meta:
        ordering = ["name"]
        triggers = insert_only("vectors of a model are told apart by its fingerprint")

    def __str__(self) -> str:
        return self.name


class KnowledgeBase(models.Model):
    """Documents, how they are cut and embedded, and how they are searched."""

    class SettingsMode(models.TextChoices):
        RECORDED = "recorded"
        APPLIED = "applied"

    class FailurePolicy(models.TextChoices):
        BECOME_CURRENT = "becomeCurrent"
        HOLD_BACK = "holdBack"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=200, unique=True)
    model = models.ForeignKey(EmbeddingModel, on_delete=models.PROTECT, related_name="+")

    chunking_strategy = models.CharField(max_length=16, default="recursive")
    chunk_size = models.PositiveIntegerField(default=200, help_text="In tokens of the model.")
    chunk_overlap = models.PositiveIntegerField(default=20, help_text="In tokens of the model.")

    default_top_k = models.PositiveSmallIntegerField(
        default=5,
        validators=[MinValueValidator(1), MaxValueValidator(50)],
        help_text="1 to 50. How many passages when the caller does not say; never more than 25.",
    )
    similarity_threshold = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(0), MaxValueValidator(1)],
        help_text="0 to 1. Acts as the floor in mode “applied” only.",
    )
    max_context_length = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(500), MaxValueValidator(16000)],
        help_text="500 to 16,000 characters. Acts in mode “applied” only.",
    )
    rerank_enabled = models.BooleanField(default=False, help_text="Acts in mode “applied” only.")
    diversity_enabled = models.BooleanField(default=False, help_text="Acts in mode “applied” only.")
    settings_mode = models.CharField(
        max_length=16, choices=SettingsMode.choices, default=SettingsMode.RECORDED
    )

    current_snapshot = models.ForeignKey(
        "retrieval.IndexSnapshot", null=True, on_delete=models.PROTECT, related_name="+"
    )
    last_snapshot_number = models.PositiveIntegerField(
        default=0, help_text="The number that the newest build took."
    )
    content_revision = models.PositiveBigIntegerField(
        default=0, help_text="Counts the accepted changes that a snapshot must show."
    )
    settled_revision = models.PositiveBigIntegerField(
        default=0, help_text="Up to which of them the last ended build looked."
    )
    shown_revision = models.PositiveBigIntegerField(
        default=0, help_text="Up to which of them the current snapshot shows."
    )
    build_paused = models.BooleanField(
        default=False, help_text="Nothing is claimed and nothing sealed until it is resumed."
    )
    failure_policy = models.CharField(
        max_length=16,
        choices=FailurePolicy.choices,
        default=FailurePolicy.BECOME_CURRENT,
        help_text="What becomes of a build in which documents failed.",
    )
    purge_epoch = models.UUIDField(
        null=True, editable=False, help_text="Another after each purge; set by a trigger."
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                name="knowledge_base_default_top_k_range",
                condition=models.Q(default_top_k__gte=1, default_top_k__lte=50),
            ),
            models.CheckConstraint(
                name="knowledge_base_similarity_threshold_range",
                condition=models.Q(similarity_threshold__isnull=True)
                | models.Q(similarity_threshold__gte=0, similarity_threshold__lte=1),
            ),
            models.CheckConstraint(
                name="knowledge_base_max_context_length_range",
                condition=models.Q(max_context_length__isnull=True)
                | models.Q(max_context_length__gte=500, max_context_length__lte=16000),
            ),
            models.CheckConstraint(
                name="knowledge_base_chunking_range",
                condition=models.Q(chunk_size__gte=1, chunk_overlap__lt=models.F("chunk_size")),
            ),
            models.CheckConstraint(
                name="knowledge_base_settled_not_ahead",
                condition=models.Q(settled_revision__lte=models.F("content_revision"))
                & models.Q(shown_revision__lte=models.F("settled_revision")),
            ),
            models.CheckConstraint(
                name="knowledge_base_settings_mode_known",
                condition=models.Q(settings_mode__in=["recorded", "applied"]),
            ),
            models.CheckConstraint(
                name="knowledge_base_failure_policy_known",
                condition=models.Q(failure_policy__in=["becomeCurrent", "holdBack"]),
            ),
            models.CheckConstraint(
                name="knowledge_base_paused_has_build",
                condition=models.Q(build_paused=False)
                | ~models.Q(content_revision=models.F("settled_revision")),
            ),
        ]
        triggers = [
            guard(
                "current_moves_forward",
                pgtrigger.Insert | pgtrigger.Update,
                f"""
                IF TG_OP = 'INSERT' THEN
                    IF NEW.current_snapshot_id IS NOT NULL THEN
                        {raise_refusal("a new knowledge base has no snapshot yet")}
                    END IF;
                    RETURN NEW;
                END IF;
                IF NEW.id IS DISTINCT FROM OLD.id THEN
                    {raise_refusal("an id is for ever")}
                END IF;
                IF NEW.last_snapshot_number < OLD.last_snapshot_number
                   OR NEW.content_revision < OLD.content_revision THEN
                    {raise_refusal("snapshots and changes are counted upwards only")}
                END IF;
                IF NEW.current_snapshot_id IS NOT DISTINCT FROM OLD.current_snapshot_id THEN
                    RETURN NEW;
                END IF;
                IF NOT EXISTS (
                    SELECT 1 FROM retrieval_indexsnapshot AS s
                    WHERE s.id = NEW.current_snapshot_id
                      AND s.knowledge_base_id = NEW.id
                      AND s.state = 'ready'
                      AND s.number > COALESCE((
                            SELECT c.number FROM retrieval_indexsnapshot AS c
                            WHERE c.id = OLD.current_snapshot_id), 0)
                ) THEN
                    {raise_refusal("the current snapshot moves only to a newer ready one of its own")}
                END IF;
                """,
            ),
            comes_without_parts(
                "parts of an earlier knowledge base with this id are left",
                ("retrieval_indexsnapshot", "knowledge_base_id"),
                ("retrieval_document", "knowledge_base_id"),
            ),
            guard(
                "pinned_is_kept",
                pgtrigger.Delete,
                f"""
                IF EXISTS (
                    SELECT 1 FROM retrieval_snapshotpin AS p
                    JOIN retrieval_indexsnapshot AS s ON s.id = p.snapshot_id
                    WHERE s.knowledge_base_id = OLD.id
                ) THEN
                    {raise_refusal("a published version holds a snapshot of this knowledge base")}
                END IF;
                """,
            ),
            refuse_truncate(),
        ]

    def __str__(self) -> str:
        return self.name
