"""The bound: what the scan leaves out can be none of the best, whatever the vectors are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from registry import cores
from retrieval import bounded_scan
from retrieval.bounded_scan import candidates, encode
from retrieval.scoring import scores
from retrieval.vectors import Vector

ROW = np.float32


def unit(drawn: NDArray[Any]) -> Vector:
    lengths = np.linalg.norm(drawn, axis=-1, keepdims=True)
    return np.asarray(drawn / np.where(lengths == 0, 1, lengths), dtype=np.float32)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Vector, Vector]:
    """A question and vectors of a shape that is bad for rounding, many of them nearly tied."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dimensions = draw(st.sampled_from([1, 2, 3, 8, 31, 64, 384, 1024]))
    count = draw(st.integers(1, 400))
    query = generator.standard_normal(dimensions)
    shape = draw(
        st.sampled_from(["random", "one large", "halves", "near", "ties", "opposite", "constant"])
    )
    rows = generator.standard_normal((count, dimensions))
    if shape == "one large":
        # Everything but one component falls below half a step of the codes.
        rows *= 1 / 300
        rows[np.arange(count), generator.integers(0, dimensions, count)] = 1
        query *= 1 / 300
        query[generator.integers(0, dimensions)] = 1
    elif shape == "halves":
        # Each component as far from its code as it can be, all to the same side.
        rows = (generator.integers(-127, 127, (count, dimensions)) + 0.5) / 127
        rows[:, 0] = 1
        query = np.sign(query) + 0.5 / 127
    elif shape == "near":
        rows = query + rows * 10.0 ** -draw(st.integers(2, 8))
    elif shape == "ties":
        rows = rows[generator.integers(0, max(1, count // 20), count)]
    elif shape == "opposite":
        rows = -query + rows * 0.01
    elif shape == "constant":
        rows = np.ones((count, dimensions))
    return unit(query), unit(rows)


@contextmanager
def parts(number: int) -> Iterator[None]:
    """Split tables of any size over so many cores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cores, "per_question", lambda: number)
        patch.setattr(bounded_scan, "_ROWS", 7 if number > 1 else bounded_scan._ROWS)
        yield


@settings(max_examples=300, deadline=None)
@given(worlds(), st.integers(1, 120), st.integers(1, 4))
def test_candidates__of_hostile_vectors__hold_every_one_of_the_best(
    world: tuple[Vector, Vector], count: int, number: int
) -> None:
    query, vectors = world
    exact = np.array(scores(query, vectors))

    with parts(number):
        rows, low, high = candidates(query, encode(vectors), count)

    assert (low <= exact[rows]).all()
    assert (exact[rows] <= high).all()
    # Whatever ties with the last of the best may be wanted too.
    last = np.sort(exact)[-min(count, len(exact))]
    assert set(np.flatnonzero(exact >= last)) <= set(rows)
    assert len(set(rows)) == len(rows)


@pytest.mark.parametrize("order", ["random", "rising", "falling"])
def test_candidates__of_more_rows_than_one_block__are_few_and_hold_the_best(order: str) -> None:
    generator = np.random.default_rng(8)
    centres = generator.standard_normal((50, 64))
    vectors = unit(
        centres[generator.integers(0, 50, 80_000)] + generator.standard_normal((80_000, 64))
    )
    query = unit(centres[0] + generator.standard_normal(64))
    exact = np.array(scores(query, vectors))
    if order != "random":
        ranked = np.argsort(exact if order == "rising" else -exact)
        vectors, exact = vectors[ranked], exact[ranked]

    rows, low, high = candidates(query, encode(vectors), 25)

    assert set(np.argsort(exact)[-25:]) <= set(rows)
    assert ((low <= exact[rows]) & (exact[rows] <= high)).all()
    assert len(rows) < 1000


def test_candidates__of_null_vectors_and_of_tiny_ones__hold_the_best() -> None:
    vectors = np.zeros((5, 16), dtype=ROW)
    vectors[1] = 1e-43
    vectors[2, 3] = 1
    vectors[3] = 3e-7
    query = unit(np.ones(16))

    assert 2 in candidates(query, encode(vectors), 1)[0]
    assert sorted(candidates(query, encode(vectors), 5)[0]) == [0, 1, 2, 3, 4]
    assert sorted(candidates(np.zeros(16, dtype=ROW), encode(vectors), 1)[0]) == [0, 1, 2, 3, 4]


def test_candidates__of_an_empty_table__are_none() -> None:
    rows, low, high = candidates(unit(np.ones(4)), encode(np.empty((0, 4), dtype=ROW)), 3)

    assert (len(rows), len(low), len(high)) == (0, 0, 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_encode__of_what_is_no_number__is_refused(bad: float) -> None:
    vectors = np.ones((3, 4), dtype=ROW)
    vectors[1, 2] = bad

    with pytest.raises(ValueError, match="not a finite number"):
        encode(vectors)


def test_scores__of_many_vectors__are_the_sum_in_index_order() -> None:
    generator = np.random.default_rng(9)
    query, vectors = (
        unit(generator.standard_normal(384)),
        unit(generator.standard_normal((1500, 384))),
    )

    found = scores(query, vectors)

    for vector, score in list(zip(vectors, found, strict=True))[::7]:
        total = 0.0
        for mine, theirs in zip(query.tolist(), vector.tolist(), strict=True):
            total += mine * theirs
        assert score == round(total, 6) + 0.0
