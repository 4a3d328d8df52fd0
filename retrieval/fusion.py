"""The built-in reranker: cosine confidence and lexical evidence, weighed for each question.

A fixed weight gains where people use the documents' words and loses where they paraphrase. So the
weight follows from how the two lists of scores behave; what each part stands for, and the figures
it was chosen by, are in docs/retrieval.md. Knows neither Django nor the database.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from retrieval.lexical import K1, TERMS, B

_WEIGHT: Final = 0.35
_PEAK_FROM, _PEAK_TO, _PEAK_GAIN = 4.5, 7.0, 4.0
_SPREAD_RANK: Final = 20
_SPREAD_FULL: Final = 0.08
_DECIMALS: Final = 6

RECIPE: Final[dict[str, Any]] = {
    "recipe": "cosine-and-bm25-weighed-by-question/1",
    "terms": TERMS,
    "k1": K1,
    "b": B,
    "weight": _WEIGHT,
    "peak": [_PEAK_FROM, _PEAK_TO, _PEAK_GAIN],
    "spread": [_SPREAD_RANK, _SPREAD_FULL],
}


def fused(scores: Sequence[float], evidence: Sequence[float], asked_terms: int) -> list[float]:
    """Return ``score + weight · evidence`` of each candidate, rounded to six decimals.

    ``scores`` are the candidates' in rank order, ``evidence`` theirs (0…1), ``asked_terms`` the
    number of different terms of the question.
    """
    weight = weight_of(scores, evidence, asked_terms)
    return [
        round(score + weight * covered, _DECIMALS) + 0.0
        for score, covered in zip(scores, evidence, strict=True)
    ]


def weight_of(scores: Sequence[float], evidence: Sequence[float], asked_terms: int) -> float:
    """Return how much lexical evidence counts for this question; 0 or more.

    It grows with how many of the question's terms the best candidate covers (evidence times their
    number: two or three words shared by chance prove little), up to fourfold where that candidate stands far above the
    others (4.5 to 7 standard deviations: a rare word found, not a common one), and shrinks where
    the model's scores lie closer together than 0.08 between the best and the twentieth.
    """
    best = max(evidence, default=0.0)
    if best <= 0:
        return 0.0
    mean = math.fsum(evidence) / len(evidence)
    deviation = math.sqrt(
        math.fsum((one - mean) * (one - mean) for one in evidence) / len(evidence)
    )
    peak = (best - mean) / deviation if deviation > 0 else 0.0
    stands_out = min(1.0, max(0.0, (peak - _PEAK_FROM) / (_PEAK_TO - _PEAK_FROM)))
    weight = _WEIGHT * best * asked_terms * (1 + (_PEAK_GAIN - 1) * stands_out)
    if len(scores) >= _SPREAD_RANK:
        weight *= min(1.0, (scores[0] - scores[_SPREAD_RANK - 1]) / _SPREAD_FULL)
    return weight
