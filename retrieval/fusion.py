"""The built-in reranker: the cosine distance, made smaller by the words that are shared.

A fixed sum of both gains where people use the documents' words and loses where they paraphrase.
Dividing what the vectors leave open loses nowhere that was tried: words count least where the
vectors are sure, and as much for a model whose confidences lie in a narrow range. A passage's
score depends on no other passage, so one that is purged changes none. The figures it was chosen
by are in docs/retrieval.md. Knows neither Django nor the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from retrieval.lexical import K1, OPENING, TERMS, B

_WEIGHT: Final = 0.2
_DECIMALS: Final = 6

RECIPE: Final[dict[str, Any]] = {
    "recipe": "distance-over-shared-words/2",
    "terms": TERMS,
    "k1": K1,
    "b": B,
    "opening": OPENING,
    "weight": _WEIGHT,
}


def fused(scores: Sequence[float], evidence: Sequence[float]) -> list[float]:
    """Return ``1 − (1 − score) / (1 + weight · evidence)`` of each, rounded to six decimals.

    ``scores`` are cosines, ``evidence`` is what ``lexical.evidence`` gives, at least 0; without
    any the score stays as it is.
    """
    return [
        round(1 - (1 - score) / (1 + _WEIGHT * shared), _DECIMALS) + 0.0
        for score, shared in zip(scores, evidence, strict=True)
    ]
