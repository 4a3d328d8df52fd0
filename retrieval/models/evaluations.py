"""What should be found, and how well snapshots find it."""

from __future__ import annotations

import uuid

import pgtrigger
from django.db import models
from django.utils import timezone

from registry.fields import ReceivedJSONField
from registry.immutability import (
    comes_without_parts,
    guard,
    parent_must_be_gone,
    raise_refusal,
    refuse_truncate,
    unchanged,
)
from retrieval.models.knowledge_bases import KnowledgeBase

_EVALUATION = (
    "id",
    "knowledge_base_id",
    "questions",
    "questions_digest",
    "question_count",
    "started_by",
    "created_at",
)
_SCORE = (
    "id",
    "evaluation_id",
    "position",
    "snapshot_number",
    "snapshot_digest",
    "ranking",
    "recipe",
    "settings",
    "model_name",
    "model_fingerprint",
    "chunking",
    "document_count",
    "chunk_count",
)


class EvaluationQuestion(models.Model):
    """A question with the documents that should answer it; none: nothing here does.

    A document stands in it by id and by the name it had: see ``retrieval.evaluation_questions``.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    knowledge_base = models.ForeignKey(
        KnowledgeBase, on_delete=models.PROTECT, related_name="evaluation_questions"
    )
    query = models.TextField()
    query_digest = models.CharField(max_length=71)
    documents = ReceivedJSONField(
        default=list, help_text="Per document: id, name, pages or null, grade."
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["created_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["knowledge_base", "query_digest"], name="evaluation_question_once"
            ),
        ]

    def __str__(self) -> str:
        return self.query


class Evaluation(models.Model):
    """Questions put to snapshots, side by side: frozen when it starts, immutable once ended."""

    class State(models.TextChoices):
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    knowledge_base = models.ForeignKey(
        KnowledgeBase, on_delete=models.PROTECT, related_name="evaluations"
    )
    state = models.CharField(max_length=16, choices=State.choices, default=State.RUNNING)
    questions = ReceivedJSONField(help_text="The evaluation set as it was.")
    questions_digest = models.CharField(max_length=71)
    question_count = models.PositiveIntegerField()
    started_by = models.CharField(max_length=200)
    detail = models.TextField(blank=True, help_text="Why it failed, for a person.")
    claim = models.UUIDField(null=True, default=None, help_text="Who works on it.")
    leased_until = models.DateTimeField(null=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created_at", "id"]
        constraints = [
            models.CheckConstraint(
                name="evaluation_state_known",
                condition=models.Q(state__in=["running", "done", "failed"]),
            ),
        ]
        indexes = [
            models.Index(
                fields=["leased_until"],
                condition=models.Q(state="running"),
                name="evaluation_running",
            ),
        ]
        triggers = [
            comes_without_parts(
                "scores of an earlier evaluation with this id are left",
                ("retrieval_evaluationscore", "evaluation_id"),
            ),
            guard(
                "immutable_once_ended",
                pgtrigger.Update,
                f"""
                IF OLD.state <> 'running' OR NOT {unchanged(*_EVALUATION)} THEN
                    {raise_refusal("an ended evaluation never changes")}
                END IF;
                IF NEW.state = 'done' AND EXISTS (
                    SELECT 1 FROM retrieval_evaluationscore
                    WHERE evaluation_id = NEW.id AND NOT sealed
                ) THEN
                    {raise_refusal("an evaluation is done when all its scores are")}
                END IF;
                """,
            ),
            parent_must_be_gone(
                "knowledge_base_id",
                "retrieval_knowledgebase",
                "goes only together with its knowledge base",
            ),
            refuse_truncate(),
        ]

    def __str__(self) -> str:
        return str(self.id)


class EvaluationScore(models.Model):
    """One snapshot by one ranking in an evaluation: values only, so that it outlives a snapshot.

    ``outcomes`` has one entry per question, in the order of the evaluation's; it grows until the
    score is sealed with its ``measures``, and never changes after.
    """

    evaluation = models.ForeignKey(Evaluation, on_delete=models.PROTECT, related_name="scores")
    position = models.PositiveSmallIntegerField()
    snapshot_number = models.PositiveIntegerField()
    snapshot_digest = models.CharField(max_length=71)
    ranking = models.CharField(max_length=16)
    recipe = ReceivedJSONField(help_text="The ranking recipe.")
    settings = ReceivedJSONField(help_text="The knowledge base's settings at the start.")
    model_name = models.CharField(max_length=200)
    model_fingerprint = models.CharField(max_length=71)
    chunking = models.CharField(max_length=300, help_text="The chunking recipe, canonical JSON.")
    document_count = models.PositiveIntegerField()
    chunk_count = models.PositiveIntegerField()
    outcomes = ReceivedJSONField(default=list)
    measures = ReceivedJSONField(null=True)
    sealed = models.BooleanField(default=False)

    class Meta:
        ordering = ["evaluation", "position"]
        constraints = [
            models.UniqueConstraint(
                fields=["evaluation", "position"], name="evaluation_score_position_once"
            ),
            models.CheckConstraint(
                name="evaluation_score_sealed_has_measures",
                condition=models.Q(sealed=False) | models.Q(measures__isnull=False),
            ),
        ]
        triggers = [
            guard(
                "only_while_running",
                pgtrigger.Insert,
                f"""
                SELECT state INTO parent_state FROM retrieval_evaluation
                WHERE id = NEW.evaluation_id FOR SHARE;
                IF parent_state IS DISTINCT FROM 'running' OR NEW.sealed THEN
                    {raise_refusal("its evaluation has ended, or it comes sealed")}
                END IF;
                """,
                declare=[("parent_state", "TEXT")],
            ),
            guard(
                "immutable_once_sealed",
                pgtrigger.Update,
                f"""
                IF OLD.sealed OR NOT {unchanged(*_SCORE)} THEN
                    {raise_refusal("a sealed score never changes")}
                END IF;
                """,
            ),
            parent_must_be_gone(
                "evaluation_id", "retrieval_evaluation", "goes only together with its evaluation"
            ),
            refuse_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.evaluation_id}: #{self.snapshot_number} {self.ranking}"
