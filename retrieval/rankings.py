"""The orders in which the chunks of a snapshot can be put for a question, by name.

An evaluation puts them side by side; each is the order that ``search`` gives by the same recipe.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from retrieval import reranking
from retrieval.candidates import Candidate, best
from retrieval.questions import Question, vector_of
from retrieval.search import APPLIED_DEPTH, RANKING_RECIPE, Target
from retrieval.search_settings import SearchSettings

Ranking = Literal["dense", "reranked"]
RANKINGS: tuple[Ranking, ...] = ("dense", "reranked")


def configured_ranking(settings: SearchSettings) -> Ranking:
    """Return the ranking that a search with ``settings`` uses."""
    return "reranked" if settings.applied and settings.rerank_enabled else "dense"


def recipe_of(ranking: Ranking) -> dict[str, Any]:
    """Return what decides the order. Raises Invalid where the ranking cannot run here."""
    if ranking == "dense":
        return dict(RANKING_RECIPE)
    reranking.require_available(SearchSettings(rerank_enabled=True, settings_mode="applied"))
    return {**RANKING_RECIPE, **reranking.recipe()}


def ranked(target: Target, question: Question, depth: int) -> Sequence[Candidate]:
    """Return the ``depth`` best chunks in the order of ``target.recipe``.

    Neither cap nor floor nor diversity acts. Raises Unavailable where the model or the recipe's
    reranker is missing.
    """
    vector = vector_of(target.snapshot.model, question, keep=target.published).vector
    found = best(target.snapshot, vector, max(depth, APPLIED_DEPTH))
    # A search reranks the best 100; what lies deeper follows by its score.
    first = reranking.in_order(
        target.recipe, target.snapshot, question, found[:APPLIED_DEPTH], wanted=APPLIED_DEPTH
    )
    return [*first, *found[APPLIED_DEPTH:]][:depth]
