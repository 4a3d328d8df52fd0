"""Aliases: names that point to published versions, moved and rolled back with history."""

from __future__ import annotations

import re
from typing import Final

from django.db import transaction

from agents.drafting import lock_agent
from agents.models import Agent, Alias, AliasMove
from agents.models.agents import SLUG_PATTERN
from agents.versions import find_version
from registry import audit
from registry.actors import Actor
from registry.errors import Conflict, Invalid, NotFound

ANY: Final = object()
_NAME = re.compile(SLUG_PATTERN)


def find_alias(agent: Agent, name: str) -> Alias:
    """Return an alias with its version. Raises NotFound."""
    found = Alias.objects.select_related("version").filter(agent=agent, name=name)
    alias = found.first() if _NAME.fullmatch(name) else None
    if alias is None:
        raise NotFound(f"{agent.slug} has no alias {name!r}.", code="alias.not_found")
    return alias


def move_alias(
    *, actor: Actor, agent: Agent, name: str, number: int, expected: object = ANY
) -> Alias:
    """Point an alias to version ``number``, making it if it is new.

    ``expected`` is the number it must point to now, None for "must not exist yet". Raises
    Invalid for a name of another form, NotFound for an unknown version, Conflict
    (``alias.moved``) where it points elsewhere than expected.
    """
    if not _NAME.fullmatch(name):
        raise Invalid.field(
            "name", name, "must be lower-case letters, digits, - and _", allowed=_NAME.pattern
        )
    with transaction.atomic():
        locked = lock_agent(agent)
        alias = Alias.objects.select_related("version").filter(agent=locked, name=name).first()
        now = alias.version.number if alias else None
        if expected is not ANY and expected != now:
            raise Conflict(
                f"The alias {name!r} points to {_shown(now)}, not to {_shown(expected)}.",
                code="alias.moved",
                version=now,
            )
        version = find_version(locked, number)
        if alias is None:
            alias = Alias.objects.create(agent=locked, name=name, version=version)
        elif now != number:
            alias.version = version
            alias.save()
        if now != number:
            AliasMove.objects.create(
                agent=locked, name=name, from_number=now, to_number=number, actor=actor.label
            )
            audit.record(
                actor=actor,
                action="alias.moved",
                object_type="agent",
                object_id=locked.slug,
                before={"alias": name, "version": now},
                after={"alias": name, "version": number},
            )
    return alias


def _shown(number: object) -> str:
    return "nothing" if number is None else f"version {number}"
