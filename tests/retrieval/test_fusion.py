"""How much the words count beside the vectors."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from retrieval.fusion import fused


def test_fused__without_a_shared_word__are_the_scores_alone() -> None:
    assert fused([0.5, 0.0, -0.2], [0.0, 0.0, 0.0]) == [0.5, 0.0, -0.2]


def test_fused__of_one_more_shared_word__counts_less_where_the_vectors_are_sure() -> None:
    sure, unsure = fused([0.9, 0.4], [2.0, 2.0])

    assert 0 < sure - 0.9 < unsure - 0.4


def test_fused__of_a_model_with_a_narrow_range__lets_words_weigh_by_its_distances() -> None:
    """Distances ten times as small keep the order, so that words do not drown them."""
    wide, evidence = [0.8, 0.5, 0.2], [0.0, 2.0, 9.0]
    narrow = [0.98, 0.95, 0.92]

    def order(scores: list[float]) -> list[int]:
        found = fused(scores, evidence)
        return sorted(range(3), key=lambda place: -found[place])

    assert order(narrow) == order(wide)


def test_fused__golden__are_these_numbers() -> None:
    """They decide orders of published versions: a change needs a new recipe.

    Computed by hand: 0.61 with 1 is 1 − 0.39 / 1.2, 0.6 with 2.5 is 1 − 0.4 / 1.5, −0.2 with 10 is
    1 − 1.2 / 3, and 0.3 with 0.45 is 1 − 0.7 / 1.09 = 0.357798….
    """
    assert fused([0.61, 0.6, 0.42, 0.3, -0.2], [1.0, 2.5, 0.0, 0.45, 10.0]) == [
        0.675,
        0.733333,
        0.42,
        0.357798,
        0.6,
    ]


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 500)), max_size=40))
def test_fused__of_anything__is_what_exact_arithmetic_gives(
    pairs: list[tuple[float, float]],
) -> None:
    scores = [round(score, 6) for score, _ in pairs]
    evidence = [one for _, one in pairs]

    found = fused(scores, evidence)

    for score, one, value in zip(scores, evidence, found, strict=True):
        exact = 1 - (1 - Fraction(score)) / (1 + Fraction(one) / 5)
        assert abs(value - exact) < Fraction(1, 10**6)
        assert value >= score
        assert one or value == score
