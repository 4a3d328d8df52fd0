"""What a reader is given to write to."""

from __future__ import annotations

from dataclasses import dataclass, field

from retrieval.extraction.ocr import Ocr
from retrieval.extraction.outline import Outline


@dataclass(slots=True, kw_only=True)
class Reading:
    """A document while it is read: its text so far, and what should be said about it."""

    outline: Outline
    # How to read pages that are pictures; None leaves them
    ocr: Ocr | None = None
    notices: list[str] = field(default_factory=list)
    pages: int | None = None
    # The sentence to fail with when no text was found
    why_empty: str = ""
