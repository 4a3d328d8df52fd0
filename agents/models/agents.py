"""Agents and the aliases that point to their published versions."""

from __future__ import annotations

import uuid

import pgtrigger
from django.core.validators import RegexValidator
from django.db import models

from registry.immutability import (
    guard,
    insert_only,
    raise_refusal,
    refuse,
    refuse_truncate,
    unchanged,
)

SLUG_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,99}$"


class Agent(models.Model):
    """What a team runs. It holds no configuration itself; its versions do."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.CharField(
        max_length=100,
        unique=True,
        validators=[RegexValidator(SLUG_PATTERN)],
        help_text="Lower-case letters, digits, - and _; part of every address.",
    )
    name = models.CharField(max_length=200)
    archived_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                name="agent_slug_form", condition=models.Q(slug__regex=SLUG_PATTERN)
            ),
        ]
        triggers = [
            guard(
                "keeps_its_identity",
                pgtrigger.Update,
                f"""
                IF NOT {unchanged("id", "slug", "created_at")} THEN
                    {raise_refusal("versions are found by their agent's id and slug, for ever")}
                END IF;
                """,
            ),
            refuse("never_deleted", pgtrigger.Delete, "an agent is archived, never deleted"),
            refuse_truncate(),
        ]

    def __str__(self) -> str:
        return self.slug


class Alias(models.Model):
    """A name that points to one published version of an agent and can be moved."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="aliases")
    name = models.CharField(max_length=100, validators=[RegexValidator(SLUG_PATTERN)])
    version = models.ForeignKey(
        "agents.AgentVersion", on_delete=models.PROTECT, related_name="aliases"
    )
    moved_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["agent", "name"]
        verbose_name_plural = "aliases"
        constraints = [
            models.UniqueConstraint(fields=["agent", "name"], name="alias_name_once_per_agent"),
        ]
        triggers = [
            guard(
                "points_to_published",
                pgtrigger.Insert | pgtrigger.Update,
                f"""
                IF TG_OP = 'UPDATE' AND NOT {unchanged("id", "agent_id", "name")} THEN
                    {raise_refusal("an alias keeps its agent and its name")}
                END IF;
                IF NOT EXISTS (
                    SELECT 1 FROM agents_agentversion
                    WHERE id = NEW.version_id AND agent_id = NEW.agent_id AND state = 'published'
                ) THEN
                    {raise_refusal("an alias points to a published version of its agent")}
                END IF;
                """,
            ),
            refuse_truncate(),
        ]

    def __str__(self) -> str:
        return self.name


class AliasMove(models.Model):
    """One move of an alias: the history that rolling back relies on."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="alias_moves")
    name = models.CharField(max_length=100)
    from_number = models.PositiveIntegerField(null=True)
    to_number = models.PositiveIntegerField()
    actor = models.CharField(max_length=200)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]
        triggers = insert_only("the history of an alias is only ever added to")

    def __str__(self) -> str:
        return f"{self.name}: {self.from_number} → {self.to_number}"
