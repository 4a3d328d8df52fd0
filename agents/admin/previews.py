"""What an agent's pages show without changing anything: what publishing would do, and which
knowledge bases apply to a context."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.admin.forms import CONTEXT_FIELDS, ContextForm
from agents.answers import resolve
from agents.comparison import Change, compare
from agents.configuration import Configuration
from agents.contexts import read_context
from agents.coverage import coverage_of
from agents.drafting import draft_of
from agents.expressions import ContextVariable, usual_value
from agents.models import Agent, AgentVersion
from agents.remarks import Remark, remarks_on
from agents.versions import DRAFT, choose_version, runnable
from registry.access import Access
from registry.admin_base import show_errors
from registry.errors import RegistryError
from retrieval.indexing import outdated
from retrieval.models import KnowledgeBase
from retrieval.progress import build_statuses

_MOST_VERSIONS = 50
_LONGEST_VALUE = 300
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyBase:
    """A knowledge base that publishing would pin; ``behind`` says what its snapshot lacks."""

    base: KnowledgeBase
    behind: str
    build: dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownChange:
    """A difference for people: what, before, after."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What publishing the draft now would pin and change."""

    revision: int
    next_number: int
    newest: AgentVersion | None
    changes: list[ShownChange]
    bases: list[ReadyBase]
    remarks: list[Remark]
    # The draft wants warnings of its coverage to be errors
    coverage_errors: bool

    @property
    def missing(self) -> bool:
        """A knowledge base has no snapshot yet: publishing is refused."""
        return any(one.base.current_snapshot_id is None for one in self.bases)

    @property
    def outdated(self) -> bool:
        """A snapshot lacks accepted changes: publishing wants to be told that this is meant."""
        return any(one.behind for one in self.bases)


def publication_of(agent: Agent) -> Publication:
    """Return what publishing the draft of ``agent`` now would do."""
    draft = draft_of(agent)
    newest = agent.versions.filter(state="published").order_by("-number").first()
    now = runnable(agent, draft)
    bases = list(
        KnowledgeBase.objects.filter(pk__in=now.configuration.knowledge_base_ids)
        .select_related("model", "current_snapshot")
        .order_by("name")
    )
    builds = build_statuses(bases)
    return Publication(
        revision=draft.revision,
        next_number=(newest.number or 0) + 1 if newest else 1,
        newest=newest,
        changes=shown_changes(agent, newest, draft) if newest else [],
        bases=[
            ReadyBase(
                base=base,
                behind=_behind(base),
                build=build.as_json() if (build := builds[base.pk]) else None,
            )
            for base in bases
        ],
        remarks=[
            *(one for one in remarks_on(now.configuration) if not one.is_note),
            *coverage_of(now.configuration, now.names).warnings,
        ],
        coverage_errors=now.configuration.coverage_errors,
    )


def _behind(base: KnowledgeBase) -> str:
    if base.current_snapshot_id is None:
        return "It has no snapshot yet: wait for its first build."
    how = outdated(base)
    if how is None:
        return ""
    if how.changes == 0:
        return "A build is running."
    changes = "1 change is" if how.changes == 1 else f"{how.changes} changes are"
    return f"{changes} not in its snapshot{'; a build is running' if how.building else ''}."


def shown_changes(agent: Agent, before: AgentVersion, after: AgentVersion) -> list[ShownChange]:
    """Return the differences between two versions of ``agent`` for people."""
    old, new = runnable(agent, before), runnable(agent, after)
    names = {**_names(old.configuration), **_names(new.configuration)}
    names |= {str(key): name for key, name in {**old.names, **new.names}.items()}
    return [_shown(change, names) for change in compare(old, new)]


def _names(configuration: Configuration) -> dict[str, str]:
    named = {str(binding.id): binding.label for binding in configuration.bindings}
    return named | {str(tool.id): tool.name for tool in configuration.tools}


def _shown(change: Change, names: Mapping[str, str]) -> ShownChange:
    path = _ID.sub(lambda found: f"“{names.get(found[0], found[0])}”", change.path)
    return ShownChange(
        what=path.replace(".", " "),
        before=_short(change.before, names),
        after=_short(change.after, names),
    )


def _short(value: Any, names: Mapping[str, str]) -> str:
    if value is None:
        return "–"
    if isinstance(value, dict):
        value = {name: member for name, member in value.items() if name != "id"}
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    text = _ID.sub(lambda found: names.get(found[0], found[0]), text)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def try_context(
    agent: Agent, access: Access, typed: Mapping[str, Any] | None
) -> tuple[ContextForm, dict[str, Any] | None]:
    """Return the form and, for a context that was typed, what ``resolve`` answers; no trace."""
    draft, versions = draft_of(agent), versions_to_look_at(agent)
    example = example_context(runnable(agent, draft).variables)
    form = ContextForm(typed, initial={"context": example, "version": DRAFT}, versions=versions)
    if not form.is_valid():
        return form, None
    try:
        context = read_context(form.cleaned_data)
        version = choose_version(agent, {"version": form.cleaned_data["version"]}, access)
        return form, resolve(
            version=runnable(agent, version), context=context, access=access, trace=False
        )
    except RegistryError as error:
        show_errors(form, error, CONTEXT_FIELDS)
        return form, None


def versions_to_look_at(agent: Agent) -> list[tuple[str, str]]:
    """Return the draft and the newest versions, as a choice."""
    numbers = (
        agent.versions.filter(state="published")
        .order_by("-number")
        .values_list("number", flat=True)[:_MOST_VERSIONS]
    )
    return [(DRAFT, "the draft"), *((str(one), f"version {one}") for one in numbers)]


def example_context(variables: tuple[ContextVariable, ...]) -> dict[str, Any]:
    """Return a context made of the declared variables' examples, to start from."""
    context: dict[str, Any] = {}
    for variable in variables:
        inside = context
        for key in variable.keys[:-1]:
            inside = inside.setdefault(key, {})
            if not isinstance(inside, dict):
                break
        else:
            inside.setdefault(variable.keys[-1], usual_value(variable))
    return context
