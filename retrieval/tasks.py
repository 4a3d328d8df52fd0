"""Celery's way into retrieval: each task calls one use case and is safe to run at any time."""

from __future__ import annotations

import time
import uuid

from celery import shared_task

from retrieval.claims import claim_piece
from retrieval.evaluation import (
    EVALUATE_TASK,
    claim_evaluation,
    due_evaluations,
    work_on_evaluation,
)
from retrieval.hints import send_hint
from retrieval.indexing import (
    BUILD_TASK,
    due_knowledge_bases,
    finish_build,
    hint_build,
    start_build,
)
from retrieval.pieces import work_on

# A task gives way after this long, so that one large build never keeps others from the workers.
_TURN_SECONDS = 20.0


@shared_task(name=BUILD_TASK)
def build(*, knowledge_base_id: str, **_: object) -> None:
    """Work on what is due for a knowledge base until nothing is left or the turn is over."""
    base_id = uuid.UUID(knowledge_base_id)
    turn_ends = time.monotonic() + _TURN_SECONDS
    snapshot = start_build(base_id)
    while snapshot is not None:
        claim = claim_piece(snapshot.pk)
        if claim is None:
            if finish_build(snapshot.pk):
                snapshot = start_build(base_id)
                continue
            return  # others hold the last pieces; whoever ends last seals
        work_on(claim)
        if time.monotonic() > turn_ends:
            hint_build(base_id)
            return
        snapshot = start_build(base_id)


@shared_task(name="retrieval.look_for_due_builds")
def look_for_due_builds(**_: object) -> None:
    """Find in PostgreSQL what has work; a lost hint or a dead worker costs seconds, not work."""
    for base_id in due_knowledge_bases():
        send_hint(BUILD_TASK, knowledge_base_id=str(base_id))


@shared_task(name=EVALUATE_TASK)
def evaluate(*, evaluation_id: str, **_: object) -> None:
    """Work on an evaluation for one turn; what is left then is a message to the next worker."""
    claim = claim_evaluation(uuid.UUID(evaluation_id))
    if claim is not None:
        work_on_evaluation(claim, seconds=_TURN_SECONDS)


@shared_task(name="retrieval.look_for_due_evaluations")
def look_for_due_evaluations(**_: object) -> None:
    """Find the evaluations whose message was lost or whose worker died."""
    for evaluation_id in due_evaluations():
        send_hint(EVALUATE_TASK, evaluation_id=str(evaluation_id))
