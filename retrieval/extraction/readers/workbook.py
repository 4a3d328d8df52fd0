"""Workbooks of Excel 2007 and later: a section for each sheet, its rows as lines.

Hidden sheets, rows and columns are read too; cell comments are left out. A formula is what it
came to; one that no program has computed yet stands as it is written.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from retrieval.extraction.archives import Archive, BrokenArchive
from retrieval.extraction.reader import Reading
from retrieval.extraction.readers import xml
from retrieval.extraction.readers.drawings import drawn_texts, lines
from retrieval.extraction.readers.number_formats import BUILT_IN, Format, number_format
from retrieval.extraction.readers.xml import Element
from retrieval.extraction.results import Damaged, TextTooLarge

MOST_BYTES = 160 * 1024 * 1024
_MOST_COLUMNS = 16_384
_MOST_LETTERS = 4
_ESCAPED = re.compile(r"_x([0-9a-fA-F]{4})_")
_NOTES = ("comments", "threadedComment")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Book:
    """What the cells of all sheets refer to."""

    strings: list[str]
    # How each style of cells shows numbers
    formats: list[Format]


def read_workbook(content: bytes, reading: Reading) -> None:
    """Read every sheet, in the order of their tabs."""
    try:
        archive = Archive(content)
    except BrokenArchive as error:
        raise Damaged(f"The workbook cannot be opened: {error}.") from error
    check_size(archive)
    main = next(
        (name for kind, name in xml.relations(archive, "").values() if kind == "officeDocument"),
        "xl/workbook.xml",
    )
    root = xml.parse(archive.read(main, most=MOST_BYTES), main)
    related = xml.relations(archive, main)
    parts = dict(related.values())
    properties = xml.first(root, "workbookPr")
    first_year = None if properties is None else xml.attribute(properties, "date1904")
    codes = _format_codes(archive, parts.get("styles", ""))
    book = _Book(
        strings=list(_strings(archive, parts.get("sharedStrings", ""))),
        formats=[number_format(code, from_1904=first_year in ("1", "true")) for code in codes],
    )
    for sheet in root.iter("{*}sheet"):
        _, part = related.get(xml.qualified(sheet, "id"), ("", ""))
        if part in archive.names:
            reading.outline.leave(1)
            reading.outline.heading(1, sheet.get("name", ""), shown=False)
            _write_sheet(archive, part, book, reading)


def check_size(archive: Archive) -> None:
    """Raise TextTooLarge for a workbook that unfolds to more than is read."""
    if archive.whole_size > MOST_BYTES:
        raise TextTooLarge(
            f"The workbook unfolds to more than the {MOST_BYTES // 1024**2} MiB that are "
            "read: split it, or save the sheets that matter as CSV."
        )


def _strings(archive: Archive, part: str) -> Iterator[str]:
    if part in archive.names:
        for item in xml.ended(archive.read(part, most=MOST_BYTES), ("si",), part):
            yield _text(item)


def _text(item: Element) -> str:
    """Return the text of a string with its runs, without how Japanese is pronounced."""
    parts = [
        element.text or ""
        for element in item.iter("{*}t")
        if (parent := element.getparent()) is not None and xml.name(parent) != "rPh"
    ]
    return _unescaped("".join(parts))


def _unescaped(text: str) -> str:
    """Return a text with the characters that XML cannot hold, which stand as UTF-16 in it."""
    if "_x" not in text:
        return text
    units = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _format_codes(archive: Archive, part: str) -> Iterator[str]:
    """Yield the code of the number format of each style of cells."""
    content = archive.find(part) if part else None
    if content is None:
        return
    root = xml.parse(content, part)
    codes = {
        element.get("numFmtId", ""): element.get("formatCode", "")
        for element in root.iter("{*}numFmt")
    }
    styles = xml.first(root, "cellXfs")
    for style in () if styles is None else styles:
        number = style.get("numFmtId", "0")
        yield codes.get(number) or BUILT_IN.get(int(number) if number.isdecimal() else 0, "")


def _write_sheet(archive: Archive, part: str, book: _Book, reading: Reading) -> None:
    outline = reading.outline
    rows: list[tuple[int, list[str]]] = []
    size = 0
    for row in xml.ended(archive.read(part, most=MOST_BYTES), ("row",), part):
        first, cells = _cells(row, book)
        if cells:
            rows.append((first, cells))
            size += first + len(cells) + sum(map(len, cells))
            if size > outline.left:
                break
    indent = min((first for first, _ in rows), default=0)
    outline.block("\n".join("\t" * (first - indent) + "\t".join(cells) for first, cells in rows))
    related = xml.relations(archive, part)
    for kind, target in related.values():
        if kind == "drawing" and target in archive.names:
            _write_drawing(archive, target, reading)
        elif kind in _NOTES:
            reading.notices.append("The workbook has cell comments; they were left out.")


def _cells(row: Element, book: _Book) -> tuple[int, list[str]]:
    """Return the column of the first cell that is not empty, and the texts from there on."""
    first, cells, column = 0, list[str](), -1
    for cell in row:
        column = _column(cell.get("r", ""), column + 1)
        text = " ".join(_shown(cell, book).split())
        if not text or not 0 <= column < _MOST_COLUMNS or len(cells) >= _MOST_COLUMNS:
            continue
        if not cells:
            first = column
        elif column > first + len(cells):
            cells += [""] * (column - first - len(cells))
        cells.append(text)
    return first, cells


def _column(place: str, following: int) -> int:
    """Return the column of a cell's place, from 0; one without a place follows the one before."""
    letters = place.rstrip("0123456789")
    return _number_of(letters) if letters else following


@functools.lru_cache(maxsize=_MOST_COLUMNS)
def _number_of(letters: str) -> int:
    column = 0
    for letter in letters.upper()[:_MOST_LETTERS]:
        column = 26 * column + ord(letter) - ord("A") + 1
    return column - 1


def _shown(cell: Element, book: _Book) -> str:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return _text(cell)
    value = formula = ""
    for child in cell:
        name = xml.name(child)
        if name == "v":
            value = child.text or ""
        elif name == "f":
            formula = child.text or ""
    if not value:
        return f"={formula}" if formula and kind != "str" else ""
    if kind == "s":
        at = int(value) if value.isdecimal() else -1
        return book.strings[at] if 0 <= at < len(book.strings) else ""
    if kind == "b":
        return "TRUE" if value == "1" else "FALSE"
    if kind == "n":
        style = cell.get("s", "0")
        at = int(style) if style.isdecimal() else 0
        return (book.formats[at] if at < len(book.formats) else number_format(""))(value)
    return _unescaped(value)


def _write_drawing(archive: Archive, part: str, reading: Reading) -> None:
    root = xml.parse(archive.read(part), part)
    for shape in root.iter("{*}sp"):
        # What older programs are told instead: "This shape represents a slicer"
        if next(shape.iterancestors("{*}Fallback"), None) is None:
            reading.outline.block("\n".join(lines(shape)))
    for text in drawn_texts(archive, root, xml.relations(archive, part)):
        reading.outline.block(text)
