"""Evaluations: a knowledge base's questions put to its snapshots, side by side.

An evaluation freezes the questions and names the snapshots; its work is claimed in PostgreSQL like
a build's. Whoever asks for one works on it for a moment, which is enough for a small set; what is
left then is the workers'. What has been computed is kept as it goes.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from registry import audit
from registry.actors import Actor
from registry.errors import Conflict, FieldError, Invalid, NotFound, RegistryError
from retrieval import search
from retrieval.evaluation_asking import Asked, seal
from retrieval.evaluation_questions import frozen_set, set_digest
from retrieval.hints import send_hint
from retrieval.models import (
    Evaluation,
    EvaluationScore,
    IndexSnapshot,
    KnowledgeBase,
)
from retrieval.rankings import RANKINGS, Ranking, configured_ranking, recipe_of
from retrieval.search_settings import SearchSettings, settings_of

EVALUATE_TASK = "retrieval.evaluate"
MOST_SNAPSHOTS = 10
# How long the process that asks for an evaluation works on it itself.
AT_ONCE_SECONDS = 3.0
_SAVE_SECONDS = 2.0

logger = logging.getLogger("retrieval.evaluation")

Json = dict[str, Any]


def start_evaluation(
    *,
    actor: Actor,
    base: KnowledgeBase,
    snapshots: Sequence[int] | None = None,
    rankings: Sequence[str] | None = None,
    at_once: float = AT_ONCE_SECONDS,
) -> Evaluation:
    """Put the evaluation set of ``base`` to snapshots, by their numbers; default: the current one.

    ``rankings`` default to the one that the base's settings ask for. Works on it for ``at_once``
    seconds and leaves the rest to the workers: look at the ``state``. Raises Invalid naming the
    snapshot that is not there (``snapshot.unknown``, ``snapshot.pruned``), not ready
    (``snapshot.not_ready``) or twice; Conflict without questions
    (``evaluation.no_questions``) or a ready snapshot.
    """
    configured = settings_of(base)
    chosen = _snapshots(base, snapshots)
    orders = _rankings(rankings, configured)
    recipes = {ranking: recipe_of(ranking) for ranking in orders}
    claim = uuid.uuid4() if at_once > 0 else None
    with transaction.atomic():
        questions = frozen_set(base)
        if not questions:
            raise Conflict(
                f"{base.name} has no evaluation questions yet.", code="evaluation.no_questions"
            )
        evaluation = Evaluation.objects.create(
            knowledge_base=base,
            questions=questions,
            questions_digest=set_digest(questions),
            question_count=len(questions),
            started_by=actor.label[:200],
            claim=claim,
            leased_until=_lease_end() if claim else None,
        )
        places = [(snapshot, ranking) for snapshot in chosen for ranking in orders]
        EvaluationScore.objects.bulk_create(
            EvaluationScore(
                evaluation=evaluation,
                position=position,
                snapshot_number=snapshot.number,
                snapshot_digest=snapshot.digest,
                ranking=ranking,
                recipe=recipes[ranking],
                settings=configured.as_json(),
                model_name=snapshot.model.name,
                model_fingerprint=snapshot.model.fingerprint,
                chunking=snapshot.chunking,
                document_count=snapshot.document_count,
                chunk_count=snapshot.chunk_count,
            )
            for position, (snapshot, ranking) in enumerate(places)
        )
        audit.record(
            actor=actor,
            action="evaluation.started",
            object_type="knowledge_base",
            object_id=base.pk,
            after={
                "evaluation": str(evaluation.pk),
                "snapshots": [snapshot.number for snapshot in chosen],
                "rankings": list(orders),
                "questions": len(questions),
            },
        )
    if claim is None:
        hint_evaluation(evaluation.pk)
    else:
        work_on_evaluation(Claim(evaluation_id=evaluation.pk, token=claim), seconds=at_once)
    return find_evaluation(base, evaluation.pk)


def find_evaluation(base: KnowledgeBase, evaluation_id: uuid.UUID) -> Evaluation:
    """Return an evaluation of ``base``. Raises NotFound."""
    found = (
        Evaluation.objects.filter(knowledge_base=base, pk=evaluation_id)
        .prefetch_related("scores")
        .first()
    )
    if found is None:
        raise NotFound(
            f"{base.name} has no evaluation {evaluation_id}.", code="evaluation.not_found"
        )
    return found


def _snapshots(base: KnowledgeBase, numbers: Sequence[int] | None) -> list[IndexSnapshot]:
    if numbers is None:
        numbers = [search.current_target(base).snapshot.number]
    rows = IndexSnapshot.objects.filter(knowledge_base=base, number__in=numbers)
    found = {snapshot.number: snapshot for snapshot in rows.select_related("model")}
    for position, number in enumerate(numbers):
        field = f"snapshots.{position}"
        snapshot = found.get(number)
        if number in numbers[:position]:
            raise Invalid.field(field, number, "stands twice", allowed="each snapshot once")
        if snapshot is None and 1 <= number <= base.last_snapshot_number:
            raise Invalid.field(
                field,
                number,
                "was removed; nothing of it is left to ask",
                allowed=_ready_numbers(base),
                code="snapshot.pruned",
            )
        if snapshot is None:
            raise Invalid.field(
                field,
                number,
                f"is no snapshot of {base.name}",
                allowed=_ready_numbers(base),
                code="snapshot.unknown",
            )
        if snapshot.state != "ready":
            raise Invalid.field(
                field,
                number,
                f"is {snapshot.state}; only a ready one can be asked",
                allowed=_ready_numbers(base),
                code="snapshot.not_ready",
            )
    return [found[number] for number in numbers]


def _ready_numbers(base: KnowledgeBase) -> list[int]:
    ready = IndexSnapshot.objects.filter(knowledge_base=base, state="ready").order_by("-number")
    return list(ready.values_list("number", flat=True)[:20])


def _rankings(names: Sequence[str] | None, configured: SearchSettings) -> list[Ranking]:
    if names is None:
        return [configured_ranking(configured)]
    errors = [
        FieldError(
            field=f"rankings.{position}",
            value=name,
            message="is not a ranking, or stands twice",
            allowed=list(RANKINGS),
        )
        for position, name in enumerate(names)
        if name not in RANKINGS or name in names[:position]
    ]
    if errors:
        raise Invalid(f"{errors[0].field}: {errors[0].message}", errors=errors)
    return [ranking for ranking in RANKINGS if ranking in names]


# -- who works on it -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An evaluation that this process holds until its lease ends."""

    evaluation_id: uuid.UUID
    token: uuid.UUID


class _ClaimLost(Exception):
    """Another process took the evaluation over, or its knowledge base is gone."""


def hint_evaluation(evaluation_id: uuid.UUID) -> None:
    """Tell the workers that an evaluation waits."""
    send_hint(EVALUATE_TASK, evaluation_id=str(evaluation_id))


def due_evaluations() -> list[uuid.UUID]:
    """Return the running evaluations that nobody works on."""
    return list(_unclaimed().values_list("pk", flat=True))


def claim_evaluation(evaluation_id: uuid.UUID) -> Claim | None:
    """Claim a running evaluation that nobody holds, or return None.

    One whose holders crashed ``BUILD_MAX_ATTEMPTS`` times without a step forward fails.
    """
    with transaction.atomic():
        row = _unclaimed().select_for_update(skip_locked=True).filter(pk=evaluation_id).first()
        if row is None:
            return None
        if row.attempts >= settings.BUILD_MAX_ATTEMPTS:
            _fail(row, f"Its worker crashed {row.attempts} times at the same place.")
            return None
        row.claim, row.leased_until = uuid.uuid4(), _lease_end()
        row.attempts += 1
        row.save(update_fields=["claim", "leased_until", "attempts"])
        return Claim(evaluation_id=row.pk, token=row.claim)


def work_on_evaluation(claim: Claim, *, seconds: float) -> None:
    """Work for about ``seconds`` on what is claimed; give it back where something is left."""
    ends = time.monotonic() + seconds
    try:
        evaluation = _held(claim)
        for score in evaluation.scores.filter(sealed=False):
            if not _advance(claim, evaluation, score, ends):
                _give_back(claim)
                return
        with transaction.atomic():
            row = _held(claim, lock=True)
            row.state, row.ended_at = "done", timezone.now()
            row.claim = row.leased_until = None
            row.save(update_fields=["state", "ended_at", "claim", "leased_until"])
    except _ClaimLost:
        logger.info("evaluation.claim_lost evaluation=%s", claim.evaluation_id)
    except RegistryError as error:
        with transaction.atomic():
            held = Evaluation.objects.filter(pk=claim.evaluation_id, claim=claim.token)
            row_or_none = held.select_for_update().first()
            if row_or_none is not None:
                _fail(row_or_none, error.detail)


def _unclaimed() -> Any:
    return Evaluation.objects.filter(
        Q(leased_until__isnull=True) | Q(leased_until__lt=timezone.now()), state="running"
    )


def _lease_end() -> datetime:
    return timezone.now() + timedelta(seconds=settings.BUILD_LEASE_SECONDS)


def _held(claim: Claim, *, lock: bool = False) -> Evaluation:
    rows = Evaluation.objects.filter(pk=claim.evaluation_id, claim=claim.token, state="running")
    row = (rows.select_for_update() if lock else rows.select_related("knowledge_base")).first()
    if row is None:
        raise _ClaimLost
    return row


def _give_back(claim: Claim) -> None:
    with transaction.atomic():
        row = _held(claim, lock=True)
        row.claim = row.leased_until = None
        row.attempts = 0
        row.save(update_fields=["claim", "leased_until", "attempts"])
    hint_evaluation(claim.evaluation_id)


def _fail(row: Evaluation, detail: str) -> None:
    row.state, row.detail, row.ended_at = "failed", detail, timezone.now()
    row.claim = row.leased_until = None
    row.save(update_fields=["state", "detail", "ended_at", "claim", "leased_until"])


# -- the work ------------------------------------------------------------------------------------


def _advance(claim: Claim, evaluation: Evaluation, score: EvaluationScore, ends: float) -> bool:
    """Ask the questions that ``score`` has not asked yet; say whether it could be sealed."""
    snapshot = IndexSnapshot.objects.select_related("model").filter(
        knowledge_base=evaluation.knowledge_base_id, number=score.snapshot_number, state="ready"
    )
    asked = Asked(evaluation, score, snapshot.first())
    questions = evaluation.questions
    saved = time.monotonic()
    while len(score.outcomes) < len(questions):
        score.outcomes.append(asked.outcome(questions[len(score.outcomes)]))
        now = time.monotonic()
        if now > ends and len(score.outcomes) < len(questions):
            _save(claim, score)
            return False
        if now - saved > _SAVE_SECONDS:
            _save(claim, score)
            saved = now
    seal(score, questions)
    _save(claim, score)
    return True


def _save(claim: Claim, score: EvaluationScore) -> None:
    with transaction.atomic():
        row = _held(claim, lock=True)
        row.leased_until, row.attempts = _lease_end(), 1
        row.save(update_fields=["leased_until", "attempts"])
        score.save(update_fields=["outcomes", "measures", "sealed"])
