"""What extraction hands to chunking: a document's text in its order, with where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SEPARATOR = "\n\n"


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
