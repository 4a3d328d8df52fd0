"""What both apps stand on: API keys, the audit log, idempotency records, who we are."""

from __future__ import annotations

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models

from registry.immutability import insert_only


class ApiKey(models.Model):
    """A bearer key of the HTTP API; only its digest is kept."""

    class Scope(models.TextChoices):
        RUNTIME = "runtime"
        EDITOR = "editor"
        PUBLISHER = "publisher"
        ADMIN = "admin"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=200, unique=True)
    prefix = models.CharField(max_length=16, help_text="The first characters, to recognise it by.")
    digest = models.CharField(max_length=71, unique=True)
    scope = models.CharField(max_length=16, choices=Scope.choices)
    all_agents = models.BooleanField(
        default=False, help_text="Made without naming agents: works for every agent."
    )
    agent_slugs = ArrayField(models.CharField(max_length=100), default=list, blank=True)
    knowledge_base_ids = ArrayField(models.UUIDField(), default=list, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name"]
        verbose_name = "API key"
        constraints = [
            models.CheckConstraint(
                name="api_key_scope_known",
                condition=models.Q(scope__in=["runtime", "editor", "publisher", "admin"]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.scope})"


class AuditEvent(models.Model):
    """One change: who, what, before, after. Written by ``registry.audit.record`` alone."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor_kind = models.CharField(max_length=16)
    actor = models.CharField(max_length=200, help_text="As text: history outlives accounts.")
    action = models.CharField(max_length=64, help_text="For example knowledge_base.updated.")
    object_type = models.CharField(max_length=64)
    object_id = models.CharField(max_length=200)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["object_type", "object_id"], name="audit_event_object"),
        ]
        triggers = insert_only("the audit log is only ever added to")

    def __str__(self) -> str:
        return f"#{self.pk} {self.action} by {self.actor}"


class IdempotencyRecord(models.Model):
    """What a write with an ``Idempotency-Key`` answered; kept 24 hours."""

    id = models.BigAutoField(primary_key=True)
    api_key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=71)
    status = models.PositiveSmallIntegerField()
    response = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["api_key", "key"], name="idempotency_key_once"),
        ]

    def __str__(self) -> str:
        return self.key


class Installation(models.Model):
    """This installation's identity, by which an import records where something came from."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    only = models.BooleanField(default=True, unique=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(name="installation_only_one", condition=models.Q(only=True)),
        ]
        triggers = insert_only("what was exported names this installation for ever")

    def __str__(self) -> str:
        return str(self.pk)
