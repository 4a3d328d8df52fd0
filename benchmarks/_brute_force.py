"""The definition of score and rank, computed over every chunk: what search is held to."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 20_000
_ROUNDING = 2e-6


class BruteForce:
    """All vectors of a snapshot, each scored by float64 additions in index order."""

    def __init__(self, vectors: NDArray[np.float32], places: NDArray[Any]) -> None:
        # By component: the definition adds one after the other.
        self._columns = np.ascontiguousarray(vectors.T)
        self._places = places

    def best(self, query: NDArray[np.float32], depth: int) -> list[tuple[float, str, str, int]]:
        """Return the rank keys of the ``depth`` best chunks."""
        totals = np.zeros(len(self._places))
        product = np.empty(_AT_ONCE)
        for start in range(0, len(totals), _AT_ONCE):
            sums = totals[start : start + _AT_ONCE]
            term = product[: len(sums)]
            for column, component in zip(self._columns, query.astype(np.float64), strict=True):
                np.multiply(column[start : start + _AT_ONCE], component, out=term)
                sums += term
        depth = min(depth, len(totals))
        # Rounding cannot lift what is this far below the last.
        last = np.partition(totals, len(totals) - depth)[-depth]
        found = np.flatnonzero(totals >= last - _ROUNDING).tolist()
        return sorted(self._rank_key(row, float(totals[row])) for row in found)[:depth]

    def _rank_key(self, row: int, total: float) -> tuple[float, str, str, int]:
        place = self._places[row]
        return (
            -(round(total, 6) + 0.0),
            f"sha256:{place['digest'].tobytes().hex()}",
            str(uuid.UUID(bytes=place["document"].tobytes())),
            int(place["ordinal"]),
        )
