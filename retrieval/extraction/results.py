"""What an extraction gives: segments of normalised text, or a failure that a person understands."""

from __future__ import annotations

from dataclasses import dataclass

from retrieval.segments import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """A document's text; ``notices`` are sentences about what was left out or guessed."""

    segments: tuple[Segment, ...]
    notices: tuple[str, ...]
    # How many pages or slides the document has; None for formats that have none
    pages: int | None


class ExtractionFailed(Exception):
    """The document's text could not be had; ``code`` is stable, ``sentence`` is for people."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


class PasswordRequired(ExtractionFailed):
    """The document cannot be read without a password."""

    def __init__(self) -> None:
        super().__init__(
            "extraction.password_required",
            "The document is protected by a password: upload a copy without one.",
        )


class NoText(ExtractionFailed):
    """The document was read and holds no text."""

    def __init__(self, sentence: str = "The document holds no text.") -> None:
        super().__init__("extraction.no_text", sentence)


class Damaged(ExtractionFailed):
    """The bytes are not a whole document of their kind."""

    def __init__(self, sentence: str) -> None:
        super().__init__("extraction.damaged", sentence)


class TextTooLarge(ExtractionFailed):
    """Reading the document would take more memory, or give more text, than is allowed."""

    def __init__(self, sentence: str) -> None:
        super().__init__("extraction.too_large", sentence)
