"""Finding versions, and everything that a version needs to answer, ready and pinned."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.db.models import QuerySet

from agents.configuration import BindingValues, Configuration, ToolValues, configuration_of
from agents.drafting import draft_of
from agents.expressions import ContextVariable, Expression, parse_expression
from agents.manifest import pinned_knowledge_bases, require_semantics
from agents.models import Agent, AgentVersion
from registry.access import Access
from registry.errors import FieldError, Invalid, NotFound
from retrieval import pins, search
from retrieval.models import KnowledgeBase
from retrieval.search_settings import SearchSettings

HOLDER_KIND = "agentVersion"
DRAFT = "draft"
# Published versions kept ready in a process: bounds what they take.
MOST_KEPT = 1024


def find_version(
    agent: Agent, number: int, *, among: QuerySet[AgentVersion] | None = None
) -> AgentVersion:
    """Return a published version. Raises NotFound."""
    versions = AgentVersion.objects.all() if among is None else among
    version = versions.filter(agent=agent, number=number, state="published").first()
    if version is None:
        raise version_not_found(agent.slug, number)
    return version


def version_not_found(slug: str, number: int) -> NotFound:
    """Return the error of a number that no published version has."""
    return NotFound(f"{slug} has no version {number}.", code="version.not_found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The version that a request names: by number, by alias, or the draft."""

    number: int | None = None
    alias: str | None = None

    @property
    def is_draft(self) -> bool:
        return self.number is None and self.alias is None


def read_choice(body: Mapping[str, Any], access: Access) -> Choice:
    """Return which version a request names by exactly one of ``version`` and ``alias``.

    ``version: "draft"`` needs an editor. Raises Invalid (``version.ambiguous``) for both or
    neither.
    """
    number, alias = body.get("version"), body.get("alias")
    if (number is None) == (alias is None):
        raise Invalid(
            "Name exactly one of version and alias.",
            code="version.ambiguous",
            errors=[
                FieldError(
                    field=name,
                    value=value,
                    message="name exactly one of version and alias",
                    allowed="exactly one of version and alias",
                )
                for name, value in (("version", number), ("alias", alias))
            ],
        )
    if alias is not None:
        if not isinstance(alias, str):
            raise Invalid.field("alias", alias, "must be a text", allowed="string")
        return Choice(alias=alias)
    if number == DRAFT:
        access.require("editor")
        return Choice()
    if isinstance(number, str) and number.isascii() and number.isdecimal():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 2**31:
        raise Invalid.field(
            "version", number, "must be a version number or “draft”", allowed=["1, 2, 3 …", DRAFT]
        )
    return Choice(number=number)


def choose_version(agent: Agent, body: Mapping[str, Any], access: Access) -> AgentVersion:
    """Return the version of ``agent`` that a request names, read now.

    Raises NotFound for an unknown version or alias, and what ``read_choice`` raises.
    """
    choice = read_choice(body, access)
    if choice.alias is not None:
        found = agent.aliases.select_related("version").filter(name=choice.alias).first()
        if found is None:
            raise NotFound(f"{agent.slug} has no alias {choice.alias!r}.", code="alias.not_found")
        return found.version
    if choice.number is None:
        return draft_of(agent)
    return find_version(agent, choice.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A binding with its expression parsed; None where it always applies."""

    values: BindingValues
    expression: Expression | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runnable:
    """A version ready to answer. Immutable for a published one, hence kept in process."""

    slug: str
    number: int | None
    revision: int
    digest: str
    configuration: Configuration
    variables: tuple[ContextVariable, ...]
    bindings: tuple[Binding, ...]
    targets: Mapping[uuid.UUID, search.Target]
    names: Mapping[uuid.UUID, str]
    # What others have made of it, by what they call it; goes when it goes.
    prepared: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def target(self, knowledge_base_id: uuid.UUID) -> search.Target:
        """Return what is searched. Raises Conflict where a draft's base has no snapshot yet."""
        if knowledge_base_id in self.targets:
            return self.targets[knowledge_base_id]
        return search.current_target(KnowledgeBase.objects.get(pk=knowledge_base_id))

    def knowledge_base(self, knowledge_base_id: uuid.UUID) -> dict[str, str]:
        return {"id": str(knowledge_base_id), "name": self.names[knowledge_base_id]}

    def tool(self, name: str) -> ToolValues:
        """Return a tool by its name. Raises NotFound."""
        for tool in self.configuration.tools:
            if tool.name == name:
                return tool
        raise NotFound(f"There is no tool {name!r} in this version.", code="tool.not_found")


def parsed_bindings(configuration: Configuration) -> tuple[Binding, ...]:
    """Return the bindings of a configuration with their expressions parsed."""
    variables = configuration.variables
    return tuple(
        Binding(
            values=values,
            expression=(
                None
                if values.expression is None
                else parse_expression(values.expression, variables)
            ),
        )
        for values in configuration.bindings
    )


def runnable(agent: Agent, version: AgentVersion) -> Runnable:
    """Return ``version`` ready to answer: a draft as things are now, a published one as pinned."""
    if version.state == "published":
        return published(agent.slug, version.pk)
    configuration = configuration_of(version)
    bases = list(
        KnowledgeBase.objects.filter(pk__in=configuration.knowledge_base_ids).select_related(
            "current_snapshot__model"
        )
    )
    return _assemble(
        agent.slug,
        version,
        configuration,
        targets={base.pk: search.current_target(base) for base in bases if base.current_snapshot},
        names={base.pk: base.name for base in bases},
    )


@lru_cache(maxsize=MOST_KEPT)
def published(slug: str, version_id: uuid.UUID) -> Runnable:
    """Return a published version ready to answer; made once, since it never changes."""
    return published_from_rows(slug, version_id)


def published_from_rows(slug: str, version_id: uuid.UUID) -> Runnable:
    """Return a published version ready to answer, past the cache.

    Raises Unavailable (``expression.semantics_not_available``) where this software would decide
    its expressions by other rules.
    """
    version = AgentVersion.objects.get(pk=version_id)
    require_semantics(version.manifest)
    pinned = pinned_knowledge_bases(version.manifest)
    targets = pinned_targets(version)
    return _assemble(
        slug,
        version,
        configuration_of(version),
        targets={base_id: targets[base_id] for base_id in pinned},
        names={base_id: said["name"] for base_id, said in pinned.items()},
    )


def pinned_targets(version: AgentVersion) -> dict[uuid.UUID, search.Target]:
    """Return what a published version asks, by knowledge base, as its manifest and pins say.

    One without its pin, which only a change below the triggers can make, is left out.
    """
    snapshots = pins.pinned_snapshots(holder_kind=HOLDER_KIND, holder_id=version.pk)
    return {
        base_id: search.Target(
            knowledge_base_id=base_id,
            name=said["name"],
            snapshot=snapshots[base_id],
            settings=SearchSettings.from_json(said["settings"]),
            recipe=said["rankingRecipe"],
            published=True,
        )
        for base_id, said in pinned_knowledge_bases(version.manifest).items()
        if base_id in snapshots
    }


def _assemble(
    slug: str,
    version: AgentVersion,
    configuration: Configuration,
    *,
    targets: Mapping[uuid.UUID, search.Target],
    names: Mapping[uuid.UUID, str],
) -> Runnable:
    return Runnable(
        slug=slug,
        number=version.number,
        revision=version.revision,
        digest=version.digest,
        configuration=configuration,
        variables=configuration.variables,
        bindings=parsed_bindings(configuration),
        targets=targets,
        names=names,
    )
