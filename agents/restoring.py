"""Taking an earlier version up again: the draft becomes a copy of it."""

from __future__ import annotations

from django.db import transaction

from agents.configuration import configuration_of
from agents.drafting import (
    check_revision,
    draft_of,
    lock_agent,
    require_active,
    with_knowledge_bases,
    write_configuration,
)
from agents.models import Agent, AgentVersion
from agents.versions import find_version
from registry import audit
from registry.access import Access
from registry.actors import Actor


def restore_version(
    *,
    actor: Actor,
    access: Access | None,
    agent: Agent,
    number: int,
    expected_revision: str | None,
) -> AgentVersion:
    """Make the draft a copy of version ``number`` and return it; its revision goes on counting.

    The draft's knowledge bases are as they are now: only the published version pins snapshots.
    Raises NotFound, Conflict (``agent.archived``), RevisionRequired, StaleRevision, Invalid for a
    knowledge base outside ``access``.
    """
    with transaction.atomic():
        locked = lock_agent(agent)
        require_active(locked)
        draft = draft_of(locked)
        check_revision(draft, expected_revision)
        before = configuration_of(draft)
        wanted = configuration_of(find_version(locked, number))
        wanted = with_knowledge_bases(wanted, access, held=before.knowledge_base_ids)
        revision = draft.revision
        draft.based_on = number
        write_configuration(draft, before, wanted)
        audit.record(
            actor=actor,
            action="draft.restored",
            object_type="agent",
            object_id=locked.slug,
            before={"revision": revision},
            after={
                "revision": draft.revision,
                "version": number,
                **before.differences(wanted),
            },
        )
    return draft
