"""Evaluations as they are shown: measures side by side, gains and losses of single questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrieval.chunking import Chunking
from retrieval.measures import MAIN, NAMES, chance
from retrieval.models import Evaluation, EvaluationScore

# A comparison lists the questions that changed most; all of them are in ``outcomes``.
MOST_LISTED = 100

Json = dict[str, Any]


def render_evaluations(evaluations: Sequence[Evaluation]) -> list[Json]:
    """Return evaluations, prefetched with their scores, without single questions."""
    return [_evaluation(one) for one in evaluations]


def render_evaluation(evaluation: Evaluation) -> Json:
    """Return an evaluation with what changed from its first score to each other."""
    return {
        **_evaluation(evaluation),
        "comparisons": [listed(one) for one in comparisons(evaluation)],
    }


def _evaluation(evaluation: Evaluation) -> Json:
    scores = _scores(evaluation)
    return {
        "id": str(evaluation.pk),
        "state": evaluation.state,
        "detail": evaluation.detail or None,
        "questions": {
            "count": evaluation.question_count,
            "digest": evaluation.questions_digest,
        },
        "progress": {
            "asked": sum(len(score.outcomes) for score in scores),
            "of": evaluation.question_count * len(scores),
        },
        "scores": [_score(score) for score in scores],
        "startedBy": evaluation.started_by,
        "createdAt": evaluation.created_at.isoformat(),
        "endedAt": evaluation.ended_at.isoformat() if evaluation.ended_at else None,
    }


def _scores(evaluation: Evaluation) -> list[EvaluationScore]:
    return sorted(evaluation.scores.all(), key=lambda score: score.position)


def _score(score: EvaluationScore) -> Json:
    measured = score.measures
    return {
        "snapshot": _snapshot(score),
        "ranking": score.ranking,
        "rankingRecipe": score.recipe,
        "settings": score.settings,
        "embeddingModel": {"name": score.model_name, "fingerprint": score.model_fingerprint},
        "chunking": Chunking.from_recipe(score.chunking).as_json(),
        "measures": None if measured is None else measured["mean"],
        "measuredQuestions": None if measured is None else measured["questions"],
        "missingDocuments": None if measured is None else measured["missingDocuments"],
        "withoutAnswer": None if measured is None else measured["withoutAnswer"],
    }


def _snapshot(score: EvaluationScore) -> Json:
    return {
        "number": score.snapshot_number,
        "digest": score.snapshot_digest,
        "documents": score.document_count,
        "chunks": score.chunk_count,
    }


def comparisons(evaluation: Evaluation) -> list[Json]:
    """Return what changed from the first score to each other one; nothing before it is done."""
    scores = _scores(evaluation)
    if evaluation.state != "done":
        return []
    return [compare(evaluation, scores[0], other) for other in scores[1:]]


def compare(evaluation: Evaluation, before: EvaluationScore, after: EvaluationScore) -> Json:
    """Return the differences of the means, and the questions that gained and lost.

    A question gains where its nDCG@10 rises. ``chance`` is the sign test: how likely so uneven a
    split of gains and losses is if neither snapshot is better.
    """
    rows = [row for row in outcome_rows(evaluation, [before, after]) if row["documents"]]
    changed = [
        (row["outcomes"][1]["measures"][MAIN] - row["outcomes"][0]["measures"][MAIN], row)
        for row in rows
    ]
    gains = sorted((item for item in changed if item[0] > 0), key=lambda item: -item[0])
    losses = sorted((item for item in changed if item[0] < 0), key=lambda item: item[0])
    means = [before.measures["mean"], after.measures["mean"]]
    return {
        "from": {"snapshot": before.snapshot_number, "ranking": before.ranking},
        "to": {"snapshot": after.snapshot_number, "ranking": after.ranking},
        "difference": {name: _difference(means[0][name], means[1][name]) for name in NAMES},
        "gains": {"count": len(gains), "questions": [_change(*item) for item in gains]},
        "losses": {"count": len(losses), "questions": [_change(*item) for item in losses]},
        "unchanged": len(changed) - len(gains) - len(losses),
        "chance": chance(len(gains), len(losses)),
    }


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else round(after - before, 6)


def _change(difference: float, row: Json) -> Json:
    before, after = row["outcomes"]
    return {
        "question": row["question"],
        "query": row["query"],
        "difference": round(difference, 6),
        "documents": [
            {"name": one["name"], "before": first, "after": second}
            for one, first, second in zip(
                row["documents"], before["places"], after["places"], strict=True
            )
        ],
    }


def listed(comparison: Json) -> Json:
    """Return a comparison with no more than ``MOST_LISTED`` gains and losses each."""
    return {
        **comparison,
        **{
            side: {
                "count": comparison[side]["count"],
                "questions": comparison[side]["questions"][:MOST_LISTED],
            }
            for side in ("gains", "losses")
        },
    }


def outcome_rows(evaluation: Evaluation, scores: Sequence[EvaluationScore]) -> list[Json]:
    """Return per question its outcome in each of ``scores``; only questions that all asked."""
    asked = min((len(score.outcomes) for score in scores), default=0)
    return [
        {
            "question": question["question"],
            "query": question["query"],
            "documents": question["documents"],
            "outcomes": [_outcome(score, position) for score in scores],
        }
        for position, question in enumerate(evaluation.questions[:asked])
    ]


def all_outcome_rows(evaluation: Evaluation) -> list[Json]:
    """Return per question its outcome in each score, in their order."""
    return outcome_rows(evaluation, _scores(evaluation))


def _outcome(score: EvaluationScore, position: int) -> Json:
    kept = score.outcomes[position]
    return {
        "snapshot": score.snapshot_number,
        "ranking": score.ranking,
        "places": kept["places"],
        "missing": kept["missing"],
        "best": kept["best"],
        "returned": kept["returned"],
        "measures": kept.get("measures"),
    }
