"""Importing an exported version: the same digest and, for the same calls, the same receipts.

One transaction. What the archive says is written through the same doors as everything else
(draft, pins, publish), and then verified from the rows as ``verify`` does; a difference takes all
of it back.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.db import DataError, IntegrityError, transaction
from django.utils import timezone

from agents.configuration import Configuration, configuration_of, read_configuration
from agents.drafting import (
    SLUG,
    columns_of,
    draft_of,
    lock_agent,
    require_active,
    write_bindings,
    write_tools,
)
from agents.exporting import VERSION
from agents.manifest import pinned_knowledge_bases
from agents.models import Agent, AgentVersion
from agents.publishing import next_number, start_draft
from agents.verification import verify_version
from agents.versions import HOLDER_KIND
from registry import audit
from registry.actors import Actor
from registry.archives import ArchiveReader, open_archive, refused
from registry.errors import Conflict, Invalid
from retrieval import pins
from retrieval.importing import ImportedBase, import_snapshot
from retrieval.importing_questions import ImportedQuestions, import_questions, import_scores
from retrieval.search_settings import SearchSettings
from retrieval.verification import Verifier

Progress = Callable[[int], object]
# What comes of a value in an archive that is of another kind than an export writes: a list where
# an object is expected, a number beyond all bounds, nesting without end.
_OTHER_KINDS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
# Nothing where something must be, a value that a constraint excludes.
_OTHER_VALUES = frozenset({"23502", "23514"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """``unchanged``: the agent has a version with this digest already; nothing was written."""

    agent: Agent
    version: AgentVersion
    unchanged: bool = False
    bases: tuple[ImportedBase, ...] = ()
    questions: ImportedQuestions = ImportedQuestions(added=0, different=0)  # noqa: RUF009
    scores: ImportedQuestions = ImportedQuestions(added=0, different=0)  # noqa: RUF009


def import_version(
    *,
    actor: Actor,
    path: Path,
    slug: str | None = None,
    expected_digest: str | None = None,
    progress: Progress = lambda _: None,
) -> Imported:
    """Import an archive as the next version of its agent, which is made where it is not here.

    ``slug`` names the agent to import into instead; it is made where there is none.
    ``expected_digest`` is what the export said of the archive. ``progress`` is told how many
    chunks were brought in since the last time.

    Raises Invalid (``archive.…``, ``import.not_verified``) for an archive that is not whole or
    contradicts itself, Conflict (``import.differs``, ``import.slug_taken``, ``import.building``,
    ``import.busy``, ``agent.archived``) for one that contradicts what is here.
    """
    with open_archive(path) as reader:
        if expected_digest is not None and expected_digest != reader.digest:
            raise refused(
                f"The archive's digest is {reader.digest}, not {expected_digest}.",
                code="other_digest",
            )
        try:
            with transaction.atomic(durable=True):
                return _import(reader, actor=actor, slug=slug, progress=progress)
        except (*_OTHER_KINDS, DataError) as error:
            raise refused(
                f"The archive does not hold what an export writes: {error!r}.", code="damaged"
            ) from error
        except IntegrityError as error:
            if getattr(error.__cause__, "sqlstate", "") in _OTHER_VALUES:
                raise refused(
                    f"The archive does not hold what an export writes: {error}", code="damaged"
                ) from error
            raise Conflict(
                f"The import and what is here exclude each other: {error}", code="import.busy"
            ) from error


def _import(
    reader: ArchiveReader, *, actor: Actor, slug: str | None, progress: Progress
) -> Imported:
    said = reader.read_json(VERSION)
    agent, created = _agent(said["agent"], slug)
    agent = lock_agent(agent)
    require_active(agent)
    here = agent.versions.filter(state="published", digest=said["digest"]).order_by("-number")
    if (same := here.first()) is not None:
        return Imported(agent=agent, version=same, unchanged=True)
    draft = AgentVersion.objects.select_for_update().get(pk=draft_of(agent).pk)
    bases = _import_bases(reader, said, actor=actor, progress=progress)
    questions = import_questions(reader)
    scores = import_scores(reader)
    version = _publish(agent, draft, said, bases, actor=actor, created=created, reader=reader)
    _prove(version)
    audit.record(
        actor=actor,
        action="version.imported",
        object_type="agent",
        object_id=agent.slug,
        after={
            "version": version.number,
            "digest": version.digest,
            "origin": version.origin,
            "questions": questions.added,
        },
    )
    return Imported(agent=agent, version=version, bases=bases, questions=questions, scores=scores)


def _agent(said: dict[str, Any], slug: str | None) -> tuple[Agent, bool]:
    """Return the agent to import into, and whether it was made for that.

    An agent is known by its id; another one that only has the same slug is another agent, unless
    the caller names it.
    """
    identity = uuid.UUID(said["id"])
    known = Agent.objects.filter(pk=identity).first()
    if slug is None and known is not None:
        return known, False
    wanted = slug or said["slug"]
    if not SLUG.fullmatch(wanted):
        raise Invalid.field("slug", wanted, "is no slug", allowed=SLUG.pattern)
    named = Agent.objects.filter(slug=wanted).first()
    if named is not None and slug is None:
        raise Conflict(
            f"Another agent is called {wanted!r} here. Name the agent to import into: this one, "
            "or a new slug.",
            code="import.slug_taken",
            agent=wanted,
        )
    if named is not None:
        return named, False
    agent = Agent.objects.create(
        id=identity if known is None else uuid.uuid4(), slug=wanted, name=said["name"]
    )
    AgentVersion.objects.create(agent=agent)
    return agent, True


def _import_bases(
    reader: ArchiveReader, said: dict[str, Any], *, actor: Actor, progress: Progress
) -> tuple[ImportedBase, ...]:
    pinned = pinned_knowledge_bases(said["manifest"])
    described = {uuid.UUID(base["id"]): base for base in said["knowledgeBases"]}
    if described.keys() != pinned.keys():
        raise refused(
            "The manifest names other knowledge bases than are in the archive.", code="damaged"
        )
    return tuple(
        import_snapshot(
            reader,
            described[base_id],
            name=pinned[base_id]["name"],
            settings=SearchSettings.from_json(pinned[base_id]["settings"]),
            actor=actor,
            progress=progress,
        )
        # Locks are taken in this order everywhere.
        for base_id in sorted(pinned)
    )


def _publish(
    agent: Agent,
    draft: AgentVersion,
    said: dict[str, Any],
    bases: tuple[ImportedBase, ...],
    *,
    actor: Actor,
    created: bool,
    reader: ArchiveReader,
) -> AgentVersion:
    """Turn the draft's row into the imported version, and put the draft back as it was.

    The draft keeps its revision: who is editing it notices nothing. That of a new agent starts
    as a copy of the version.
    """
    number = next_number(agent)
    wanted = _configuration(said["configuration"])
    kept = wanted if created else configuration_of(draft)
    based_on = number if created else draft.based_on
    draft.bindings.all().delete()
    draft.tools.all().delete()
    for column, value in columns_of(wanted).items():
        setattr(draft, column, value)
    draft.based_on = None
    draft.save()
    write_bindings(draft, wanted.bindings)
    write_tools(draft, wanted.tools)
    draft.state = AgentVersion.State.PUBLISHED
    draft.number = number
    draft.notes = said["notes"]
    draft.published_by = actor.label
    draft.published_at = timezone.now()
    draft.manifest = said["manifest"]
    draft.digest = said["digest"]
    draft.origin = {
        "installation": said["installation"],
        "agent": said["agent"]["slug"],
        "version": said["number"],
        "publishedBy": said["publishedBy"],
        "publishedAt": said["publishedAt"],
        "exportedAt": said["exportedAt"],
        "archive": reader.digest,
    }
    pins.pin(
        holder_kind=HOLDER_KIND,
        holder_id=draft.pk,
        holder_label=f"{agent.slug} v{number}",
        snapshots=[base.snapshot for base in bases],
    )
    draft.save()
    start_draft(draft, kept, based_on=based_on)
    return draft


def _configuration(values: dict[str, Any]) -> Configuration:
    """Read a configuration as a request's is read; its bindings and tools keep their ids."""
    without_ids = {
        **values,
        "bindings": [_without_id(item) for item in values["bindings"]],
        "tools": [_without_id(item) for item in values["tools"]],
    }
    read = read_configuration(without_ids, Configuration(), known=Configuration())
    return replace(
        read,
        bindings=tuple(
            replace(binding, id=uuid.UUID(item["id"]))
            for binding, item in zip(read.bindings, values["bindings"], strict=True)
        ),
        tools=tuple(
            replace(tool, id=uuid.UUID(item["id"]))
            for tool, item in zip(read.tools, values["tools"], strict=True)
        ),
    )


def _without_id(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "id"}


def _prove(version: AgentVersion) -> None:
    """Recompute everything from the rows; raise Invalid with the first difference."""
    for part in verify_version(version, Verifier()):
        if part.difference is not None:
            found = part.difference
            where = found.document or part.part
            if found.chunk is not None:
                where += f", chunk {found.chunk}"
            raise Invalid(
                f"The archive contradicts itself: {where}: {found.what} differs.",
                code="import.not_verified",
                part=part.part,
                difference=found.as_json(),
            )
