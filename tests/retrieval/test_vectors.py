"""Vectors on their way to PostgreSQL and back."""

from __future__ import annotations

import numpy as np
import pytest
from django.db import connection

from retrieval.vectors import Vector, from_wire, literal, to_wire


def hostile(count: int) -> Vector:
    """Return float32 numbers of every size, each one's neighbours among them."""
    generator = np.random.default_rng(5)
    drawn = generator.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)
    normal = drawn[np.isfinite(drawn) & (np.abs(drawn) >= np.finfo(np.float32).tiny)]
    some = np.array([0.0, -0.0, 1.0, 0.1, -1 / 3, 16_777_216, 9.999999e-5], dtype=np.float32)
    near = [np.nextafter(one, np.float32(to)) for one in (normal, some[2:]) for to in (-9e9, 9e9)]
    return np.concatenate([some, normal, *near])


@pytest.mark.django_db
def test_literal__of_any_numbers__arrives_to_the_bit() -> None:
    sent = hostile(4000)
    kept = sent[(np.abs(sent) >= np.finfo(np.float32).tiny) | (sent == 0)][:16_000]

    with connection.cursor() as cursor:
        cursor.execute("SELECT vector_send(%s::vector)", [literal(kept)])
        arrived = from_wire(cursor.fetchone()[0])

    assert len(kept) > 10_000
    assert np.array_equal(arrived.view(np.uint32), kept.view(np.uint32))


def test_wire__there_and_back__is_the_same_to_the_bit() -> None:
    sent = hostile(1000)

    assert np.array_equal(from_wire(to_wire(sent)).view(np.uint32), sent.view(np.uint32))
