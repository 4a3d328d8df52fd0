"""The best rows of a matrix of vectors by one byte per component, exactly.

Each vector ``x`` is kept as int8 codes ``c`` with a scale ``s`` of its own, and with the length
``R ≥ ‖x − s·c‖`` of what the rounding lost; the question ``q`` is coded the same way
(``s_q, c_q, R_q``). Reading the codes alone then tells where each score can lie, and nearly all
rows are ruled out. The few that are left are scored by the definition, ``retrieval.scoring``.

**The bound.** With ``a = (s_q·c_q)·(s·c)``,

    q·x − a = q·(x − s·c) + (q − s_q·c_q)·(s·c)

hence, by Cauchy–Schwarz, ``|q·x − a| ≤ ‖q‖·R + R_q·N`` where ``N ≥ ‖s·c‖`` for every row. No
length is assumed: ``R``, ``R_q``, ``‖q‖`` and ``N`` are measured. Their errors:

- ``s`` is a float32 that is used as stored. ``s·c_i`` (24 + 7 bits) is exact in float64, each
  difference ``x_i − s·c_i`` is rounded once, and a sum of ``d`` squares is off by at most
  ``γ = (d + 2)·2⁻⁵³`` of itself. Multiplying by ``1 + 1e-9`` is above that for every
  ``d < 4·10⁶``; the float32 that is stored is rounded upwards.
- ``c_q·c`` is an integer below ``2³¹`` for ``d ≤ 133,000``, summed without rounding. In float64,
  ``s_q·s·(c_q·c)`` is rounded twice, so it is off by less than ``2⁻⁵¹·‖q‖'·N`` with
  ``‖q‖' = ‖s_q·c_q‖ ≤ ‖q‖ + R_q``; sums of bounds are off by a few ``2⁻⁵³`` of themselves.
  ``1e-9·(1 + ‖q‖'·N)`` covers all of it.
- The score by the definition is a float64 sum in index order, off by at most
  ``d·2⁻⁵³·‖q‖·‖x‖``, and rounded to six decimals: another ``0.5e-6``. Since a row's largest
  component has the code 127, ``R ≤ ½·√d·s ≤ 2·N`` and ``‖x‖ ≤ 3·N``, so ``1e-9·‖q‖·N`` is above
  it. (Rows so small that float32 has no such scale are covered by the ``1e-9`` beside it.)

So each row's score lies in ``a ± (‖q‖·R + R_q·N + 0.5e-6 + 1e-9·(2 + ‖q‖'·N + ‖q‖·N))``.
With ``L`` the ``k``-th largest lower end, ``k`` rows score at least ``L``; a row whose upper end
is below ``L`` scores less than each of them and is none of the best ``k``, however ties are
broken. Every other row is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numkong
import numpy as np
from numpy.typing import NDArray

from registry import cores
from retrieval.vectors import Vector

_HIGHEST = 127
_ROUNDED_UP = 1 + 1e-9
_HALF_A_STEP = 0.5e-6
_SMALL = 1e-9
# Small first, for a threshold; then as many as stay in a core's own cache with their products.
_FIRST_ROWS = 4096
_ROWS = 32_768
_ROWS_CODED_AT_ONCE = 4096
MOST_DIMENSIONS = 133_000


@dataclass(frozen=True, slots=True)
class Codes:
    """``rows × d`` codes; per row the scale and the length of what was lost; ``N`` of the bound."""

    codes: NDArray[np.int8]
    scales: NDArray[np.float32]
    lost: NDArray[np.float32]
    longest: float


def encode(vectors: NDArray[np.float32]) -> Codes:
    """Return the codes of vectors of any length; raises ValueError for what is not finite."""
    count, dimensions = vectors.shape
    if dimensions > MOST_DIMENSIONS:
        raise ValueError(f"{dimensions} dimensions: sums of codes would not be exact")
    codes = np.empty((count, dimensions), dtype=np.int8)
    scales = np.empty(count, dtype=np.float32)
    lost = np.empty(count, dtype=np.float32)
    longest = 0.0
    for start in range(0, count, _ROWS_CODED_AT_ONCE):
        part = slice(start, start + _ROWS_CODED_AT_ONCE)
        rows = vectors[part].astype(np.float64)
        if not np.isfinite(rows).all():
            raise ValueError("a component is not a finite number")
        scale = (np.abs(rows).max(axis=1, initial=0.0) / _HIGHEST).astype(np.float32)
        # Null vectors, and those so small that their scale is none: all codes are 0 then.
        scale[scale == 0] = 1
        step = scale.astype(np.float64)[:, None]
        code = np.clip(np.rint(rows / step), -_HIGHEST, _HIGHEST)
        coded = code * step
        codes[part] = code.astype(np.int8)
        scales[part] = scale
        lost[part] = _not_below(_lengths(rows - coded))
        longest = max(longest, float(_lengths(coded).max(initial=0.0)))
    return Codes(codes, scales, lost, longest)


def candidates(
    query: Vector, table: Codes, count: int
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Return the rows that can be among the best ``count`` scores, and where each score can lie.

    ``count`` is from 1; of a table with fewer rows all are returned. The second and the third
    array are the lower and upper ends.
    """
    asked = _Asked.of(query, table, count)
    parts = cores.spread(partial(_scan, asked, table), _parts(len(table.codes)))
    row = np.concatenate([part.rows for part in parts])
    middle = np.concatenate([part.middles for part in parts])
    margin = table.lost[row] * asked.per_lost + asked.fixed
    lows = _largest(np.concatenate([part.highest_lows for part in parts]), count)
    if len(lows) == count:
        left = middle + margin >= lows.min()
        row, middle, margin = row[left], middle[left], margin[left]
    return row, middle - margin, middle + margin


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A coded question, and what of the bound is the same for every row of a table."""

    codes: NDArray[np.int8]
    scale: float
    fixed: float
    per_lost: float
    count: int

    @classmethod
    def of(cls, query: Vector, table: Codes, count: int) -> _Asked:
        coded = encode(query.reshape(1, -1))
        length = float(_lengths(query.reshape(1, -1).astype(np.float64))[0])
        scale = float(coded.scales[0])
        coded_length = float(_lengths(coded.codes.astype(np.float64))[0]) * scale
        return cls(
            codes=coded.codes,
            scale=scale,
            fixed=(
                float(coded.lost[0]) * table.longest
                + _HALF_A_STEP
                + _SMALL * (2 + coded_length * table.longest + length * table.longest)
            ),
            per_lost=length * (1 + _SMALL),
            count=count,
        )


@dataclass(frozen=True, slots=True)
class _Scanned:
    """Of some rows: those that can be among the best, their middles, and the highest lower ends."""

    rows: NDArray[np.intp]
    middles: NDArray[np.float64]
    highest_lows: NDArray[np.float64]


def _parts(total: int) -> list[range]:
    """Return as many runs of rows as there are cores for them, none of them small."""
    number = max(1, min(cores.per_question(), total // _ROWS))
    return [range(total * at // number, total * (at + 1) // number) for at in range(number)]


def _scan(asked: _Asked, table: Codes, part: range) -> _Scanned:
    """Rule out rows by what was found before them in the same part."""
    rows: list[NDArray[np.intp]] = []
    middles: list[NDArray[Any]] = []
    highest_lows = np.empty(0, dtype=np.float64)
    threshold = -np.inf
    start = part.start
    while start < part.stop:
        end = min(part.stop, start + (_FIRST_ROWS if start == part.start else _ROWS))
        # Integers below 2³¹, and exact as float64.
        products = np.asarray(
            numkong.cdist(asked.codes, table.codes[start:end], metric="dot"), dtype=np.float64
        ).ravel()
        near = products * table.scales[start:end] * asked.scale
        if threshold == -np.inf:
            found = np.arange(end - start)
        else:
            # By the block's largest loss first: one comparison of each row is all that most cost.
            most_lost = float(table.lost[start:end].max()) * asked.per_lost
            found = np.flatnonzero(near >= threshold - most_lost - asked.fixed)
        if len(found):
            kept = near[found]
            lows = kept - (table.lost[start:end][found] * asked.per_lost + asked.fixed)
            rows.append(found + start)
            middles.append(kept)
            highest_lows = _largest(np.concatenate((highest_lows, lows)), asked.count)
            if len(highest_lows) == asked.count:
                threshold = float(highest_lows.min())
        start = end
    return _Scanned(
        np.concatenate([np.empty(0, dtype=np.intp), *rows]),
        np.concatenate([np.empty(0, dtype=np.float64), *middles]),
        highest_lows,
    )


def _largest(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    if len(values) <= count:
        return values
    return np.partition(values, len(values) - count)[len(values) - count :]


def _lengths(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the lengths of rows, or a little more."""
    lengths: NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", rows, rows)) * _ROUNDED_UP
    return lengths


def _not_below(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return float32 numbers that are not below ``values``."""
    near = values.astype(np.float32)
    below = near < values
    near[below] = np.nextafter(near[below], np.float32(np.inf))
    return near
