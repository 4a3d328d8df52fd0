"""Agents, drafts, versions and aliases as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Max, Q

from agents.configuration import Configuration, configuration_of
from agents.coverage import coverage_of
from agents.manifest import pinned_knowledge_bases
from agents.models import Agent, AgentVersion, Alias, AliasMove
from agents.remarks import remarks_on
from agents.versions import HOLDER_KIND, runnable
from retrieval.pins import pinned_snapshots
from retrieval.search_settings import SearchSettings

Json = dict[str, Any]


def render_agents(agents: Sequence[Agent]) -> list[Json]:
    """Return agents with the numbers of their versions, at one more query."""
    rows = (
        AgentVersion.objects.filter(agent__in=agents)
        .order_by()
        .values("agent_id")
        .annotate(newest=Max("number"), draft=Max("revision", filter=Q(state="draft")))
    )
    numbers = {row["agent_id"]: row for row in rows}
    return [
        {
            "slug": agent.slug,
            "name": agent.name,
            "archived": agent.archived_at is not None,
            "newestVersion": numbers[agent.pk]["newest"],
            "draftRevision": numbers[agent.pk]["draft"],
            "createdAt": agent.created_at.isoformat(),
        }
        for agent in agents
    ]


def render_agent(agent: Agent) -> Json:
    """Return one agent; for several, ``render_agents`` asks no more often."""
    return render_agents([agent])[0]


def render_draft(agent: Agent, draft: AgentVersion) -> Json:
    """Return the draft; ``warnings`` is what its expressions make one wonder about."""
    configuration = configuration_of(draft)
    return {
        **_configured(agent, draft, configuration),
        "warnings": [remark.as_json() for remark in remarks_on(configuration)],
    }


def _configured(agent: Agent, version: AgentVersion, configuration: Configuration) -> Json:
    return {
        "agent": agent.slug,
        "revision": version.revision,
        "basedOn": version.based_on,
        **configuration.as_json(),
    }


def render_version_in_short(version: AgentVersion) -> Json:
    """Return what a list shows of a published version: everything but what it is made of."""
    return {
        "number": version.number,
        "digest": version.digest,
        "basedOn": version.based_on,
        "notes": version.notes,
        "publishedBy": version.published_by,
        "publishedAt": version.published_at.isoformat() if version.published_at else None,
        "origin": version.origin,
    }


def render_version(agent: Agent, version: AgentVersion) -> Json:
    """Return a published version whole; ``manifest`` is the text whose SHA-256 is the digest."""
    snapshots = pinned_snapshots(holder_kind=HOLDER_KIND, holder_id=version.pk)
    return {
        **_configured(agent, version, configuration_of(version)),
        **render_version_in_short(version),
        "knowledgeBases": [
            {
                "id": str(base_id),
                "name": pinned["name"],
                "snapshot": {
                    "number": snapshots[base_id].number,
                    "digest": pinned["snapshotDigest"],
                },
                "settings": SearchSettings.from_json(pinned["settings"]).as_json(),
            }
            for base_id, pinned in pinned_knowledge_bases(version.manifest).items()
        ],
        "manifest": version.manifest,
    }


def render_publication(agent: Agent, version: AgentVersion) -> Json:
    """Return a version as publishing answers it: with what makes one wonder about it."""
    ready = runnable(agent, version)
    coverage = coverage_of(ready.configuration, ready.names)
    remarks = [*remarks_on(ready.configuration), *coverage.warnings]
    return {
        **render_version(agent, version),
        "warnings": [remark.as_json() for remark in remarks],
    }


def render_alias(alias: Alias) -> Json:
    """Return an alias that was selected with its version."""
    return {
        "name": alias.name,
        "version": alias.version.number,
        "movedAt": alias.moved_at.isoformat(),
    }


def render_move(move: AliasMove) -> Json:
    """Return a move of an alias; ``from`` is null for the first."""
    return {
        "from": move.from_number,
        "to": move.to_number,
        "actor": move.actor,
        "at": move.at.isoformat(),
    }
