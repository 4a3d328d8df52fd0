"""From segments to pieces: what may share a chunk, and how each strategy likes its cuts."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby, pairwise
from typing import Protocol

from retrieval.chunking.boundaries import Level, boundaries_of
from retrieval.chunking.configuration import Chunking
from retrieval.chunking.packing import Packer, Tier, token_starts
from retrieval.segments import SEPARATOR, Segment

_HALF = Fraction(1, 2)
_QUARTER = Fraction(1, 4)
_ANY = Fraction(0)
_PROSE = (Level.SECTION, Level.PARAGRAPH, Level.SENTENCE)
_RECURSIVE: tuple[Tier, ...] = (
    ((Level.SECTION,), _HALF),
    ((Level.PARAGRAPH,), _HALF),
    ((Level.SENTENCE,), _HALF),
    (_PROSE, _QUARTER),
    ((Level.LINE,), _HALF),
    ((Level.WORD,), _ANY),
)
_TIERS: dict[str, tuple[Tier, ...]] = {
    "recursive": _RECURSIVE,
    "markdown": _RECURSIVE,
    "page": _RECURSIVE,
    # As many whole sentences as fit.
    "sentence": ((_PROSE, _ANY), ((Level.LINE,), _HALF), ((Level.WORD,), _ANY)),
    "document": (((Level.WORD,), _ANY),),
}

# A section shorter than this part of the size says too little alone and shares a chunk.
_SMALL_SECTION = Fraction(3, 10)
_PATH_SEPARATOR = " > "
_FIRST_LINE = re.compile(r"([^\n]+)\n\s*")


class Tokenizer(Protocol):
    """What chunking needs of an embedding model."""

    def token_offsets(self, text: str) -> Sequence[tuple[int, int]]:
        """Return where each token of ``text`` starts and ends, without special tokens."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A chunk before it is embedded.

    ``start`` and ``end`` count code points of the segments' texts joined by a blank line, and
    ``text`` is exactly what lies between them. ``truncated``: the strategy wanted more in this
    chunk than the model reads, and what follows it is in none.
    """

    text: str
    page: int | None
    section: str | None
    start: int
    end: int
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """A segment with its place in the joined text and its token starts, counted in itself."""

    segment: Segment
    start: int
    tokens: Sequence[int]

    @property
    def end(self) -> int:
        return self.start + len(self.segment.text)


def chunk(segments: Sequence[Segment], chunking: Chunking, tokenizer: Tokenizer) -> list[Piece]:
    """Cut a document into pieces, in its order; the same input gives the same pieces.

    A piece has at most ``chunking.size`` tokens (a single code point that alone has more stays
    whole) and something to read in it. Everything but whitespace is in some piece, except after
    a truncated one. Two neighbours share up to ``chunking.overlap`` tokens, unless a page or
    section lies between them.
    """
    placed = _placed(segments, tokenizer)
    pieces = (piece for run in _runs(placed, chunking) for piece in _cut(run, chunking, tokenizer))
    if chunking.strategy != "document":
        return list(pieces)
    first, second = next(pieces, None), next(pieces, None)
    if first is None:
        return []
    return [replace(first, truncated=second is not None)]


def _placed(segments: Sequence[Segment], tokenizer: Tokenizer) -> list[_Placed]:
    placed = []
    start = 0
    for segment in segments:
        tokens = token_starts(segment.text, tokenizer.token_offsets)
        placed.append(_Placed(segment=segment, start=start, tokens=tokens))
        start += len(segment.text) + len(SEPARATOR)
    return placed


def _runs(placed: Sequence[_Placed], chunking: Chunking) -> Iterator[list[_Placed]]:
    """Yield the neighbours that may share a chunk."""
    if chunking.strategy == "document":
        if placed:
            yield list(placed)
        return
    for _, group in groupby(placed, key=lambda one: one.segment.page):
        on_page = list(group)
        if chunking.strategy == "page":
            yield on_page
        else:
            yield from _section_runs(on_page, chunking.size)


def _section_runs(placed: Sequence[_Placed], size: int) -> list[list[_Placed]]:
    """Join segments of one section; small sections with the next, a page's last with the one
    before, as long as both fit whole.
    """
    sections = [list(group) for _, group in groupby(placed, key=lambda one: one.segment.section)]
    runs: list[list[_Placed]] = []
    small = int(size * _SMALL_SECTION)
    length = 0
    for number, section in enumerate(sections):
        tokens = sum(len(one.tokens) for one in section)
        is_last = number == len(sections) - 1
        if runs and length + tokens <= size and (length < small or (is_last and tokens < small)):
            runs[-1].extend(section)
            length += tokens
        else:
            runs.append(section)
            length = tokens
    return runs


def _cut(run: Sequence[_Placed], chunking: Chunking, tokenizer: Tokenizer) -> Iterator[Piece]:
    text = SEPARATOR.join(one.segment.text for one in run)
    origin = run[0].start
    starts = [one.start - origin + token for one in run for token in one.tokens]
    boundaries = boundaries_of(
        text,
        sections=[
            one.start - origin
            for before, one in pairwise(run)
            if one.segment.section != before.segment.section
        ],
        after_headings=[
            one.start - origin + place for one in run for place in _after_headings(one.segment)
        ],
        markdown=chunking.strategy == "markdown",
    )
    packer = Packer(text, starts, boundaries, tokenizer.token_offsets)
    for start, end in packer.pack(chunking.size, chunking.overlap, _TIERS[chunking.strategy]):
        content = text[start:end]
        stripped = content.strip()
        if not stripped:
            continue
        start += len(content) - len(content.lstrip())
        end = start + len(stripped)
        home = _home(run, origin + start, origin + end)
        yield Piece(
            text=stripped,
            page=home.page,
            section=home.section,
            start=origin + start,
            end=origin + end,
        )


def _after_headings(segment: Segment) -> Iterator[int]:
    """Yield where the text after each heading that opens a segment starts."""
    names = (segment.section or "").split(_PATH_SEPARATOR)
    place = 0
    while (line := _FIRST_LINE.match(segment.text, place)) and line[1].strip() in names:
        place = line.end()
        yield place


def _home(run: Sequence[_Placed], start: int, end: int) -> Segment:
    """Return the segment that most of a piece lies in, the first of several."""
    first = bisect_right(run, start, key=lambda one: one.start) - 1
    inside = []
    for one in run[max(0, first) :]:
        if one.start >= end:
            break
        inside.append(one)
    return max(inside, key=lambda one: min(one.end, end) - max(one.start, start)).segment
