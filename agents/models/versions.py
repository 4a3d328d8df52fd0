"""One configuration of an agent: an editable draft, or a published version for ever."""

from __future__ import annotations

import uuid

import pgtrigger
from django.db import models

from agents.models.agents import Agent
from registry.fields import ReceivedJSONField
from registry.immutability import guard, raise_refusal, refuse_truncate, unchanged
from retrieval.models import KnowledgeBase

# Locks the parents that a row had and will have, so that publishing waits or is waited for.
_PARENT_MUST_BE_DRAFT = f"""
IF TG_OP <> 'INSERT' THEN
    SELECT state INTO parent_state FROM agents_agentversion WHERE id = OLD.version_id FOR SHARE;
    IF parent_state = 'published' THEN
        {raise_refusal("its version is published")}
    END IF;
END IF;
IF TG_OP <> 'DELETE' THEN
    SELECT state INTO parent_state FROM agents_agentversion WHERE id = NEW.version_id FOR SHARE;
    IF parent_state IS DISTINCT FROM 'draft' THEN
        {raise_refusal("its version is published")}
    END IF;
END IF;
"""


def _part_of_a_draft() -> list[pgtrigger.Trigger]:
    return [
        guard(
            "immutable_once_published",
            pgtrigger.Insert | pgtrigger.Update | pgtrigger.Delete,
            _PARENT_MUST_BE_DRAFT,
            declare=[("parent_state", "TEXT")],
        ),
        refuse_truncate(),
    ]


class AgentVersion(models.Model):
    """Prompt, model, parameters, context variables, bindings and tools of an agent.

    Exactly one is the draft, with a revision that counts its edits. Publishing turns that very
    row into the next number and copies a new draft from it.
    """

    class State(models.TextChoices):
        DRAFT = "draft"
        PUBLISHED = "published"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="versions")
    state = models.CharField(max_length=16, choices=State.choices, default=State.DRAFT)
    number = models.PositiveIntegerField(null=True, help_text="1, 2, 3 …; null for the draft.")
    revision = models.PositiveIntegerField(default=1)

    prompt = models.TextField(blank=True)
    model = models.CharField(max_length=200, blank=True)
    parameters = ReceivedJSONField(default=dict)
    context_variables = ReceivedJSONField(default=list)
    sample_contexts = ReceivedJSONField(
        default=list, help_text="Conversations to look at the bindings with; decide nothing."
    )
    coverage_errors = models.BooleanField(
        default=False, help_text="Publishing is refused while the coverage has warnings."
    )

    based_on = models.PositiveIntegerField(
        null=True, help_text="The number of the version that this one was copied from."
    )
    notes = models.TextField(blank=True)
    published_by = models.CharField(max_length=200, blank=True)
    published_at = models.DateTimeField(null=True)
    manifest = models.TextField(blank=True, help_text="Canonical JSON (RFC 8785).")
    digest = models.CharField(max_length=71, blank=True)
    origin = ReceivedJSONField(
        null=True,
        blank=True,
        help_text="Where an imported version came from: installation, agent, number, times.",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["agent", models.F("number").desc(nulls_first=True)]
        constraints = [
            models.UniqueConstraint(fields=["agent", "number"], name="version_number_once"),
            models.UniqueConstraint(
                fields=["agent"],
                condition=models.Q(state="draft"),
                name="version_one_draft_per_agent",
            ),
            models.CheckConstraint(
                name="version_draft_or_published",
                condition=models.Q(
                    state="draft",
                    number__isnull=True,
                    published_at__isnull=True,
                    manifest="",
                    digest="",
                )
                | (
                    models.Q(state="published", number__gte=1, published_at__isnull=False)
                    & ~models.Q(manifest="")
                    & ~models.Q(digest="")
                ),
            ),
            models.CheckConstraint(
                name="version_only_published_is_imported",
                condition=models.Q(origin__isnull=True) | models.Q(state="published"),
            ),
        ]
        triggers = [
            guard(
                "starts_as_draft",
                pgtrigger.Insert,
                f"""
                IF NEW.state <> 'draft' THEN
                    {raise_refusal("a version is published from a draft, never inserted")}
                END IF;
                IF NEW.revision < (
                    SELECT MAX(revision) FROM agents_agentversion WHERE agent_id = NEW.agent_id
                ) THEN
                    {raise_refusal("a new draft goes on counting revisions")}
                END IF;
                """,
            ),
            guard(
                "immutable_once_published",
                pgtrigger.Update,
                f"""
                IF OLD.state = 'published' THEN
                    {raise_refusal("a published version never changes")}
                END IF;
                IF NOT {unchanged("id", "agent_id", "created_at")} THEN
                    {raise_refusal("a version stays with its agent")}
                END IF;
                IF NEW.revision < OLD.revision THEN
                    {raise_refusal("revisions are counted upwards only")}
                END IF;
                IF NEW.state = 'published' AND NEW.number IS DISTINCT FROM (
                    SELECT COALESCE(MAX(number), 0) + 1 FROM agents_agentversion
                    WHERE agent_id = NEW.agent_id
                ) THEN
                    {raise_refusal("versions are numbered without gaps")}
                END IF;
                IF NEW.state = 'published' AND EXISTS (
                    SELECT knowledge_base_id FROM agents_knowledgebinding
                    WHERE version_id = NEW.id
                    UNION
                    SELECT knowledge_base_id FROM agents_tool
                    WHERE version_id = NEW.id AND knowledge_base_id IS NOT NULL
                    EXCEPT
                    SELECT knowledge_base_id FROM retrieval_snapshotpin
                    WHERE holder_kind = 'agentVersion' AND holder_id = NEW.id::text
                ) THEN
                    {raise_refusal("a version pins a snapshot of each of its knowledge bases")}
                END IF;
                """,
            ),
            guard(
                "never_deleted",
                pgtrigger.Delete,
                raise_refusal("versions and the draft stay with their agent"),
            ),
            refuse_truncate(),
        ]

    def __str__(self) -> str:
        return f"{self.agent_id} v{self.number}" if self.number else f"{self.agent_id} draft"


class KnowledgeBinding(models.Model):
    """Attaches a knowledge base to a version: always, or where its expression applies.

    ``id`` is unique within the version and carried into the next draft; the primary key is
    another.
    """

    pk_id = models.BigAutoField(primary_key=True, db_column="pk")
    id = models.UUIDField(default=uuid.uuid4)
    version = models.ForeignKey(AgentVersion, on_delete=models.PROTECT, related_name="bindings")
    position = models.PositiveSmallIntegerField(default=0)
    knowledge_base = models.ForeignKey(KnowledgeBase, on_delete=models.PROTECT, related_name="+")
    expression = models.TextField(  # noqa: DJ001 - null means none; blank is refused
        null=True,
        blank=True,
        help_text='For example region == "EU". None: the knowledge base always applies.',
    )
    label = models.CharField(max_length=200)
    instruction = models.TextField(
        blank=True, help_text="What the model should use it for: use for returns and refunds."
    )
    enabled = models.BooleanField(default=True)

    class Meta:
        ordering = ["version", "position"]
        constraints = [
            models.UniqueConstraint(fields=["version", "id"], name="binding_id_once_per_version"),
            models.UniqueConstraint(
                fields=["version", "position"],
                name="binding_position_once",
                deferrable=models.Deferrable.DEFERRED,
            ),
            models.CheckConstraint(
                name="binding_expression_not_blank", condition=~models.Q(expression="")
            ),
        ]
        triggers = _part_of_a_draft()

    def __str__(self) -> str:
        return self.label


class Tool(models.Model):
    """Something a version can call: ``rag`` searches one knowledge base, ``function`` is
    executed by the agent's own runtime."""

    class Type(models.TextChoices):
        RAG = "rag"
        FUNCTION = "function"

    pk_id = models.BigAutoField(primary_key=True, db_column="pk")
    id = models.UUIDField(default=uuid.uuid4)
    version = models.ForeignKey(AgentVersion, on_delete=models.PROTECT, related_name="tools")
    position = models.PositiveSmallIntegerField(default=0)
    type = models.CharField(max_length=16, choices=Type.choices)
    name = models.CharField(max_length=64)
    description = models.TextField(blank=True)
    parameters = ReceivedJSONField(null=True, blank=True, help_text="JSON Schema of a function.")
    knowledge_base = models.ForeignKey(
        KnowledgeBase, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )

    class Meta:
        ordering = ["version", "position"]
        constraints = [
            models.UniqueConstraint(fields=["version", "id"], name="tool_id_once_per_version"),
            models.UniqueConstraint(fields=["version", "name"], name="tool_name_once_per_version"),
            models.UniqueConstraint(
                fields=["version", "position"],
                name="tool_position_once",
                deferrable=models.Deferrable.DEFERRED,
            ),
            models.CheckConstraint(
                name="tool_bound_by_type",
                condition=models.Q(
                    type="rag", knowledge_base__isnull=False, parameters__isnull=True
                )
                | models.Q(type="function", knowledge_base__isnull=True, parameters__isnull=False),
            ),
        ]
        triggers = _part_of_a_draft()

    def __str__(self) -> str:
        return self.name
