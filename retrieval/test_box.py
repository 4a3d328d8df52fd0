"""The test box: a question to a snapshot as it would be answered, with what was not kept.

On request a model answers from the passages; what stands out is diagnosed either way.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from registry.errors import Conflict
from retrieval import search
from retrieval.answering import Answer, Notice, write_answer
from retrieval.diagnosis import Situation, diagnose
from retrieval.encoders import DEFAULT_MODEL
from retrieval.indexing import find_snapshot
from retrieval.models import Chunk, IndexSnapshot, KnowledgeBase, SnapshotMember
from retrieval.questions import Question, vector_of
from retrieval.scoring import confidence, scores
from retrieval.vectors import Vector

# Chunks that stand for all when it is asked how close unrelated ones are.
_SAMPLED_DOCUMENTS = 40
_SAMPLED_CHUNKS = 200


def try_question(
    *,
    base: KnowledgeBase,
    question: Question,
    snapshot: int | None = None,
    asker: uuid.UUID | None = None,
    answer: bool = False,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Return what ``question`` finds in a snapshot (default: the current), with its candidates.

    ``candidates`` are what was kept, in its order, and what else is among the topK best, each with
    ``kept``. With ``answer`` a model answers from the passages, which takes up to
    ``ANSWER_TIMEOUT_SECONDS``; where it does not, ``answer`` is None and ``answerNotice`` says
    why. ``diagnosis`` is there either way. The settings are those of now. ``asker`` is the API
    key that asks. Leaves no trace. Raises NotFound for an unknown snapshot, Conflict
    (``snapshot.not_ready``, ``knowledge_base.no_snapshot``), and what ``search.retrieve`` raises.
    """
    target = _target(base, snapshot)
    found = search.retrieve(target, question, asker=asker)
    written: Answer | None = None
    notice: Notice | None = None
    if answer:
        written, notice = write_answer(
            question.query,
            [result["passage"] for result in found.results],
            is_cancelled=is_cancelled,
        )
    return {
        **found.as_json(),
        "traceId": None,
        "candidates": [
            {**search.passage_of(candidate), "kept": position < len(found.results)}
            for position, candidate in enumerate(found.candidates)
        ],
        "answer": written.as_json() if written else None,
        "answerNotice": notice.as_json() if notice else None,
        "diagnosis": diagnose(_situation(target, question, found, written)),
    }


def _situation(
    target: search.Target, question: Question, found: search.Retrieval, answer: Answer | None
) -> Situation:
    return Situation(
        question=question.query,
        candidates=sorted((one.confidence for one in found.candidates), reverse=True),
        background=_background(target.snapshot, question),
        passages=[result["passage"] for result in found.results],
        floor=found.applied["confidenceThreshold"]["value"],
        max_tokens=target.snapshot.model.max_tokens,
        failed_documents=target.snapshot.failed_count,
        answer=answer.text if answer else None,
    )


def _background(snapshot: IndexSnapshot, question: Question) -> float:
    """Return the confidence that unrelated chunks have; 0 for the bundled model, as is known."""
    if snapshot.model.name == DEFAULT_MODEL:
        return 0.0
    members = SnapshotMember.objects.filter(snapshot=snapshot).order_by("document_id")
    indexed = list(members.values_list("indexed_document_id", flat=True)[:_SAMPLED_DOCUMENTS])
    vectors: list[Vector] = [
        np.asarray(vector, dtype=np.float32)
        for vector in Chunk.objects.filter(indexed_document_id__in=indexed, vector__isnull=False)
        .order_by("indexed_document_id", "ordinal")
        .values_list("vector", flat=True)[:_SAMPLED_CHUNKS]
    ]
    if not vectors:
        return 0.0
    vector = vector_of(snapshot.model, question, keep=False).vector
    return median(confidence(score) for score in scores(vector, vectors))


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
