"""The test box: a question to a snapshot as it would be answered, with what was not kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from registry.errors import Conflict
from retrieval import search
from retrieval.indexing import find_snapshot
from retrieval.models import KnowledgeBase
from retrieval.questions import Question


def try_question(
    *, base: KnowledgeBase, question: Question, snapshot: int | None = None
) -> dict[str, Any]:
    """Return what ``question`` finds in a snapshot (default: the current), with its candidates.

    ``candidates`` are what was kept, in its order, and what else is among the topK best, each with
    ``kept``. The settings are those of now. Leaves no
    trace. Raises NotFound for an unknown snapshot, Conflict (``snapshot.not_ready``,
    ``knowledge_base.no_snapshot``), and what ``search.retrieve`` raises.
    """
    found = search.retrieve(_target(base, snapshot), question)
    return {
        **found.as_json(),
        "traceId": None,
        "candidates": [
            {**search.passage_of(candidate), "kept": position < len(found.results)}
            for position, candidate in enumerate(found.candidates)
        ],
    }


def _target(base: KnowledgeBase, number: int | None) -> search.Target:
    if number is None:
        return search.current_target(base)
    snapshot = find_snapshot(base, number)
    if snapshot.state != "ready":
        raise Conflict(
            f"Snapshot {number} is {snapshot.state}; only a ready one can be searched.",
            code="snapshot.not_ready",
            state=snapshot.state,
        )
    return replace(search.current_target(base), snapshot=snapshot)
