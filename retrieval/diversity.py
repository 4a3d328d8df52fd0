"""Leaving out passages that repeat one ranked before them. Knows neither Django nor the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from retrieval.lexical import TERMS, terms

_RUN: Final = 3
_SHARED: Final = 0.7

RECIPE: Final[dict[str, Any]] = {
    "recipe": "shared-runs-of-terms/1",
    "terms": TERMS,
    "run": _RUN,
    "shared": _SHARED,
}


def repeats(passages: Sequence[str]) -> list[bool]:
    """Say for each passage, in rank order, whether it repeats one that is kept before it.

    It does where at least 70 % of the different runs of three terms of the shorter of the two
    stand in the other as well; of a passage with fewer terms, the whole is its one run.
    """
    kept: list[frozenset[tuple[int, ...]]] = []
    repeated: list[bool] = []
    for passage in passages:
        runs = _runs(passage)
        again = any(_share(runs, other) for other in kept)
        repeated.append(again)
        if not again:
            kept.append(runs)
    return repeated


def _runs(passage: str) -> frozenset[tuple[int, ...]]:
    found = terms(passage)
    if len(found) < _RUN:
        return frozenset([tuple(found)])
    return frozenset(tuple(found[at : at + _RUN]) for at in range(len(found) - _RUN + 1))


def _share(one: frozenset[tuple[int, ...]], other: frozenset[tuple[int, ...]]) -> bool:
    return len(one & other) >= _SHARED * min(len(one), len(other))
