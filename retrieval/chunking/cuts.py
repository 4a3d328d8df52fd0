"""What lies between a piece and what follows it: for people who choose a chunking."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from retrieval.chunking.boundaries import Level, boundaries_of
from retrieval.chunking.cutting import Piece
from retrieval.segments import SEPARATOR, Segment, joined_text

# From the best place to cut to the worst; "limit": what follows is in no piece
CUTS = ("end", "page", "section", "paragraph", "sentence", "line", "word", "character", "limit")
_NAMES = {
    Level.SECTION: "section",
    Level.PARAGRAPH: "paragraph",
    Level.SENTENCE: "sentence",
    Level.LINE: "line",
    Level.WORD: "word",
}


def cuts_after(
    segments: Sequence[Segment], pieces: Sequence[Piece], *, markdown: bool = False
) -> list[str]:
    """Return for each piece of ``segments`` what it ends at, one of ``CUTS``.

    ``character`` is inside a word; ``end`` the end of the document.
    """
    text = joined_text(segments)
    starts = _starts(segments)
    boundaries = boundaries_of(text, sections=(), after_headings=(), markdown=markdown)

    def cut(piece: Piece) -> str:
        at = piece.end
        while at < len(text) and text[at].isspace():
            at += 1
        if piece.truncated:
            return "limit"
        if at >= len(text):
            return "end"
        number = bisect_left(starts, at)
        if 0 < number < len(starts) and starts[number] == at:
            before, after = segments[number - 1], segments[number]
            if before.page != after.page:
                return "page"
            return "section" if before.section != after.section else "paragraph"
        for level, name in _NAMES.items():
            if boundaries.first(level, at, at + 1) is not None:
                return name
        return "character"

    return [cut(piece) for piece in pieces]


def _starts(segments: Sequence[Segment]) -> list[int]:
    starts, at = [], 0
    for segment in segments:
        starts.append(at)
        at += len(segment.text) + len(SEPARATOR)
    return starts
