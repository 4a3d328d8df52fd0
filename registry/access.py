"""API keys and what they allow: scopes, agents, knowledge bases."""

from __future__ import annotations

import hashlib
import re
import secrets
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from django.db import IntegrityError, transaction
from django.utils import timezone

from registry import audit, requests
from registry.actors import Actor
from registry.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from registry.lookups import Lookup
from registry.models import ApiKey

Scope = Literal["runtime", "editor", "publisher", "admin"]
SCOPES: tuple[Scope, ...] = ("runtime", "editor", "publisher", "admin")

_PREFIX = "reg_"
_SECRET_BYTES = 32
_KEY = re.compile(r"reg_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the caller may do and see.

    ``agents`` and ``knowledge_bases`` are None for "all". A key limited to agents sees only the
    knowledge bases that it names.
    """

    actor: Actor
    scope: Scope
    agents: frozenset[str] | None = None
    knowledge_bases: frozenset[uuid.UUID] | None = None
    key_id: uuid.UUID | None = None

    def reaches(self, scope: Scope) -> bool:
        """Say whether this scope includes ``scope``."""
        return SCOPES.index(self.scope) >= SCOPES.index(scope)

    def require(self, scope: Scope) -> None:
        """Raise Forbidden where this scope does not include ``scope``."""
        if not self.reaches(scope):
            raise Forbidden(
                f"This needs a key of scope {scope}; yours is {self.scope}.",
                required=scope,
                scope=self.scope,
            )

    def require_agent(self, slug: str) -> None:
        """Raise NotFound where the agent is outside this key."""
        if self.agents is not None and slug not in self.agents:
            raise NotFound(f"There is no agent {slug!r}.", code="agent.not_found")

    def sees_knowledge_base(self, knowledge_base_id: uuid.UUID) -> bool:
        return self.knowledge_bases is None or knowledge_base_id in self.knowledge_bases

    def require_knowledge_base(self, knowledge_base_id: uuid.UUID) -> None:
        """Raise NotFound where the knowledge base is outside this key."""
        if not self.sees_knowledge_base(knowledge_base_id):
            raise NotFound(
                f"There is no knowledge base {knowledge_base_id}.", code="knowledge_base.not_found"
            )


def _digest(key: str) -> str:
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def create_api_key(
    *,
    actor: Actor,
    name: str,
    scope: str,
    agents: Iterable[str] | None = None,
    knowledge_bases: Iterable[uuid.UUID] = (),
) -> str:
    """Create a key and return it; it cannot be read again.

    ``agents`` None makes a key for all agents. Raises Invalid for an unknown scope, an empty or
    over-long name, Conflict for a name already taken.
    """
    if scope not in SCOPES:
        raise Invalid.field("scope", scope, "is not a scope", allowed=list(SCOPES))
    name = requests.text({"name": name}, "name", longest=200)
    key = _PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    try:
        _insert(actor, key, name, scope, agents, knowledge_bases)
    except IntegrityError as error:
        if "registry_apikey_name" not in str(error):
            raise
        raise Conflict(
            f"There is already an API key named {name!r}.", code="key.name_taken"
        ) from error
    return key


def _insert(
    actor: Actor,
    key: str,
    name: str,
    scope: str,
    agents: Iterable[str] | None,
    knowledge_bases: Iterable[uuid.UUID],
) -> None:
    with transaction.atomic():
        row = ApiKey.objects.create(
            name=name,
            prefix=key[:12],
            digest=_digest(key),
            scope=scope,
            all_agents=agents is None,
            agent_slugs=sorted(set(agents or ())),
            knowledge_base_ids=sorted(set(knowledge_bases), key=str),
        )
        audit.record(
            actor=actor,
            action="api_key.created",
            object_type="api_key",
            object_id=row.id,
            after={
                "name": name,
                "scope": scope,
                "allAgents": row.all_agents,
                "agents": row.agent_slugs,
                "knowledgeBases": [str(one) for one in row.knowledge_base_ids],
            },
        )


def revoke_api_key(*, actor: Actor, key_id: uuid.UUID) -> None:
    """Revoke a key for ever; revoking it again changes nothing. Raises NotFound."""
    with transaction.atomic():
        row = ApiKey.objects.select_for_update().filter(pk=key_id).first()
        if row is None:
            raise NotFound(f"There is no API key {key_id}.", code="key.not_found")
        if row.revoked_at is not None:
            return
        row.revoked_at = timezone.now()
        row.save(update_fields=["revoked_at"])
        audit.record(actor=actor, action="api_key.revoked", object_type="api_key", object_id=row.id)


def authenticate(key: str) -> Access:
    """Return what ``key`` allows. Raises Unauthenticated, without a query for a wrong form."""
    access = _accesses.get(_digest(key)) if _KEY.fullmatch(key) else None
    if access is None:
        raise Unauthenticated("The API key is unknown or revoked.", code="authentication.failed")
    return access


def _read_accesses(digests: Collection[str]) -> dict[str, Access]:
    rows = ApiKey.objects.filter(digest__in=digests, revoked_at__isnull=True)
    return {row.digest: _access_of(row) for row in rows}


def _access_of(row: ApiKey) -> Access:
    return Access(
        actor=Actor(kind="key", label=row.name),
        scope=row.scope,  # type: ignore[arg-type]  # held by a check constraint
        agents=None if row.all_agents else frozenset(row.agent_slugs),
        knowledge_bases=None if row.all_agents else frozenset(row.knowledge_base_ids),
        key_id=row.id,
    )


_accesses: Lookup[str, Access] = Lookup(_read_accesses)
