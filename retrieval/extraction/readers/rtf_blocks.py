"""The text of a Rich Text document in reading order: headings, lists, tables, notes.

A note stands after the paragraph that it is in, the items of a list in one block.
"""

from __future__ import annotations

import re

from retrieval.extraction.outline import Outline
from retrieval.extraction.tables import table_text

_NUMBER = re.compile(r"\w+[.)]")


class Blocks:
    """Takes text as it comes and writes it to the outline where paragraphs and rows end.

    Between ``open`` and ``close`` text belongs to a note or to the marker of a list item; the
    ends of paragraphs in it are spaces.
    """

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._parts: list[list[str]] = [[]]
        self._marker: str | None = None
        self._notes: list[str] = []
        self._items: list[str] = []
        self._cells: list[str] = []
        self._rows: list[list[str]] = []

    def write(self, text: str) -> None:
        self._parts[-1].append(text)

    def open(self) -> None:
        """Begin a note or the marker of a list item."""
        self._parts.append([])

    def close(self, target: str) -> None:
        """End what was opened, as a ``note`` or a ``marker``; a ``paragraph`` ends by itself."""
        if target == "paragraph" or len(self._parts) < 2:
            return
        text = _joined(self._parts.pop()).strip()
        if target == "marker":
            number = _NUMBER.fullmatch(text)
            self._marker = f"{text} " if number else "- "
        elif text:
            self._notes.append(f"Note: {' '.join(text.split())}")

    def paragraph(self, *, level: int | None, in_table: bool) -> None:
        """End a paragraph: a heading of ``level`` (0 is the title) or, without one, of the text."""
        if len(self._parts) > 1:
            self._parts[-1].append(" ")
            return
        if in_table:
            self._parts[0].append("\n")
            return
        text = _joined(self._parts[0])
        self._parts[0] = []
        marker, self._marker = self._marker, None
        if not text.strip():
            return
        self._end_table()
        if level is not None:
            self._end_list()
            self._outline.heading(level, text)
        elif marker is not None:
            self._items.append(marker + text.strip())
        else:
            self._end_list()
            self._outline.block(text.strip())
        self._write_notes()

    def table(self, word: str) -> None:
        """End a cell or a row; a cell of a table in a cell goes on in the outer one."""
        if len(self._parts) > 1:
            return
        if word == "nestcell":
            self._parts[0].append("; ")
        elif word == "cell":
            self._cells.append(_joined(self._parts[0]))
            self._parts[0] = []
        elif self._cells:
            self._end_list()
            self._rows.append(self._cells)
            self._cells = []
        self._marker = None

    def end(self) -> None:
        """Write what is still open, as at the end of a document that breaks off."""
        while len(self._parts) > 1:
            self.close("note")
        if self._cells:
            self.table("row")
        self.paragraph(level=None, in_table=False)
        self._end_table()
        self._end_list()
        self._write_notes()

    def _end_table(self) -> None:
        if self._rows:
            self._outline.block(table_text(self._rows))
            self._rows = []
            self._write_notes()

    def _end_list(self) -> None:
        if self._items:
            self._outline.block("\n".join(self._items))
            self._items = []

    def _write_notes(self) -> None:
        if self._notes and self._items:
            self._end_list()
        for note in self._notes:
            self._outline.block(note)
        self._notes = []


def _joined(parts: list[str]) -> str:
    """Return the text; characters beyond the first plane come as two halves."""
    text = "".join(parts)
    if any("\ud800" <= character <= "\udfff" for character in text):
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
