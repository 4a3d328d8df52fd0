"""Giving candidates another order: by fused scores (built in), or by a cross-encoder.

Which of the two, with all its parameters, is pinned in the ranking recipe of a version. The
setting ``RERANK_MODEL`` names a cross-encoder; without it the built-in one is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings

from registry.errors import FieldError, Invalid, Unavailable
from retrieval import fusion, lexical
from retrieval.candidates import Candidate
from retrieval.encoders import cross_encoder_for
from retrieval.models import IndexSnapshot, RerankScore
from retrieval.questions import Question
from retrieval.search_settings import SearchSettings
from retrieval.term_counts import statistics_of, terms_of


def recipe() -> dict[str, Any]:
    """Return the members ``fusion`` and ``reranker`` of a ranking recipe as configured now.

    Raises Unavailable (``reranker.not_available``) where ``RERANK_MODEL`` names one that cannot
    run.
    """
    if not settings.RERANK_MODEL:
        return {"fusion": fusion.RECIPE, "reranker": None}
    model = cross_encoder_for(settings.RERANK_MODEL)
    return {
        "fusion": None,
        "reranker": {"name": model.name, "fingerprint": model.fingerprint},
    }


def is_known(recipe: dict[str, Any]) -> bool:
    """Say whether this software can rank by these ``fusion`` and ``reranker`` members."""
    return recipe["fusion"] in (None, fusion.RECIPE)


def require_available(settings: SearchSettings) -> None:
    """Raise Invalid (``reranker.not_configured``) where settings ask for a reranker that is missing.

    In mode ``recorded`` the setting is stored and has no effect, so nothing is asked for.
    """
    if not (settings.applied and settings.rerank_enabled):
        return
    try:
        recipe()
    except Unavailable as error:
        raise Invalid(
            f"rerankEnabled acts in settingsMode “applied”, and no reranker can run: "
            f"{error.detail}",
            code="reranker.not_configured",
            errors=[
                FieldError(
                    field="settings.rerankEnabled",
                    value=True,
                    message="no reranker can run",
                    allowed=[False],
                )
            ],
        ) from error


def in_order(
    recipe: dict[str, Any],
    snapshot: IndexSnapshot,
    question: Question,
    ranked: Sequence[Candidate],
    *,
    wanted: int,
    again: bool = False,
) -> list[Candidate]:
    """Return the first ``wanted`` of ``ranked`` (all best, in rank order) as the recipe orders them.

    Where it reranks they carry their ``rerank_score``, which depends on no other passage: a floor
    or a purge changes no score. With ``again`` no cache is asked and nothing is written. Raises
    Unavailable (``reranker.not_available``, naming it) where a score is not recorded yet and the
    pinned cross-encoder is not installed.
    """
    candidates = ranked[:wanted]
    if recipe["reranker"] is not None:
        scores = _cross_encoded(recipe["reranker"], question, candidates, record=not again)
    elif recipe["fusion"] is not None:
        scores = _fused(snapshot, question, candidates, again=again)
    else:
        return list(candidates)
    reranked = [
        (score, replace(candidate, rerank_score=score))
        for candidate, score in zip(candidates, scores, strict=True)
    ]
    # Stable: equal rerank scores keep the one order of scoring.
    return [one for _, one in sorted(reranked, key=lambda pair: -pair[0])]


def _fused(
    snapshot: IndexSnapshot, question: Question, candidates: Sequence[Candidate], *, again: bool
) -> list[float]:
    asked = lexical.terms(question.query)
    shared = lexical.evidence(
        asked,
        terms_of(snapshot, candidates, asked),
        statistics_of(snapshot, again=again),
    )
    return fusion.fused([candidate.score for candidate in candidates], shared)


def _cross_encoded(
    pinned: dict[str, Any], question: Question, candidates: Sequence[Candidate], *, record: bool
) -> list[float]:
    """Return the recorded scores; those that are missing are recorded first, if ``record``."""
    scores = _recorded(pinned["fingerprint"], question, candidates)
    missing = {one.chunk: one.text for one in candidates if one.chunk not in scores}
    if missing:
        model = _installed(pinned)
        new = {digest: model.score(question.query, text) for digest, text in missing.items()}
        if not record:
            return [{**scores, **new}[candidate.chunk] for candidate in candidates]
        RerankScore.objects.bulk_create(
            (
                RerankScore(
                    reranker=pinned["fingerprint"],
                    query_digest=question.digest,
                    chunk_digest=digest,
                    score=score,
                    provenance=model.provenance,
                )
                for digest, score in new.items()
            ),
            ignore_conflicts=True,
        )
        scores = _recorded(pinned["fingerprint"], question, candidates)
    return [scores[candidate.chunk] for candidate in candidates]


def _installed(pinned: dict[str, Any]) -> Any:
    model = cross_encoder_for(settings.RERANK_MODEL or pinned["name"])
    if model.fingerprint != pinned["fingerprint"]:
        raise Unavailable(
            f"The reranker {pinned['name']!r} that this was published with is not installed; "
            f"{model.name!r} has other weights.",
            code="reranker.not_available",
            reranker=pinned["name"],
            fingerprint=pinned["fingerprint"],
        )
    return model


def _recorded(
    fingerprint: str, question: Question, candidates: Sequence[Candidate]
) -> dict[str, float]:
    rows = RerankScore.objects.filter(
        reranker=fingerprint,
        query_digest=question.digest,
        chunk_digest__in=[candidate.chunk for candidate in candidates],
    )
    return dict(rows.values_list("chunk_digest", "score"))
