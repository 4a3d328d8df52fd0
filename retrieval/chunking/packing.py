"""Pack a run of text into spans of at most so many tokens, cut at the best places."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import regex

from retrieval.chunking.boundaries import Boundaries, Level

TokenOffsets = Callable[[str], Sequence[tuple[int, int]]]
# Levels that count alike, and the part of the size that a cut at one of them must reach.
Tier = tuple[tuple[Level, ...], Fraction]

_GRAPHEME = regex.compile(r"\X")
# A window this much longer than needed shows a whole grapheme, unless it was made to be hostile.
_LONGEST_GRAPHEME = 64
# Some tokenizers give one "unknown" token for a run of any length, and none for whitespace or
# invisible characters. What goes beyond this many code points weighs a token each few, or a chunk
# would have no bound in characters.
_LONGEST_TOKEN = 100
_CODE_POINTS_PER_TOKEN = 4


class Packer:
    """The text of one run, weighed once: token starts, and the places where it may be cut."""

    def __init__(
        self,
        text: str,
        starts: Sequence[int],
        boundaries: Boundaries,
        token_offsets: TokenOffsets,
    ) -> None:
        """``starts`` are those that ``token_starts`` gives for the text."""
        self._text = text
        self._starts = starts
        self._boundaries = boundaries
        self._token_offsets = token_offsets

    def pack(self, size: int, overlap: int, tiers: Sequence[Tier]) -> Iterator[tuple[int, int]]:
        """Yield spans that cover all of the text but whitespace, in order.

        Each is cut at the furthest place of the first tier that has one within ``size`` tokens,
        else between graphemes, and starts up to ``overlap`` tokens before the end of the one
        before it. A span, tokenised alone and without the whitespace around it, has at most
        ``size`` tokens; a single code point that alone has more stays whole.
        """
        start = covered = 0
        while covered < len(self._text):
            start, end = self._span(start, covered, size, tiers)
            if not self._text[covered:end].isspace():
                yield start, end
            start, covered = self._overlap_start(start, end, overlap), end

    def _span(self, start: int, covered: int, size: int, tiers: Sequence[Tier]) -> tuple[int, int]:
        """Return a span that ends after ``covered``; it starts at ``start``, or at ``covered``
        where only that leaves room for something new.
        """
        limit = self._reach(start, size)
        while True:
            smallest = self._grapheme_end(covered)
            end = self._cut(start, covered, limit, tiers) if limit > smallest else smallest
            # Cutting inside a word can make more tokens of it than it had.
            excess = self._count(start, end) - size
            if excess <= 0:
                return start, end
            if end > smallest:
                held = self._rank(end) - self._rank(start)
                limit = min(self._reach(start, held - excess), end - 1)
            elif start < covered:
                start, limit = covered, self._reach(covered, size)
            else:
                while end > start + 1 and self._count(start, end) > size:
                    end -= 1
                return start, end

    def _cut(self, start: int, covered: int, limit: int, tiers: Sequence[Tier]) -> int:
        if limit >= len(self._text):
            return limit
        kept_whole = self._before_block(start, covered, limit)
        if kept_whole is not None:
            return kept_whole
        first = self._rank(start)
        room = self._rank(limit) - first
        for levels, part in tiers:
            after = max(covered, self._reach(start, int(room * part)))
            places = (self._boundaries.last(level, after, limit) for level in levels)
            best = max((place for place in places if place is not None), default=None)
            if best is not None:
                return best
        return self._last_grapheme(covered, limit)

    def _before_block(self, start: int, covered: int, limit: int) -> int | None:
        """Return where to cut so that a block that fits into one span is not cut at ``limit``."""
        block = self._boundaries.block_around(limit)
        if block is None or self._rank(block[1]) - self._rank(block[0]) > (
            self._rank(limit) - self._rank(start)
        ):
            return None
        places = (
            self._boundaries.last(level, covered, block[0])
            for level in (Level.SECTION, Level.PARAGRAPH)
        )
        return max((place for place in places if place is not None), default=None)

    def _overlap_start(self, start: int, end: int, overlap: int) -> int:
        starts_section = self._boundaries.last(Level.SECTION, end - 1, end) is not None
        if overlap == 0 or starts_section or end == len(self._text):
            return end
        span = self._text[start:end]
        start += len(span) - len(span.lstrip())
        low = max(start + 1, self._starts[max(0, self._rank(end) - overlap)])
        word = self._boundaries.first(Level.WORD, low, end)
        if word is not None:
            return word
        ends = (match.end() for match in _GRAPHEME.finditer(self._text, start, end))
        return next((place for place in ends if place >= low), end)

    def _rank(self, position: int) -> int:
        """Return how many tokens start before ``position``."""
        return bisect_left(self._starts, position)

    def _reach(self, start: int, tokens: int) -> int:
        """Return the furthest place so that at most ``tokens`` tokens start from ``start`` on."""
        index = self._rank(start) + max(0, tokens)
        return self._starts[index] if index < len(self._starts) else len(self._text)

    def _count(self, start: int, end: int) -> int:
        return len(self._token_offsets(self._text[start:end].strip()))

    def _grapheme_end(self, start: int) -> int:
        match = _GRAPHEME.match(self._text, start, start + _LONGEST_GRAPHEME)
        return match.end() if match else len(self._text)

    def _last_grapheme(self, start: int, limit: int) -> int:
        """Return the last place up to ``limit`` between graphemes, ``limit`` if there is none."""
        found = start
        for match in _GRAPHEME.finditer(self._text, start, limit + _LONGEST_GRAPHEME):
            if match.end() > limit:
                break
            found = match.end()
        return found if found > start else limit


def token_starts(text: str, token_offsets: TokenOffsets) -> list[int]:
    """Return where tokens start, sorted.

    What the tokenizer passes over in bulk (a word too long for it, a mass of whitespace) counts
    as many.
    """
    starts: list[int] = []
    before = 0
    for start, end in token_offsets(text):
        if start - before > _LONGEST_TOKEN:
            starts.extend(range(before + _LONGEST_TOKEN, start, _CODE_POINTS_PER_TOKEN))
        if end - start <= _LONGEST_TOKEN:
            starts.append(start)
        else:
            starts.extend(range(start, end, _CODE_POINTS_PER_TOKEN))
        before = max(before, end)
    starts.extend(range(before + _LONGEST_TOKEN, len(text), _CODE_POINTS_PER_TOKEN))
    starts.sort()
    return starts
