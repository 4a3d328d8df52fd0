"""What extraction hands to chunking: a document's text in its order, with where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SEPARATOR = "\n\n"

# How far into a document words are counted for a truncated chunk, in code points.
LONGEST_COUNTED = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of a document's text that lies on one page and in one section.

    ``page`` counts from 1 and is None where the format has no pages; ``section`` is the path of
    headings (``Refunds > By post``), None where extraction found none.
    """

    page: int | None
    section: str | None
    text: str


def joined_text(segments: Sequence[Segment]) -> str:
    """Return the text that the offsets of chunks count in: the segments', a blank line between."""
    return SEPARATOR.join(segment.text for segment in segments)


def counted_text(text: str, start: int, *, truncated: bool, document: str) -> str:
    """Return the text whose words are counted for a chunk: its own, unless it is ``truncated``.

    Then its vector stands for a text that the model did not read to the end, and the words are
    those of ``document`` from ``start`` on, ``LONGEST_COUNTED`` code points at most and never less
    than the chunk has.
    """
    if not truncated:
        return text
    return document[start : start + max(len(text), LONGEST_COUNTED)]
