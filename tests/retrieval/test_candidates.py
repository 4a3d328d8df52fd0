"""The exact search against a brute force by the definition, ties and duplicates included."""

from __future__ import annotations

import numpy as np
import pytest
from django.db import connection

from retrieval.candidates import best
from retrieval.models import IndexSnapshot
from tests.retrieval.drawn import brute_force, found, snapshot_of, unit

pytestmark = pytest.mark.django_db


def test_best__with_ties_duplicates_and_negative_scores__is_the_brute_force() -> None:
    generator = np.random.default_rng(4)
    query = unit(generator.standard_normal(8))
    near = unit(query + 0.1 * generator.standard_normal(8))
    # Neighbours in the last bit: as a float32 sum their order is a matter of luck.
    neighbours = [
        np.nextafter(near, np.float32(step)).astype(np.float32) for step in (-1, 0, 1) for _ in "ab"
    ]
    documents = [
        [near, near, -near, query, -query, *neighbours],
        [near, *neighbours, unit(generator.standard_normal(8))],
        [unit(generator.standard_normal(8)) for _ in range(20)],
    ]
    snapshot = snapshot_of(documents)
    total = sum(map(len, documents)) + len(documents[1])
    for depth in (1, 2, 3, 5, 8, 13, 25, total, total + 10):
        made = found(snapshot, query, depth)
        assert made == brute_force(snapshot, query, depth)
        assert len(made) == min(depth, total)
    everything = best(snapshot, query, total)
    assert min(one.score for one in everything) == pytest.approx(-1)
    assert {one.confidence for one in everything if one.score < 0} == {0.0}


def test_best__when_all_scores_are_negative__still_ranks_by_the_score_before_clipping() -> None:
    generator = np.random.default_rng(5)
    query = unit(np.ones(8))
    snapshot = snapshot_of(
        [[unit(-query + 0.2 * generator.standard_normal(8)) for _ in range(6)] for _ in range(2)]
    )
    made = found(snapshot, query, 4)
    assert made == brute_force(snapshot, query, 4)
    assert all(negated > 0 for negated, *_ in made)


def test_best__of_many_embedding_sized_vectors_close_together__is_the_brute_force() -> None:
    """The 25th and the 26th often differ by less than a float32 sum can tell."""
    generator = np.random.default_rng(6)
    query = unit(generator.standard_normal(384))
    centre = unit(query + 0.05 * generator.standard_normal(384))
    documents = [
        [unit(centre + 1e-6 * generator.standard_normal(384)) for _ in range(100)] for _ in range(4)
    ]
    snapshot = snapshot_of(documents)
    for depth in (1, 25, 100):
        assert found(snapshot, query, depth) == brute_force(snapshot, query, depth)


def test_best__of_a_snapshot_without_chunks__is_nothing() -> None:
    generator = np.random.default_rng(7)
    query = unit(generator.standard_normal(8))
    snapshot = snapshot_of([[query]])
    empty = IndexSnapshot(pk=-1, model=snapshot.model)
    assert best(empty, query, 5) == []


def test_vectors__of_chunks_with_long_texts__stay_in_their_rows() -> None:
    """Out of line, the exact search reads ten times as many pages."""
    generator = np.random.default_rng(8)
    snapshot = snapshot_of(
        [[unit(generator.standard_normal(384)) for _ in range(50)]], text=generator.bytes(350).hex()
    )
    assert len(best(snapshot, unit(generator.standard_normal(384)), 5)) == 5

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), count(*) FILTER (WHERE pg_column_toast_chunk_id(vector) IS NULL) "
            "FROM retrieval_chunk"
        )
        assert cursor.fetchone() == (50, 50)
