"""Where a text may be cut, and how well each place serves: sections first, words last.

Positions are code points, always the start of what follows; the whitespace before belongs to
what went before. Linear in the length of the text, whatever it holds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import regex

from retrieval.chunking.markdown import outline_of

# Possessive, and never started inside a run: no text takes more than one pass.
_SENTENCE_END = regex.compile(
    # Scripts whose sentence marks need no space after them, then those that do.
    r"[。！？｡．।॥።။།]++[」』）】”’\"')\]]*+\s*+|(?<![.!?…؟۔])[.!?…؟۔]++[\"'”’»)\]*_]*+\s++"
)
_PARAGRAPH_END = regex.compile(r"\n[^\S\n]*+\n\s*+|\f\s*+")
_LINE_END = regex.compile(r"\n\s*+")
_ITEM = regex.compile(r"(?:[-*+•‣◦▪–]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])\s|\|")
# A mark or joiner after a space makes one visible character with it.
_WORD_END = regex.compile(r"(?<!\s)\s++(?=[^\p{M}\u200d])|[、，；：」』）】](?=[^\s\p{M}\u200d])")
_LAST_WORD = regex.compile(r"[\p{L}\p{N}.]+$")
_ABBREVIATIONS = frozenset(
    (
        "approx",
        "bzw",
        "ca",
        "cf",
        "dr",
        "eg",
        "e.g",
        "fig",
        "ie",
        "i.e",
        "inc",
        "jr",
        "mr",
        "mrs",
        "ms",
        "nr",
        "p.ex",
        "prof",
        "resp",
        "sr",
        "st",
        "u.a",
        "vgl",
        "vol",
        "vs",
        "z.b",
    )
)
_LONGEST_ABBREVIATION = 8


class Level(IntEnum):
    """How good a place to cut is; the lower the better."""

    SECTION = 0
    PARAGRAPH = 1
    SENTENCE = 2
    LINE = 3
    WORD = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundaries:
    """The places of each level, sorted, and the blocks that are kept whole where they fit."""

    positions: tuple[tuple[int, ...], ...]
    blocks: tuple[tuple[int, int], ...] = ()

    def last(self, level: Level, after: int, upto: int) -> int | None:
        """Return the last place of exactly this level in ``(after, upto]``."""
        places = self.positions[level]
        index = bisect_right(places, upto) - 1
        return places[index] if index >= 0 and places[index] > after else None

    def first(self, level: Level, start: int, before: int) -> int | None:
        """Return the first place of exactly this level in ``[start, before)``."""
        places = self.positions[level]
        index = bisect_right(places, start - 1)
        return places[index] if index < len(places) and places[index] < before else None

    def block_around(self, position: int) -> tuple[int, int] | None:
        """Return the block that ``position`` lies strictly inside of."""
        return _block_around(self.blocks, position)


def boundaries_of(
    text: str, *, sections: Iterable[int], after_headings: Iterable[int], markdown: bool = False
) -> Boundaries:
    """Return the places where ``text`` may be cut.

    ``sections`` are where sections start; ``after_headings`` where the text after a heading
    starts: a cut there is no better than between any two words, since a heading belongs to what
    it is about. With ``markdown`` its headings, tables and code fences count as such.
    """
    outline = outline_of(text) if markdown else None
    headings = outline.headings if outline else ()
    blocks = outline.blocks if outline else ()
    kept = {*after_headings, *(end for _, end in headings)}
    starts = {*sections, *(start for start, _ in headings)}
    # After a heading there may be the next one, a section of its own.
    starts -= kept
    paragraphs = {match.end() for match in _PARAGRAPH_END.finditer(text)}
    paragraphs.update(edge for block in blocks for edge in block)
    lines = {match.end() for match in _LINE_END.finditer(text)}
    sentences = set(_sentence_starts(text))
    sentences.update(place for place in lines if _ITEM.match(text, place))
    words = {match.end() for match in _WORD_END.finditer(text)}
    # Inside a block, no place is better than the start of a line.
    no_prose = kept.union(
        place for place in paragraphs | sentences if _block_around(blocks, place) is not None
    )
    return Boundaries(
        positions=(
            tuple(sorted(starts)),
            tuple(sorted(paragraphs - no_prose)),
            tuple(sorted(sentences - no_prose)),
            tuple(sorted(lines - kept)),
            tuple(sorted(words | kept)),
        ),
        blocks=blocks,
    )


def _block_around(blocks: tuple[tuple[int, int], ...], position: int) -> tuple[int, int] | None:
    index = bisect_right(blocks, (position, -1)) - 1
    if index >= 0 and blocks[index][0] < position < blocks[index][1]:
        return blocks[index]
    return None


def _sentence_starts(text: str) -> Iterator[int]:
    for match in _SENTENCE_END.finditer(text):
        start, end = match.span()
        if end == len(text):
            continue
        if text[end].islower():
            continue
        if text[start] == "." and match.group().rstrip() == "." and _abbreviates(text, start):
            continue
        yield end


def _abbreviates(text: str, dot: int) -> bool:
    word = _LAST_WORD.search(text, max(0, dot - _LONGEST_ABBREVIATION - 1), dot)
    if word is None:
        return False
    before = word.group()
    if before.isdigit():
        # "1. Open the box": the number of an item, where it opens a line.
        return word.start() == 0 or text[word.start() - 1] == "\n"
    return before.lower() in _ABBREVIATIONS or (len(before) == 1 and before.isalpha())
