"""Agents and their drafts: reading what a request says, and writing it.

Every edit locks the agent's row first and then reads the draft in a new statement: publishing
turns the draft row into a version, and an editor that waited on the draft's row itself would wake
up holding a published one.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.configuration import (
    BindingValues,
    Configuration,
    ToolValues,
    configuration_of,
    read_configuration,
)
from agents.models import Agent, AgentVersion, KnowledgeBinding, Tool
from agents.models.agents import SLUG_PATTERN
from agents.remarks import new_warnings, refuse
from registry import audit, requests
from registry.access import Access
from registry.actors import Actor
from registry.errors import (
    Conflict,
    FieldError,
    Invalid,
    NotFound,
    RevisionRequired,
    StaleRevision,
)
from retrieval.pins import lock_references

ANY_REVISION = "*"
SLUG = re.compile(SLUG_PATTERN)


def find_agent(slug: str, access: Access | None = None) -> Agent:
    """Return an agent. Raises NotFound, also where ``access`` may not see it."""
    if access is not None:
        access.require_agent(slug)
    agent = Agent.objects.filter(slug=slug).first() if SLUG.fullmatch(slug) else None
    if agent is None:
        raise agent_not_found(slug)
    return agent


def agent_not_found(slug: str) -> NotFound:
    """Return the error of a slug that no agent has, or none that the caller may see."""
    return NotFound(f"There is no agent {slug!r}.", code="agent.not_found")


def lock_agent(agent: Agent) -> Agent:
    """Lock an agent for this transaction: the first step of every edit and of publishing."""
    return Agent.objects.select_for_update().get(pk=agent.pk)


def require_active(agent: Agent) -> None:
    """Raise Conflict (``agent.archived``) for an archived agent."""
    if agent.archived_at is not None:
        raise Conflict(f"The agent {agent.slug!r} is archived.", code="agent.archived")


def draft_of(agent: Agent) -> AgentVersion:
    """Return the agent's draft."""
    return AgentVersion.objects.get(agent=agent, state="draft")


def create_agent(*, actor: Actor, values: Mapping[str, Any]) -> Agent:
    """Create an agent ``{slug, name}`` with an empty draft.

    Raises Invalid for a slug of another form, Conflict (``agent.slug_taken``).
    """
    requests.refuse_unknown(values, ("slug", "name"))
    slug = requests.text(values, "slug", longest=100)
    name = requests.text(values, "name", default=slug, longest=200).strip()
    if not SLUG.fullmatch(slug):
        raise Invalid.field(
            "slug",
            slug,
            "must be lower-case letters, digits, - and _, starting with a letter or digit",
            allowed=SLUG.pattern,
        )
    try:
        with transaction.atomic():
            agent = Agent.objects.create(slug=slug, name=name)
            AgentVersion.objects.create(agent=agent)
            audit.record(
                actor=actor,
                action="agent.created",
                object_type="agent",
                object_id=slug,
                after={"name": name},
            )
    except IntegrityError as error:
        if "agents_agent_slug" not in str(error):
            raise
        raise Conflict(
            f"There is already an agent {slug!r}.",
            code="agent.slug_taken",
            errors=[
                FieldError(
                    field="slug",
                    value=slug,
                    message="is the slug of another agent",
                    allowed="a slug that no agent has",
                )
            ],
        ) from error
    return agent


def update_agent(*, actor: Actor, agent: Agent, values: Mapping[str, Any]) -> Agent:
    """Rename an agent, or archive it and bring it back with ``archived``.

    An archived agent is not edited or published; its published versions keep answering.
    """
    requests.refuse_unknown(values, ("name", "archived"))
    with transaction.atomic():
        locked = lock_agent(agent)
        before = {"name": locked.name, "archived": locked.archived_at is not None}
        if "name" in values:
            locked.name = requests.text(values, "name", longest=200).strip()
        if "archived" in values:
            archived = requests.boolean(values, "archived", default=False)
            if archived != before["archived"]:
                locked.archived_at = timezone.now() if archived else None
        after = {"name": locked.name, "archived": locked.archived_at is not None}
        if after != before:
            locked.save()
            old, new = audit.changed(before, after)
            audit.record(
                actor=actor,
                action="agent.updated",
                object_type="agent",
                object_id=locked.slug,
                before=old,
                after=new,
            )
    return locked


def edit_draft(
    *,
    actor: Actor,
    access: Access | None,
    agent: Agent,
    values: Mapping[str, Any],
    expected_revision: str | None,
    whole: bool,
    accept_warnings: bool = False,
) -> AgentVersion:
    """Edit the draft: ``whole`` replaces it (PUT), else only the members given (PATCH).

    ``expected_revision`` is the revision the edit started from, or ``"*"`` for whatever it is.
    Raises RevisionRequired, StaleRevision, Invalid naming field, value and what is allowed; also
    (``draft.warnings_not_accepted``) for expressions that are valid and hardly meant, unless
    ``accept_warnings``, which the audit log then says. An edit that changes nothing keeps the
    revision.
    """
    with transaction.atomic():
        locked = lock_agent(agent)
        require_active(locked)
        draft = draft_of(locked)
        check_revision(draft, expected_revision)
        before = configuration_of(draft)
        start = Configuration() if whole else before
        wanted = read_configuration(values, start, known=before)
        wanted = with_knowledge_bases(wanted, access, held=before.knowledge_base_ids)
        if wanted != before:
            warnings = new_warnings(before, wanted)
            if not accept_warnings:
                refuse(warnings)
            accepted = {"acceptedWarnings": [one.message for one in warnings]} if warnings else {}
            write_configuration(draft, before, wanted)
            audit.record(
                actor=actor,
                action="draft.edited",
                object_type="agent",
                object_id=locked.slug,
                before={"revision": draft.revision - 1},
                after={
                    "revision": draft.revision,
                    **before.differences(wanted),
                    **accepted,
                },
            )
    return draft


def check_revision(draft: AgentVersion, expected: str | None) -> None:
    """Raise RevisionRequired where none was given, StaleRevision where it is not the newest."""
    if expected is None:
        raise RevisionRequired(
            'Say which revision of the draft this edit started from: If-Match: "<revision>".',
            revision=draft.revision,
        )
    if expected not in (ANY_REVISION, str(draft.revision)):
        raise StaleRevision(
            f"The draft is at revision {draft.revision}, this edit started from {expected}.",
            revision=draft.revision,
            errors=[
                FieldError(
                    field="If-Match",
                    value=expected,
                    message="is not the newest revision",
                    allowed=[str(draft.revision), ANY_REVISION],
                )
            ],
        )


def with_knowledge_bases(
    wanted: Configuration, access: Access | None, *, held: Collection[uuid.UUID] = ()
) -> Configuration:
    """Return ``wanted`` with its empty labels filled: a binding is called like its base.

    Raises Invalid for a knowledge base that is missing, or outside the key and not ``held`` by
    the draft already; holds off the deletion of the others until this draft refers to them.
    """
    named: list[tuple[str, uuid.UUID]] = [
        (f"bindings.{position}.knowledgeBase", binding.knowledge_base)
        for position, binding in enumerate(wanted.bindings)
    ] + [
        (f"tools.{position}.knowledgeBase", tool.knowledge_base)
        for position, tool in enumerate(wanted.tools)
        if tool.knowledge_base is not None
    ]
    names = lock_references(knowledge_base for _, knowledge_base in named)
    errors = [
        FieldError(
            field=field,
            value=str(knowledge_base),
            message="there is no such knowledge base",
            allowed="the id of a knowledge base",
        )
        for field, knowledge_base in named
        if knowledge_base not in names
        or not (
            access is None or access.sees_knowledge_base(knowledge_base) or knowledge_base in held
        )
    ]
    if errors:
        raise Invalid(
            f"{errors[0].field}: there is no knowledge base {errors[0].value}.",
            code="knowledge_base.unknown",
            errors=errors,
        )
    return replace(
        wanted,
        bindings=tuple(
            replace(binding, label=binding.label or names[binding.knowledge_base])
            for binding in wanted.bindings
        ),
    )


def write_configuration(draft: AgentVersion, before: Configuration, wanted: Configuration) -> None:
    """Write ``wanted`` over a draft that has ``before``, as its next revision."""
    for column, value in columns_of(wanted).items():
        setattr(draft, column, value)
    draft.revision += 1
    draft.save()
    if wanted.bindings != before.bindings:
        draft.bindings.all().delete()
        write_bindings(draft, wanted.bindings)
    if wanted.tools != before.tools:
        draft.tools.all().delete()
        write_tools(draft, wanted.tools)


def columns_of(wanted: Configuration) -> dict[str, Any]:
    """Return what a version's own row holds of a configuration."""
    return {
        "prompt": wanted.prompt,
        "model": wanted.model,
        "parameters": wanted.parameters,
        "context_variables": wanted.context_variables,
        "sample_contexts": wanted.sample_contexts,
        "coverage_errors": wanted.coverage_errors,
    }


def write_bindings(version: AgentVersion, bindings: Sequence[BindingValues]) -> None:
    """Write ``bindings`` in their order."""
    KnowledgeBinding.objects.bulk_create(
        KnowledgeBinding(
            id=binding.id,
            version=version,
            position=position,
            knowledge_base_id=binding.knowledge_base,
            expression=binding.expression,
            label=binding.label,
            instruction=binding.instruction,
            enabled=binding.enabled,
        )
        for position, binding in enumerate(bindings)
    )


def write_tools(version: AgentVersion, tools: Sequence[ToolValues]) -> None:
    """Write ``tools`` in their order."""
    Tool.objects.bulk_create(
        Tool(
            id=tool.id,
            version=version,
            position=position,
            type=tool.type,
            name=tool.name,
            description=tool.description,
            parameters=tool.parameters,
            knowledge_base_id=tool.knowledge_base,
        )
        for position, tool in enumerate(tools)
    )
