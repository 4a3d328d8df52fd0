"""How much the words count beside the vectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.fusion import fused, weight_of

_FALLING = [0.7 - 0.01 * rank for rank in range(30)]


def test_weight__of_a_word_that_one_passage_alone_holds__is_larger_than_of_a_common_one() -> None:
    rare = [0.0] * 29 + [0.4]
    common = [0.4] * 15 + [0.35] * 15

    assert weight_of(_FALLING, rare, 4) == pytest.approx(
        0.35 * 0.4 * 4 * (1 + 3 * (29**0.5 - 4.5) / 2.5)
    )
    assert weight_of(_FALLING, common, 4) == pytest.approx(0.35 * 0.4 * 4)


def test_weight__of_scores_that_lie_close_together__shrinks_with_them() -> None:
    """Models whose confidences all lie in a narrow range would be drowned by the words."""
    covered = [0.3] * 30
    close = [0.9 - 0.001 * rank for rank in range(30)]

    assert weight_of(close, covered, 4) == pytest.approx(
        weight_of(_FALLING, covered, 4) * 0.019 / 0.08
    )


def test_fused__without_a_shared_word__are_the_scores_alone() -> None:
    assert fused([0.5, -0.2], [0.0, 0.0], 3) == [0.5, -0.2]


def test_fused__golden__are_these_numbers() -> None:
    """They decide orders of published versions: a change needs a new recipe."""
    assert fused([0.61, 0.6, 0.42, 0.3], [0.05, 0.3, 0.0, 0.45], asked_terms=6) == [
        0.65725,
        0.8835,
        0.42,
        0.72525,
    ]


@given(
    st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 0.999)), max_size=40),
    st.integers(1, 50),
)
def test_fused__of_anything__never_takes_from_a_score(
    pairs: list[tuple[float, float]], asked: int
) -> None:
    pairs.sort(reverse=True)
    scores = [round(score, 6) for score, _ in pairs]
    covered = [one for _, one in pairs]

    found = fused(scores, covered, asked)

    assert len(found) == len(pairs)
    for score, one, value in zip(scores, covered, found, strict=True):
        assert value >= score - 1e-6
        assert one or value == score
