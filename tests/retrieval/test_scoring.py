"""The one number, against its definition written down once more."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.scoring import confidence, error_bound, scores
from retrieval.vectors import Vector

COMPONENTS = st.floats(-1, 1, width=32)
PAIRS = st.integers(1, 24).flatmap(
    lambda size: st.tuples(
        st.lists(COMPONENTS, min_size=size, max_size=size),
        st.lists(st.lists(COMPONENTS, min_size=size, max_size=size), max_size=5),
    )
)


def by_definition(query: list[float], vector: list[float]) -> float:
    """round(Σ q_i·c_i, 6), summed in double precision in the order of the index."""
    total = 0.0
    for mine, theirs in zip(query, vector, strict=True):
        total += mine * theirs
    return round(total, 6) + 0.0


def unit(generator: np.random.Generator, size: int) -> Vector:
    drawn = generator.standard_normal(size).astype(np.float32)
    return (drawn / np.linalg.norm(drawn)).astype(np.float32)


@given(PAIRS)
def test_scores__of_any_vectors__are_the_definition(
    drawn: tuple[list[float], list[list[float]]],
) -> None:
    query, vectors = drawn
    made = scores(
        np.array(query, dtype=np.float32), [np.array(one, dtype=np.float32) for one in vectors]
    )
    assert made == [by_definition(query, one) for one in vectors]
    assert all(math.copysign(1, score) == 1 for score in made if score == 0)


def test_scores__of_embedding_sized_vectors__are_the_definition_in_any_company() -> None:
    generator = np.random.default_rng(8785)
    query = unit(generator, 384)
    vectors = [unit(generator, 384) for _ in range(200)] + [query, -query]
    expected = [by_definition(query.tolist(), one.tolist()) for one in vectors]

    assert scores(query, vectors) == expected
    assert scores(query, np.stack(vectors)) == expected
    assert scores(query, np.asfortranarray(np.stack(vectors))) == expected
    assert [scores(query, [one])[0] for one in vectors] == expected
    assert scores(query, vectors[::-1])[::-1] == expected


def test_scores__summed_in_another_order__would_be_other_numbers() -> None:
    """The order of the sum is part of the definition: 1 + 1e-16 + … − 1."""
    query = np.array([1, 2**-54, 2**-54, 1], dtype=np.float32)
    vector = np.array([1, 1, 1, -1], dtype=np.float32)
    assert scores(query, [vector]) == [0.0]
    big = np.array([2.0**60, 1, -(2.0**60)], dtype=np.float32)
    assert scores(big, [np.ones(3, dtype=np.float32)]) == [0.0]
    assert scores(big[[0, 2, 1]], [np.ones(3, dtype=np.float32)]) == [1.0]


def test_scores__half_way_between_two__are_rounded_as_python_rounds() -> None:
    query = np.array([1.0], dtype=np.float32)
    for numerator in range(1, 2000, 2):
        half = np.float32(numerator / 2**11)
        assert scores(query, [np.array([half])]) == [round(float(half), 6)]


def test_scores__of_nothing__are_none() -> None:
    assert scores(np.ones(3, dtype=np.float32), []) == []


@pytest.mark.parametrize(
    ("score", "expected"),
    [(-1.0, 0.0), (-0.0, 0.0), (-0.000001, 0.0), (0.3, 0.3), (1.0, 1.0), (1.000001, 1.0)],
)
def test_confidence__of_a_score__is_clipped_and_never_a_negative_zero(
    score: float, expected: float
) -> None:
    made = confidence(score)
    assert made == expected
    assert math.copysign(1, made) == 1


def test_error_bound__for_single_precision_in_any_order__is_kept() -> None:
    generator = np.random.default_rng(24)
    bound = error_bound(384)
    assert bound < 4e-5
    for _ in range(50):
        query, vector = unit(generator, 384), unit(generator, 384)
        exact = scores(query, [vector])[0]
        for order in (slice(None), slice(None, None, -1), generator.permutation(384)):
            products = (query * vector)[order]
            running = list(itertools.accumulate(products, lambda a, b: np.float32(a + b)))
            assert abs(float(running[-1]) - exact) <= bound
