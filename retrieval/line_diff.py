"""Which lines two texts share, in order: quick whatever the texts are.

Lines that either text has once anchor the comparison (patience), so that two long texts with many
small changes take no longer than they are long; what lies between anchors is compared by difflib.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

# kind (equal, replace, delete, insert), start and end in either text: as difflib has them
Opcode = tuple[str, int, int, int, int]

# difflib is quadratic at worst: a longer stretch without anchors counts as replaced
_MOST_BETWEEN = 2_000


def grouped_changes(
    old: Sequence[str], new: Sequence[str], *, context: int
) -> Iterator[list[Opcode]]:
    """Yield the changes as groups of opcodes, each with ``context`` equal lines around."""
    yield from _Found(list(_opcodes(old, new))).get_grouped_opcodes(context)


class _Found(SequenceMatcher[str]):
    """Groups opcodes as difflib does; they were found elsewhere."""

    def __init__(self, opcodes: list[Opcode]) -> None:
        super().__init__(None, "", "")
        self._found = opcodes

    def get_opcodes(self) -> Any:
        return self._found


def _opcodes(old: Sequence[str], new: Sequence[str]) -> Iterator[Opcode]:
    a = b = equal_a = equal_b = 0
    for at_a, at_b, length in _equal_runs(old, new):
        if (at_a, at_b) != (a, b):
            if (a, b) != (equal_a, equal_b):
                yield "equal", equal_a, a, equal_b, b
            yield _kind(at_a - a, at_b - b), a, at_a, b, at_b
            equal_a, equal_b = at_a, at_b
        a, b = at_a + length, at_b + length
    if (a, b) != (equal_a, equal_b):
        yield "equal", equal_a, a, equal_b, b
    if (a, b) != (len(old), len(new)):
        yield _kind(len(old) - a, len(new) - b), a, len(old), b, len(new)


def _kind(removed: int, added: int) -> str:
    if removed and added:
        return "replace"
    return "delete" if removed else "insert"


def _equal_runs(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Yield (start in old, start in new, length) of runs of equal lines, in order."""
    a = b = 0
    for at_a, at_b in [*_anchors(old, new), (len(old), len(new))]:
        if at_a - a <= _MOST_BETWEEN and at_b - b <= _MOST_BETWEEN:
            matcher = SequenceMatcher(None, old[a:at_a], new[b:at_b], autojunk=False)
            for found in matcher.get_matching_blocks():
                if found.size:
                    yield a + found.a, b + found.b, found.size
        if at_a < len(old):
            yield at_a, at_b, 1
        a, b = at_a + 1, at_b + 1


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return places of lines that both texts have just once, rising in both: as many as can be."""
    in_old, in_new = Counter(old), Counter(new)
    places = {line: at for at, line in enumerate(new) if in_new[line] == 1}
    pairs = [
        (at, places[line]) for at, line in enumerate(old) if in_old[line] == 1 and line in places
    ]
    # The longest rising run, by patience sorting
    tops: list[int] = []
    piles: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        pile = bisect_left(tops, place)
        before.append(piles[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [place]
        piles[pile : pile + 1] = [number]
    chosen: list[tuple[int, int]] = []
    number = piles[-1] if piles else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = before[number]
    return chosen[::-1]
