"""Exporting a published version with everything it answers from, as one file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from django.db import connection, transaction
from django.utils import timezone

from agents.configuration import configuration_of
from agents.manifest import pinned_knowledge_bases
from agents.models import Agent, AgentVersion
from agents.versions import HOLDER_KIND, find_version
from registry import audit
from registry.actors import Actor
from registry.archives import ArchiveWriter, write_archive
from registry.installation import installation_id
from retrieval import pins
from retrieval.exporting import export_questions, export_scores, export_snapshot

VERSION = "version.json"
Progress = Callable[[int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """``digest`` stands for the whole archive, ``version.digest`` for the version."""

    version: AgentVersion
    digest: str
    questions: int


def export_version(
    *,
    actor: Actor,
    agent: Agent,
    number: int,
    path: Path,
    with_questions: bool = True,
    progress: Progress = lambda _: None,
) -> Exported:
    """Write version ``number`` of ``agent`` to ``path``, all of it or nothing.

    ``with_questions`` brings the vectors (not the texts) of the questions that published versions
    were asked by the same models: without them another machine computes vectors that differ in
    the last bits, and with them some confidence's sixth decimal. ``progress`` is told how many
    chunks were written since the last time. Raises NotFound, Conflict (``archive.exists``).
    """
    with transaction.atomic(durable=True), write_archive(path) as writer:
        with connection.cursor() as cursor:
            # Every member is read in a pass of its own: all must see one state.
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        version = find_version(agent, number)
        questions = _write(writer, agent, version, with_questions=with_questions, done=progress)
        audit.record(
            actor=actor,
            action="version.exported",
            object_type="agent",
            object_id=agent.slug,
            after={"version": number, "digest": version.digest, "questions": questions},
        )
    return Exported(version=version, digest=writer.digest, questions=questions)


def _write(
    writer: ArchiveWriter,
    agent: Agent,
    version: AgentVersion,
    *,
    with_questions: bool,
    done: Progress,
) -> int:
    snapshots = pins.pinned_snapshots(holder_kind=HOLDER_KIND, holder_id=version.pk)
    in_order = [snapshots[base_id] for base_id in sorted(snapshots)]
    bases = [export_snapshot(writer, snapshot, progress=done) for snapshot in in_order]
    models = {snapshot.model for snapshot in in_order} if with_questions else ()
    questions = export_questions(writer, models)
    export_scores(writer, in_order, _rerankers(version) if with_questions else ())
    writer.write_json(
        VERSION,
        {
            "installation": installation_id(),
            "exportedAt": timezone.now().isoformat(),
            "agent": {"id": str(agent.pk), "slug": agent.slug, "name": agent.name},
            "number": version.number,
            "notes": version.notes,
            "publishedBy": version.published_by,
            "publishedAt": version.published_at.isoformat() if version.published_at else None,
            "configuration": configuration_of(version).as_json(),
            "manifest": version.manifest,
            "digest": version.digest,
            "knowledgeBases": bases,
            "questions": questions,
        },
    )
    return questions


def _rerankers(version: AgentVersion) -> set[str]:
    """Return the fingerprints of the cross-encoders that a version ranks by."""
    pinned = (
        said["rankingRecipe"]["reranker"]
        for said in pinned_knowledge_bases(version.manifest).values()
    )
    return {reranker["fingerprint"] for reranker in pinned if reranker is not None}
