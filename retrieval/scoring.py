"""The one number and the one order of every answer.

``score = round(Σ q_i · c_i, 6)``: the sum is taken in float64, in index order, of the exact
products of the stored float32 components (a product of two 24-bit mantissas fits in 53 bits).
No BLAS: its sums depend on the CPU and on the shape of the matrix. Rank by score before clipping,
descending, then chunk digest, document id, ordinal. ``confidence = min(1, max(0, score))``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from retrieval.vectors import Vector

DECIMALS = 6
_AT_ONCE = 1024


def scores(query: Vector, vectors: Sequence[Vector] | NDArray[np.float32]) -> list[float]:
    """Return the score of each vector, rounded half to even at six decimals."""
    question = query.astype(np.float64)
    found: list[float] = []
    for start in range(0, len(vectors), _AT_ONCE):
        matrix = np.asarray(vectors[start : start + _AT_ONCE], dtype=np.float32)
        products = matrix.astype(np.float64) * question
        # Defined as one addition after the other; a plain sum adds in pairs.
        totals = np.add.accumulate(products, axis=1)[:, -1]
        # Python's round is correctly rounded; numpy's multiplies first and is not.
        found += [round(value, DECIMALS) + 0.0 for value in totals.tolist()]
    return found


def confidence(score: float) -> float:
    """Return the score clipped to 0…1; −0 becomes 0."""
    return min(1.0, max(0.0, score)) + 0.0


def error_bound(dimensions: int) -> float:
    """Return how far a float32 sum of ``dimensions`` products may lie from a rounded score.

    For unit vectors, in any order of summation, the error is at most γ_n = n·u / (1 − n·u) with
    u = 2⁻²⁴ (Higham, Accuracy and Stability of Numerical Algorithms, §3.1), since Σ|q_i·c_i| ≤ 1
    by Cauchy–Schwarz. The stored vectors' length is 1 within 1e-6, and rounding to six decimals
    adds half a unit.
    """
    unit = 1 / 2**24
    gamma = dimensions * unit / (1 - dimensions * unit)
    return gamma * 1.00001 + 0.5e-6 + 1e-9
