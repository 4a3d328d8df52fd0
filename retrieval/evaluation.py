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
from retrieval.candidates import Candidate
from retrieval.evaluation_questions import frozen_set, set_digest
from retrieval.hints import send_hint
from retrieval.measures import DEEPEST, NAMES, Judged, mean, measure
from retrieval.models import (
    Evaluation,
    EvaluationScore,
    IndexSnapshot,
    KnowledgeBase,
    SnapshotMember,
)
from retrieval.questions import Question
from retrieval.rankings import RANKINGS, Ranking, configured_ranking, ranked, recipe_of
from retrieval.search_settings import SearchSettings, settings_of

EVALUATE_TASK = "retrieval.evaluate"
MOST_SNAPSHOTS = 10
# How long the process that asks for an evaluation works on it itself.
AT_ONCE_SECONDS = 3.0
_SAVE_SECONDS = 2.0
# Chunks looked at for the documents that measures look at; more where they are of few documents.
_FIRST_DEPTH = 200
_DEEPER = 4

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
    asked = _Asked(evaluation, score, snapshot.first())
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
    _seal(score, questions)
    _save(claim, score)
    return True


def _save(claim: Claim, score: EvaluationScore) -> None:
    with transaction.atomic():
        row = _held(claim, lock=True)
        row.leased_until, row.attempts = _lease_end(), 1
        row.save(update_fields=["leased_until", "attempts"])
        score.save(update_fields=["outcomes", "measures", "sealed"])


class _Asked:
    """One snapshot, by one ranking, as questions are put to it."""

    def __init__(
        self, evaluation: Evaluation, score: EvaluationScore, snapshot: IndexSnapshot | None
    ) -> None:
        if snapshot is None or snapshot.digest != score.snapshot_digest:
            raise Conflict(
                f"Snapshot {score.snapshot_number} was removed meanwhile.", code="snapshot.pruned"
            )
        base = evaluation.knowledge_base
        self._settings = SearchSettings.from_json(score.settings)
        self._target = search.Target(
            knowledge_base_id=base.pk,
            name=base.name,
            snapshot=snapshot,
            settings=self._settings,
            recipe=score.recipe,
            published=False,
        )
        wanted = [one for question in evaluation.questions for one in question["documents"]]
        members = SnapshotMember.objects.filter(snapshot=snapshot)
        self._ids = {
            str(key)
            for key in members.filter(
                document_id__in={one["document"] for one in wanted}
            ).values_list("document_id", flat=True)
        }
        self._by_name = {
            name: str(key)
            for name, key in members.filter(name__in={one["name"] for one in wanted}).values_list(
                "name", "document_id"
            )
        }

    def outcome(self, question: Json) -> Json:
        """Return what became of a question: the place of each document, what was missing."""
        documents = question["documents"]
        here = self._members(documents)
        pages = {
            key: set(one["pages"])
            for key, one in zip(here, documents, strict=True)
            if key is not None and one["pages"] is not None
        }
        candidates, places = self._ranked(question["query"], pages)
        return {
            "question": question["question"],
            "places": [places.get(key) if key is not None else None for key in here],
            "missing": [one["name"] for one, key in zip(documents, here, strict=True) if not key],
            "best": max((one.confidence for one in candidates), default=None),
            "returned": self._returned(candidates),
        }

    def _members(self, documents: Sequence[Json]) -> list[str | None]:
        """Return by which id the snapshot holds each document: its own, else its name's."""
        here: list[str | None] = []
        for one in documents:
            by_id = one["document"] if one["document"] in self._ids else None
            key = by_id or self._by_name.get(one["name"])
            # A document that came back under its name may itself be named as well.
            here.append(key if key not in here else None)
        return here

    def _ranked(
        self, query: str, pages: dict[str, set[int]]
    ) -> tuple[Sequence[Candidate], dict[str, int]]:
        """Return the best chunks and the place of each document among the best ``DEEPEST``.

        A document of which certain pages are wanted has two places: that of its best chunk on
        them, and that of its best chunk elsewhere, which takes a place like any other document's.
        """
        depth = _FIRST_DEPTH
        while True:
            candidates = ranked(self._target, Question(query=query), depth)
            places: dict[str, int] = {}
            for candidate in candidates:
                key = str(candidate.document_id)
                wanted = pages.get(key)
                if wanted is not None and candidate.page is not None:
                    key = key if candidate.page in wanted else f"{key} elsewhere"
                places.setdefault(key, len(places) + 1)
                if len(places) == DEEPEST:
                    return candidates, places
            if len(candidates) < depth:
                return candidates, places
            depth *= _DEEPER

    def _returned(self, candidates: Sequence[Candidate]) -> int:
        """Return how many passages a call that says nothing else would get."""
        count, floor = search.count_and_floor(Question(query=""), self._settings)
        return min(count, sum(candidate.confidence >= floor for candidate in candidates))


def _seal(score: EvaluationScore, questions: Sequence[Json]) -> None:
    judged, unanswerable = [], []
    for question, outcome in zip(questions, score.outcomes, strict=True):
        if question["documents"]:
            judged.append((question, outcome))
        else:
            unanswerable.append(outcome)
    values = measure(
        [
            Judged(
                places=outcome["places"],
                grades=[one["grade"] for one in question["documents"]],
            )
            for question, outcome in judged
        ]
    )
    for (_, outcome), value in zip(judged, values, strict=True):
        outcome["measures"] = value
    score.measures = {
        "questions": len(judged),
        "mean": mean(values) or dict.fromkeys(NAMES),
        "missingDocuments": sum(len(outcome["missing"]) for _, outcome in judged),
        "withoutAnswer": {
            "questions": len(unanswerable),
            "answered": sum(outcome["returned"] > 0 for outcome in unanswerable),
        },
    }
    score.sealed = True
