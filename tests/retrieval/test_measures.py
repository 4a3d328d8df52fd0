"""The measures against their definitions, written down a second time."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.measures import DEEPEST, Judged, chance, mean, measure


@st.composite
def judged(draw: st.DrawFn) -> Judged:
    count = draw(st.integers(1, 6))
    places = draw(st.lists(st.integers(1, DEEPEST), min_size=count, max_size=count, unique=True))
    found = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return Judged(
        places=[place if hit else None for place, hit in zip(places, found, strict=True)],
        grades=draw(st.lists(st.integers(1, 9), min_size=count, max_size=count)),
    )


def by_definition(question: Judged) -> dict[str, float]:
    at = {
        place: grade
        for place, grade in zip(question.places, question.grades, strict=True)
        if place is not None
    }
    gained = math.fsum(grade / math.log2(place + 1) for place, grade in at.items() if place <= 10)
    best = sorted(question.grades, reverse=True)[:10]
    ideal = math.fsum(grade / math.log2(place + 1) for place, grade in enumerate(best, start=1))
    first = min(at, default=DEEPEST + 1)
    total = len(question.grades)
    return {
        "nDCG@10": gained / ideal,
        "MRR@10": 1 / first if first <= 10 else 0.0,
        "recall@5": sum(place <= 5 for place in at) / total,
        "recall@10": sum(place <= 10 for place in at) / total,
        "recall@25": len(at) / total,
        "hit@1": float(1 in at),
    }


@given(st.lists(judged(), min_size=1, max_size=12))
def test_measure__any_places_and_grades__is_the_definition(questions: list[Judged]) -> None:
    found = measure(questions)

    for question, values in zip(questions, found, strict=True):
        assert values == pytest.approx(by_definition(question), abs=1e-6)


def test_measure__a_graded_document_lower_down__has_a_linear_gain() -> None:
    values = measure([Judged(places=[2, 1], grades=[3, 1])])[0]

    assert values["nDCG@10"] == pytest.approx(
        (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)), abs=1e-6
    )


def test_mean__no_question__is_none() -> None:
    assert mean([]) is None


def test_chance__splits_of_changed_questions__is_the_sign_test() -> None:
    assert chance(0, 0) == 1
    assert chance(3, 3) == 1
    assert chance(5, 0) == chance(0, 5) == 0.0625
    assert chance(10, 1) == pytest.approx(2 * (1 + 11) / 2**11, abs=1e-6)
    falling = [chance(gains, 2) for gains in range(3, 20)]
    assert all(later < earlier for earlier, later in pairwise(falling))
