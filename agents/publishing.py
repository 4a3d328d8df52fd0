"""Publishing: a draft becomes an immutable, numbered version.

One transaction. The agent is locked first, then the draft, then the knowledge bases
``FOR SHARE`` in id order, so that no editor slips something in and no snapshot switches while the
manifest is made. The draft row itself becomes version n; a new draft is copied from it.
"""

from __future__ import annotations

import uuid

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from agents.configuration import Configuration, configuration_of
from agents.coverage import refuse_uncovered
from agents.drafting import (
    check_revision,
    columns_of,
    draft_of,
    lock_agent,
    require_active,
    write_bindings,
    write_tools,
)
from agents.manifest import build_manifest
from agents.models import Agent, AgentVersion
from agents.versions import HOLDER_KIND
from registry import audit
from registry.actors import Actor
from registry.errors import Conflict
from retrieval import pins, search
from retrieval.indexing import outdated
from retrieval.models import KnowledgeBase

OUTDATED = "publish.snapshot_outdated"


def publish_draft(
    *,
    actor: Actor,
    agent: Agent,
    notes: str = "",
    accept_outdated: bool = False,
    expected_revision: str | None = None,
) -> AgentVersion:
    """Publish the agent's draft and return the new version.

    ``expected_revision`` None means whatever the draft is now. Raises Conflict
    (``publish.no_snapshot``; ``publish.snapshot_outdated`` with figures, unless
    ``accept_outdated``; ``publish.unchanged`` with the number of the equal version), Invalid
    (``reranker.not_configured``; ``publish.coverage`` with every warning, where the draft wants
    these to be errors), StaleRevision.
    """
    with transaction.atomic():
        locked = lock_agent(agent)
        require_active(locked)
        draft = AgentVersion.objects.select_for_update().get(pk=draft_of(locked).pk)
        if expected_revision is not None:
            check_revision(draft, expected_revision)
        configuration = configuration_of(draft)
        targets = _targets(configuration, accept_outdated=accept_outdated)
        if configuration.coverage_errors:
            refuse_uncovered(
                configuration, {base_id: target.name for base_id, target in targets.items()}
            )
        manifest = build_manifest(configuration, targets)
        _refuse_unchanged(locked, manifest.digest)
        number = next_number(locked)
        draft.state = AgentVersion.State.PUBLISHED
        draft.number = number
        draft.notes = notes
        draft.published_by = actor.label
        draft.published_at = timezone.now()
        draft.manifest = manifest.text
        draft.digest = manifest.digest
        pins.pin(
            holder_kind=HOLDER_KIND,
            holder_id=draft.pk,
            holder_label=f"{locked.slug} v{number}",
            snapshots=[target.snapshot for target in targets.values()],
        )
        draft.save()
        start_draft(draft, configuration, based_on=number)
        audit.record(
            actor=actor,
            action="version.published",
            object_type="agent",
            object_id=locked.slug,
            after={"version": number, "digest": manifest.digest, "notes": notes},
        )
    return draft


def next_number(agent: Agent) -> int:
    """Return the number of the next version of a locked agent."""
    newest: int | None = agent.versions.aggregate(newest=Max("number"))["newest"]
    return 1 + (newest or 0)


def _targets(
    configuration: Configuration, *, accept_outdated: bool
) -> dict[uuid.UUID, search.Target]:
    bases = list(pins.lock_for_publishing(configuration.knowledge_base_ids))
    for base in bases:
        if base.current_snapshot is None:
            raise Conflict(
                f"{base.name} has no ready snapshot to pin yet.",
                code="publish.no_snapshot",
                knowledgeBase=str(base.pk),
            )
    if not accept_outdated:
        _refuse_outdated(bases)
    for base in bases:
        search.require_reranker(base)
    return {base.pk: search.current_target(base) for base in bases}


def _refuse_outdated(bases: list[KnowledgeBase]) -> None:
    behind = [(base, how) for base in bases if (how := outdated(base)) is not None]
    if behind:
        names = ", ".join(base.name for base, _ in behind)
        raise Conflict(
            f"Changes are not yet in the snapshot of {names}. Wait for the build, or publish "
            "with acceptOutdated.",
            code=OUTDATED,
            knowledgeBases=[
                {
                    "id": str(base.pk),
                    "name": base.name,
                    "snapshot": base.current_snapshot.number if base.current_snapshot else None,
                    "changesNotIndexed": how.changes,
                    "building": how.building,
                }
                for base, how in behind
            ],
        )


def _refuse_unchanged(agent: Agent, digest: str) -> None:
    newest = agent.versions.filter(state="published").order_by("-number").first()
    if newest is not None and newest.digest == digest:
        raise Conflict(
            f"The draft is equal to version {newest.number}.",
            code="publish.unchanged",
            version=newest.number,
        )


def start_draft(
    version: AgentVersion, configuration: Configuration, *, based_on: int | None
) -> None:
    """Make the draft after ``version``; its revision goes on counting where this one was."""
    draft = AgentVersion.objects.create(
        agent_id=version.agent_id,
        revision=version.revision,
        based_on=based_on,
        **columns_of(configuration),
    )
    write_bindings(draft, configuration.bindings)
    write_tools(draft, configuration.tools)
