"""Celery's way into retrieval: each task calls one use case and is safe to run at any time.

The setting ``CELERY_TASK_ROUTES`` says by which queue each comes: what is soon done by ``edits``,
the turns of large builds by the default one.
"""

from __future__ import annotations

import time
import uuid

from celery import shared_task

from registry.actors import Actor
from retrieval import pruning
from retrieval.evaluation import (
    EVALUATE_TASK,
    claim_evaluation,
    due_evaluations,
    work_on_evaluation,
)
from retrieval.hints import send_hint
from retrieval.indexing import BUILD_TASK, START_TASK, due_knowledge_bases
from retrieval.turns import TURN_SECONDS, send_hints, take_turn, work_off_small

_PRUNING_SECONDS = 120.0


@shared_task(name=START_TASK)
def start(*, knowledge_base_id: str, **_: object) -> None:
    """Start the build that is due for a knowledge base, and end it if it is small."""
    work_off_small(uuid.UUID(knowledge_base_id))


@shared_task(name=BUILD_TASK)
def build(*, knowledge_base_id: str, **_: object) -> None:
    """Take a turn at a knowledge base's large build."""
    take_turn(uuid.UUID(knowledge_base_id))


@shared_task(name="retrieval.look_for_due_builds")
def look_for_due_builds(**_: object) -> None:
    """Find in PostgreSQL what has work; a lost hint or a dead worker costs seconds, not work."""
    send_hints(due_knowledge_bases())


@shared_task(name=EVALUATE_TASK)
def evaluate(*, evaluation_id: str, **_: object) -> None:
    """Work on an evaluation for one turn; what is left then is a message to the next worker."""
    claim = claim_evaluation(uuid.UUID(evaluation_id))
    if claim is not None:
        work_on_evaluation(claim, seconds=TURN_SECONDS)


@shared_task(name="retrieval.look_for_due_evaluations")
def look_for_due_evaluations(**_: object) -> None:
    """Find the evaluations whose message was lost or whose worker died."""
    for evaluation_id in due_evaluations():
        send_hint(EVALUATE_TASK, evaluation_id=str(evaluation_id))


@shared_task(name="retrieval.prune")
def prune(**_: object) -> None:
    """Remove what nothing needs any more; what this turn leaves, the next one takes."""
    pruning.prune(actor=Actor(kind="task", label="prune"), ends=time.monotonic() + _PRUNING_SECONDS)
