"""Collects a document's blocks in order and cuts them where page or heading path changes."""

from __future__ import annotations

from retrieval.extraction.normalisation import normalise, one_line
from retrieval.extraction.results import TextTooLarge
from retrieval.segments import SEPARATOR, Segment

PATH_SEPARATOR = " > "
_HEADING_LENGTH = 200


class Outline:
    """What readers write to: pages, headings and blocks of text, in the order of the document.

    A heading's own words open the text under it. A heading directly followed by a deeper one
    has no text of its own: its words open the deeper one's text.
    """

    def __init__(self, *, most_characters: int) -> None:
        self._segments: list[Segment] = []
        self._path: list[tuple[int, str]] = []
        self._headings: list[str] = []
        self._blocks: list[str] = []
        self._page: int | None = None
        self._most = self._left = most_characters

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been written yet."""
        return not (self._segments or self._headings or self._blocks)

    @property
    def left(self) -> int:
        """How many characters can still be written."""
        return self._left

    @property
    def path(self) -> tuple[str, ...]:
        """The headings that the next block stands under."""
        return tuple(title for _, title in self._path)

    def page(self, number: int) -> None:
        """Begin a page (1-based); the heading path goes on."""
        if number != self._page:
            self._cut()
            self._page = number

    def heading(self, level: int, text: str, *, shown: bool = True) -> None:
        """Begin a section: a smaller level is higher; ``shown=False`` adds it to the path only."""
        title = one_line(text)
        if not title:
            return
        if self._blocks:
            self._cut()
        self.leave(level)
        self._path.append((level, _shortened(title)))
        if shown:
            self._count(title)
            self._headings.append(title)

    def leave(self, level: int) -> None:
        """End the sections of this level and below it."""
        if self._path and self._path[-1][0] >= level:
            self._cut()
        while self._path and self._path[-1][0] >= level:
            self._path.pop()

    def block(self, text: str) -> None:
        """Add a paragraph, a list, a table or a code block."""
        text = normalise(text)
        if not text.strip():
            return
        self._count(text)
        self._blocks.append(text)

    def finish(self) -> tuple[Segment, ...]:
        """Return the segments; nothing can be added afterwards."""
        self._cut()
        return tuple(self._segments)

    def _cut(self) -> None:
        parts = self._headings + self._blocks
        if parts:
            section = PATH_SEPARATOR.join(self.path) or None
            text = SEPARATOR.join(parts)
            self._segments.append(Segment(page=self._page, section=section, text=text))
        self._headings, self._blocks = [], []

    def _count(self, text: str) -> None:
        self._left -= len(text)
        if self._left < 0:
            raise TextTooLarge(
                f"The document unfolds to more than {self._most:,} characters, the most for a file "
                "of its size: split it, or remove what is not text."
            )


def _shortened(title: str) -> str:
    return title if len(title) <= _HEADING_LENGTH else title[: _HEADING_LENGTH - 1].rstrip() + "…"
