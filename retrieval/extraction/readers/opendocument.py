"""OpenDocument texts, presentations and spreadsheets, as LibreOffice writes them."""

from __future__ import annotations

from collections.abc import Iterator

from retrieval.extraction.archives import Archive, BrokenArchive
from retrieval.extraction.outline import Outline
from retrieval.extraction.reader import Reading
from retrieval.extraction.readers import xml
from retrieval.extraction.readers.slides import NOTES
from retrieval.extraction.readers.workbook import MOST_BYTES, check_size
from retrieval.extraction.readers.xml import Element
from retrieval.extraction.results import Damaged, PasswordRequired
from retrieval.extraction.tables import table_text

_CONTENT = "content.xml"
# Deleted text, contents lists and indexes (which repeat headings), comments
_SKIPPED = frozenset(
    (
        "tracked-changes",
        "table-of-content",
        "alphabetical-index",
        "illustration-index",
        "table-index",
        "annotation",
        "forms",
        "sequence-decls",
        "ruby-text",
        "desc",
        "title",
    )
)
_MOST_SPACES = 100
_MOST_COLUMNS = 1000
_CELLS = ("table-cell", "covered-table-cell")
# Of a row that is said to stand there a million times
_MOST_REPEATED = 1000


def read_text(content: bytes, reading: Reading) -> None:
    """Read an OpenDocument text: headings, paragraphs, lists, tables, notes."""
    archive = _open(content)
    for child in xml.children_of(archive.read(_CONTENT), "text", _CONTENT):
        _write(child, reading.outline, 0)


def read_slides(content: bytes, reading: Reading) -> None:
    """Read an OpenDocument presentation: a page for each slide, speaker notes after it."""
    archive = _open(content)
    outline = reading.outline
    pages = 0
    for slide in xml.children_of(archive.read(_CONTENT), "presentation", _CONTENT):
        if xml.name(slide) != "page":
            continue
        pages += 1
        outline.page(pages)
        outline.leave(1)
        frames = [child for child in slide if xml.name(child) != "notes"]
        titles = [frame for frame in frames if xml.attribute(frame, "class") == "title"]
        for title in titles[:1]:
            outline.heading(1, " ".join(_paragraphs(title)))
        for frame in frames:
            if frame not in titles[:1]:
                _write(frame, outline, 0)
        notes = xml.first(slide, "notes")
        texts = [] if notes is None else list(_paragraphs(notes))
        if texts:
            outline.heading(2, NOTES)
            outline.block("\n".join(texts))
    reading.pages = pages


def read_sheets(content: bytes, reading: Reading) -> None:
    """Read a spreadsheet: a section for each sheet, its rows as lines of what the cells show."""
    archive = _open(content)
    check_size(archive)
    outline = reading.outline
    lines: list[str] = []
    size = 0
    content_part = archive.read(_CONTENT, most=MOST_BYTES)
    for element in xml.ended(content_part, ("table-row", "table"), _CONTENT):
        if xml.name(element) == "table-row":
            count = min(_count(element, "number-rows-repeated"), _MOST_REPEATED)
            line = "\t".join(_sheet_row(element)).rstrip("\t")
            lines += [line] * count if line else []
            size += count * len(line)
        if xml.name(element) == "table" or size > outline.left:
            outline.leave(1)
            outline.heading(1, xml.attribute(_sheet_of(element), "name") or "", shown=False)
            indent = min((len(line) - len(line.lstrip("\t")) for line in lines), default=0)
            outline.block("\n".join(line[indent:] for line in lines))
            lines, size = [], 0


def _sheet_of(element: Element) -> Element:
    return next(iter(element.iterancestors("{*}table")), element)


def _sheet_row(row: Element) -> Iterator[str]:
    for cell in row:
        if xml.name(cell) in _CELLS:
            shown = " ".join(_paragraphs(cell)) or xml.attribute(cell, "value") or ""
            count = min(_count(cell, "number-columns-repeated"), _MOST_COLUMNS)
            yield from [" ".join(shown.split())] * count


def _open(content: bytes) -> Archive:
    try:
        archive = Archive(content)
    except BrokenArchive as error:
        raise Damaged(f"The document cannot be opened: {error}.") from error
    manifest = archive.find("META-INF/manifest.xml") or b""
    if b"encryption-data" in manifest:
        raise PasswordRequired
    return archive


def _write(element: Element, outline: Outline, depth: int) -> None:
    kind = xml.name(element)
    if kind in _SKIPPED:
        return
    if kind == "h":
        level = xml.attribute(element, "outline-level") or "1"
        outline.heading(int(level) if level.isdecimal() else 1, _text(element))
        _write_inside(element, outline, depth)
    elif kind == "p" and xml.attribute(element, "style-name") == "Title":
        outline.heading(0, _text(element))
        _write_inside(element, outline, depth)
    elif kind == "p":
        outline.block(_text(element))
        _write_inside(element, outline, depth)
    elif kind == "list":
        outline.block("\n".join(_items(element, 0)))
        _write_inside(element, outline, depth)
    elif kind == "table":
        outline.block(_table(element))
    else:
        for child in element:
            _write(child, outline, depth + 1)


def _write_inside(paragraph: Element, outline: Outline, depth: int) -> None:
    """Write what hangs on a paragraph or a list: footnotes and the text of frames."""
    for element in paragraph.iter():
        kind = xml.name(element)
        if kind == "note-body":
            outline.block("Note: " + " ".join(_paragraphs(element)))
        elif kind == "text-box":
            for child in element:
                _write(child, outline, depth + 1)


def _items(element: Element, depth: int) -> Iterator[str]:
    for item in element:
        for number, child in enumerate(item):
            kind = xml.name(child)
            if kind == "list":
                yield from _items(child, depth + 1)
            elif kind in ("p", "h"):
                yield "  " * depth + ("  " if number else "- ") + _text(child)


def _table(table: Element) -> str:
    rows: list[list[str]] = []
    headers = 0
    for row in _rows(table):
        cells: list[str] = []
        for cell in row:
            if xml.name(cell) not in _CELLS:
                continue
            text = " ".join(_paragraphs(cell))
            cells += [text] * min(_count(cell, "number-columns-repeated"), _MOST_COLUMNS)
        rows.append(cells)
        parent = row.getparent()
        headers += parent is not None and xml.name(parent) == "table-header-rows"
    return table_text(rows, has_header=headers > 0)


def _count(element: Element, name: str) -> int:
    """Return how often a row or cell stands there."""
    repeated = xml.attribute(element, name) or "1"
    return int(repeated) if repeated.isdecimal() and len(repeated) < 9 else 1


def _rows(element: Element) -> Iterator[Element]:
    for child in element:
        kind = xml.name(child)
        if kind == "table-row":
            yield child
        elif kind in ("table-header-rows", "table-rows", "table-row-group"):
            yield from _rows(child)


def _paragraphs(element: Element) -> Iterator[str]:
    for part in element:
        kind = xml.name(part)
        if kind in _SKIPPED:
            continue
        if kind in ("p", "h") and (text := _text(part)).strip():
            yield text
        yield from _paragraphs(part)


def _text(element: Element) -> str:
    parts = [element.text or ""]
    for child in element:
        kind = xml.name(child)
        if kind == "s":
            count = xml.attribute(child, "c") or "1"
            parts.append(" " * min(int(count) if count.isdecimal() else 1, _MOST_SPACES))
        elif kind == "tab":
            parts.append("\t")
        elif kind == "line-break":
            parts.append("\n")
        elif kind not in _SKIPPED and kind not in ("note", "frame"):
            parts.append(_text(child))
        parts.append(child.tail or "")
    return "".join(parts)
