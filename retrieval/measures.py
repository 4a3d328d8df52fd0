"""Measures of rankings, computed by ``ir_measures``: recall@k, MRR@10, nDCG@10, hit@1.

What is ranked are documents: one's place is that of its best chunk. nDCG has linear gains. A
document that should be found and is not in the snapshot counts as not found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ir_measures
from ir_measures import RR, R, Success, nDCG

# No measure looks further down than this.
DEEPEST = 25
_MEASURES = {
    "nDCG@10": nDCG @ 10,
    "MRR@10": RR @ 10,
    "recall@5": R @ 5,
    "recall@10": R @ 10,
    "recall@25": R @ 25,
    "hit@1": Success @ 1,
}
NAMES = tuple(_MEASURES)
# What gains and losses of single questions are told by.
MAIN = "nDCG@10"
_DECIMALS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The places (from 1) of the documents that should be found, None for one that was not; and
    the grade of each, at least 1."""

    places: Sequence[int | None]
    grades: Sequence[int]


def measure(questions: Sequence[Judged]) -> list[dict[str, float]]:
    """Return the measures of each question; each must have a document that should be found."""
    wanted: list[Any] = []
    run: list[Any] = []
    for number, question in enumerate(questions):
        key = str(number)
        at: dict[int, str] = {}
        for position, (place, grade) in enumerate(
            zip(question.places, question.grades, strict=True)
        ):
            wanted.append(ir_measures.Qrel(key, f"wanted {position}", grade))
            if place is not None:
                at[place] = f"wanted {position}"
        # The library sorts by score; falling scores keep the places, whatever the ids are.
        run.extend(
            ir_measures.ScoredDoc(key, at.get(place, f"other {place}"), float(-place))
            for place in range(1, DEEPEST + 1)
        )
    found: list[dict[str, float]] = [{} for _ in questions]
    names = {str(measure): name for name, measure in _MEASURES.items()}
    for value in ir_measures.iter_calc(list(_MEASURES.values()), wanted, run):
        found[int(value.query_id)][names[str(value.measure)]] = round(value.value, _DECIMALS)
    return [{name: one[name] for name in NAMES} for one in found]


def mean(values: Sequence[Mapping[str, float]]) -> dict[str, float] | None:
    """Return the mean of each measure over questions; None without any."""
    if not values:
        return None
    return {
        name: round(math.fsum(value[name] for value in values) / len(values), _DECIMALS)
        for name in NAMES
    }


def chance(gains: int, losses: int) -> float:
    """Return how likely as uneven a split, or a more uneven one, is if both sides are alike.

    The exact two-sided sign test: each of the changed questions is then a gain or a loss with
    equal chance.
    """
    changed = gains + losses
    if changed == 0:
        return 1.0
    fewer = min(gains, losses)
    tail = sum(math.comb(changed, count) for count in range(fewer + 1))
    return float(round(min(1.0, 2 * tail / 2**changed), _DECIMALS))
