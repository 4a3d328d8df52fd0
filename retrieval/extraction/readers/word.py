"""Word documents: paragraphs, lists, tables, text boxes and notes, under their headings.

Deleted text of tracked changes, comments, hidden text, running heads and tables of contents are
left out. Word has no pages before it lays the document out, so there are none here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from retrieval.extraction.archives import MOST_PART_BYTES, Archive, BrokenArchive
from retrieval.extraction.outline import Outline
from retrieval.extraction.reader import Reading
from retrieval.extraction.readers import html, mail, xml
from retrieval.extraction.readers.drawings import drawn_texts
from retrieval.extraction.readers.text import decoded_text
from retrieval.extraction.readers.xml import Element
from retrieval.extraction.results import Damaged
from retrieval.extraction.tables import table_text

_HEADING_STYLE = re.compile(r"heading (\d)")
_TITLE_LEVEL = 0
_BODY_LEVEL = 9
# Styles that look like the title and name something else
_BESIDE_TITLE = ("subtitle", "author", "date", "abstract", "affiliation")
_SKIPPED = frozenset(
    ("del", "moveFrom", "Fallback", "instrText", "delText", "rt", "pPr", "rPr", "tblPr", "trPr")
)
_CHARACTERS = {
    "tab": "\t",
    "ptab": "\t",
    "br": "\n",
    "cr": "\n",
    "noBreakHyphen": "-",
    "softHyphen": "",
}
_OFF = ("0", "false", "off")
# Word has 63 columns
_MOST_SPAN = 100


def read_word(content: bytes, reading: Reading) -> None:
    """Read a document of Word 2007 and later, of either dialect."""
    try:
        archive = Archive(content)
    except BrokenArchive as error:
        raise Damaged(f"The document cannot be opened: {error}.") from error
    part = _main_part(archive)
    relations = xml.relations(archive, part)
    related = dict(relations.values())
    writer = _Writer(
        reading.outline,
        foreign=_Foreign(archive, relations, reading),
        levels=_style_levels(archive, related.get("styles", "word/styles.xml")),
        notes=dict(_notes(archive, related)),
    )
    for child in xml.children_of(archive.read(part, most=2 * MOST_PART_BYTES), "body", part):
        writer.write(child)
    writer.end()
    if reading.outline.is_empty:
        _write_running_heads(archive, relations, writer)
    if _has_comments(archive, related.get("comments", "")):
        reading.notices.append("The document has review comments; they were left out.")


def _main_part(archive: Archive) -> str:
    for kind, name in xml.relations(archive, "").values():
        if kind == "officeDocument":
            return name
    return "word/document.xml"


def _write_running_heads(
    archive: Archive, relations: dict[str, tuple[str, str]], writer: _Writer
) -> None:
    """Write heads and feet: of a document that is nothing else, they are the text."""
    for kind, part in relations.values():
        if kind in ("header", "footer") and part in archive.names:
            for child in xml.parse(archive.read(part), part):
                writer.write(child)
            writer.end()


def _has_comments(archive: Archive, part: str) -> bool:
    content = archive.find(part) if part else None
    return content is not None and any(
        xml.name(child) == "comment" for child in xml.parse(content, part)
    )


def _style_levels(archive: Archive, part: str) -> dict[str, int | None]:
    """Return style id → heading level (0 for the title), None for entries of a contents list."""
    content = archive.find(part)
    if content is None:
        return {}
    own: dict[str, int | None] = {}
    based_on: dict[str, str] = {}
    for style in xml.parse(content, part):
        key = xml.attribute(style, "styleId")
        if xml.name(style) != "style" or key is None:
            continue
        title = (_value(xml.first(style, "name")) or "").lower()
        heading = _HEADING_STYLE.fullmatch(title)
        level = _value(xml.first(style, "pPr", "outlineLvl"))
        if heading:
            own[key] = int(heading[1])
        elif title == "title":
            own[key] = _TITLE_LEVEL
        elif title in _BESIDE_TITLE:
            own[key] = _BODY_LEVEL + 1
        elif re.fullmatch(r"toc \d", title):
            own[key] = None
        elif level is not None and level.isdecimal():
            own[key] = int(level) + 1
        based_on[key] = _value(xml.first(style, "basedOn")) or ""
    return {key: _inherited(key, own, based_on) for key in based_on}


def _inherited(key: str, own: dict[str, int | None], based_on: dict[str, str]) -> int | None:
    seen = set[str]()
    while key and key not in seen:
        if key in own:
            return own[key]
        seen.add(key)
        key = based_on.get(key, "")
    return _BODY_LEVEL + 1


def _notes(archive: Archive, related: dict[str, str]) -> Iterator[tuple[tuple[str, str], str]]:
    for kind in ("footnote", "endnote"):
        part = related.get(kind + "s")
        content = archive.find(part) if part else None
        if part is None or content is None:
            continue
        for note in xml.children_of(content, kind + "s", part):
            key = xml.attribute(note, "id")
            if key is not None and xml.attribute(note, "type") in (None, "normal"):
                yield (kind, key), " ".join(_text(part) for part in _paragraphs(note)).strip()


class _Foreign:
    """Parts of other kinds that stand in the document: HTML, saved web pages, charts, diagrams."""

    def __init__(
        self, archive: Archive, relations: dict[str, tuple[str, str]], reading: Reading
    ) -> None:
        self._archive = archive
        self._relations = relations
        self._reading = reading

    def drawn_texts(self, element: Element) -> Iterator[str]:
        """Yield the text of the charts and diagrams in a paragraph."""
        return drawn_texts(self._archive, element, self._relations)

    def write(self, chunk: Element) -> None:
        """Write the part that an ``altChunk`` refers to; one of another format is named."""
        _, part = self._relations.get(xml.attribute(chunk, "id") or "", ("", ""))
        content = self._archive.find(part) if part else None
        if content is None:
            return
        extension = part.rpartition(".")[2].lower()
        if extension in ("html", "htm", "xhtml"):
            html.write_source(content, self._reading)
        elif extension in ("mht", "mhtml"):
            mail.write_body(content, self._reading)
        elif extension == "txt":
            self._reading.outline.block(decoded_text(content, self._reading))
        else:
            self._reading.notices.append(
                f"The embedded document {part!r} was not read: upload it by itself."
            )


class _Writer:
    def __init__(
        self,
        outline: Outline,
        *,
        foreign: _Foreign,
        levels: dict[str, int | None],
        notes: dict[tuple[str, str], str],
    ) -> None:
        self._outline = outline
        self._foreign = foreign
        self._levels = levels
        self._notes = notes
        self._items: list[str] = []

    def write(self, element: Element) -> None:
        kind = xml.name(element)
        if kind == "p":
            self._paragraph(element)
        elif kind == "tbl":
            self._table(element)
        elif kind == "altChunk":
            self.end()
            self._foreign.write(element)
        elif kind not in _SKIPPED and kind != "sectPr":
            for child in element:
                self.write(child)

    def end(self) -> None:
        if self._items:
            self._outline.block("\n".join(self._items))
        self._items = []

    def _paragraph(self, paragraph: Element) -> None:
        level = self._level(paragraph)
        text = _text(paragraph)
        if level is None:
            return
        if level <= _BODY_LEVEL and text.strip():
            self.end()
            self._outline.heading(level, text)
        elif text.strip() and xml.first(paragraph, "pPr", "numPr") is not None:
            depth = _value(xml.first(paragraph, "pPr", "numPr", "ilvl")) or "0"
            indent = "  " * min(int(depth) if depth.isdecimal() else 0, 8)
            self._items.append(f"{indent}- {text.strip()}")
        else:
            self.end()
            self._outline.block(text)
        boxes = list(_boxes(paragraph))
        # Those in boxes come with their paragraphs
        further = [] if boxes else list(self._foreign.drawn_texts(paragraph))
        further += self._notes_of(paragraph)
        if boxes or further:
            self.end()
        for box in boxes:
            for child in box:
                self.write(child)
        for text in further:
            self._outline.block(text)

    def _level(self, paragraph: Element) -> int | None:
        own = _value(xml.first(paragraph, "pPr", "outlineLvl"))
        if own is not None and own.isdecimal():
            return int(own) + 1
        style = _value(xml.first(paragraph, "pPr", "pStyle"))
        return self._levels.get(style or "", _BODY_LEVEL + 1)

    def _notes_of(self, paragraph: Element) -> Iterator[str]:
        for element in paragraph.iter():
            kind = xml.name(element)
            if kind in ("footnoteReference", "endnoteReference"):
                key = (kind.removesuffix("Reference"), xml.attribute(element, "id") or "")
                if note := self._notes.get(key):
                    yield f"Note: {note}"

    def _table(self, table: Element) -> None:
        self.end()
        if _is_layout(table):
            for cell in _named(table, "tc"):
                for child in cell:
                    self.write(child)
                self.end()
            return
        rows = [row for row in _named(table, "tr") if xml.first(row, "trPr", "del") is None]
        cells = [list(_row(row)) for row in rows]
        header = len(rows) > 1 and xml.first(rows[0], "trPr", "tblHeader") is not None
        self._outline.block(table_text(cells, has_header=header))
        for text in (*self._foreign.drawn_texts(table), *self._notes_of(table)):
            self._outline.block(text)


def _is_layout(table: Element) -> bool:
    """Tell a table of one cell, which is a frame round its text, from a table of data."""
    cells = list(_named(table, "tc"))
    return len(cells) == 1


def _row(row: Element) -> Iterator[str]:
    """Yield the cells of a row, empty ones where a cell is wider than a column."""
    yield from [""] * _count(xml.first(row, "trPr", "gridBefore"))
    for cell in _named(row, "tc"):
        yield _cell_text(cell)
        yield from [""] * (_count(xml.first(cell, "tcPr", "gridSpan")) - 1)


def _count(element: Element | None) -> int:
    value = _value(element) or "0"
    return min(int(value), _MOST_SPAN) if value.isdecimal() else 0


def _cell_text(cell: Element) -> str:
    parts = []
    for child in _blocks(cell):
        if xml.name(child) == "p":
            parts.append(_text(child))
            parts += [_cell_text(box) for box in _boxes(child)]
        else:
            rows = [
                " ".join(_cell_text(part) for part in _named(row, "tc"))
                for row in _named(child, "tr")
            ]
            parts.append("; ".join(row.strip() for row in rows))
    return " ".join(part for part in parts if part.strip())


def _named(element: Element, wanted: str) -> Iterator[Element]:
    """Yield the nearest descendants of a name, through containers but not through each other."""
    for child in element:
        kind = xml.name(child)
        if kind == wanted:
            yield child
        elif kind not in _SKIPPED and kind not in ("p", "tbl"):
            yield from _named(child, wanted)


def _blocks(element: Element) -> Iterator[Element]:
    for child in element:
        kind = xml.name(child)
        if kind in ("p", "tbl"):
            yield child
        elif kind not in _SKIPPED:
            yield from _blocks(child)


def _paragraphs(element: Element) -> Iterable[Element]:
    return (part for part in element.iter() if xml.name(part) == "p")


def _boxes(paragraph: Element) -> Iterator[Element]:
    for child in paragraph:
        kind = xml.name(child)
        if kind == "txbxContent":
            yield child
        elif kind not in _SKIPPED:
            yield from _boxes(child)


def _text(element: Element) -> str:
    """Return an element's text without that of text boxes, which are blocks of their own."""
    parts: list[str] = []
    for child in element:
        kind = xml.name(child)
        if kind == "t":
            parts.append(child.text or "")
        elif kind in _CHARACTERS:
            parts.append(_CHARACTERS[kind])
        elif kind == "sym":
            parts.append(_symbol(child))
        elif kind == "r" and _is_hidden(child):
            continue
        elif kind not in _SKIPPED and kind != "txbxContent":
            parts.append(_text(child))
    return "".join(parts)


def _is_hidden(run: Element) -> bool:
    vanish = xml.first(run, "rPr", "vanish")
    return vanish is not None and _value(vanish) not in _OFF


def _symbol(element: Element) -> str:
    code = xml.attribute(element, "char") or ""
    try:
        return chr(int(code, 16))
    except (ValueError, OverflowError):
        return ""


def _value(element: Element | None) -> str | None:
    return None if element is None else xml.attribute(element, "val")
