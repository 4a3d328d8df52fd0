"""The version that a running agent asks for, found without a query once it is known.

A published version never changes: where it is, and itself made ready, are kept in process for
good, the least used of too many given up. Which agent a slug is and where an alias points may
change, and are looked up.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from agents.drafting import SLUG, agent_not_found, draft_of
from agents.models import Agent, AgentVersion, Alias
from agents.versions import Runnable, published, read_choice, runnable, version_not_found
from registry.access import Access
from registry.errors import NotFound
from registry.lookups import Lookup

_AliasKey = tuple[uuid.UUID, str]


def _read_agents(slugs: Collection[str]) -> dict[str, uuid.UUID]:
    return dict(Agent.objects.filter(slug__in=slugs).values_list("slug", "pk"))


def _read_aliases(keys: Collection[_AliasKey]) -> dict[_AliasKey, int]:
    found = Alias.objects.filter(
        agent__in={agent for agent, _ in keys}, name__in={name for _, name in keys}
    ).values_list("agent_id", "name", "version__number")
    return {(agent, name): number for agent, name, number in found if number is not None}


_agents: Lookup[str, uuid.UUID] = Lookup(_read_agents)
_aliases: Lookup[_AliasKey, int] = Lookup(_read_aliases)


def version_to_serve(slug: str, names: Mapping[str, Any], access: Access) -> Runnable:
    """Return the version of an agent that exactly one of ``version`` and ``alias`` names.

    Raises NotFound for an agent (also one outside ``access``), a version or an alias that is not
    there, and what ``read_choice`` raises.
    """
    access.require_agent(slug)
    agent_id = _agents.get(slug) if SLUG.fullmatch(slug) else None
    if agent_id is None:
        raise agent_not_found(slug)
    choice = read_choice(names, access)
    if choice.is_draft:
        agent = Agent.objects.get(pk=agent_id)
        return runnable(agent, draft_of(agent))
    number = choice.number
    if choice.alias is not None:
        number = _aliases.get((agent_id, choice.alias))
        if number is None:
            raise NotFound(f"{slug} has no alias {choice.alias!r}.", code="alias.not_found")
    return published(slug, _version_id(agent_id, slug, number or 0))


@lru_cache(maxsize=20_000)
def _version_id(agent_id: uuid.UUID, slug: str, number: int) -> uuid.UUID:
    found = AgentVersion.objects.filter(agent=agent_id, number=number, state="published")
    version_id = found.values_list("pk", flat=True).first()
    if version_id is None:
        raise version_not_found(slug, number)
    return version_id
