"""PDF: the text of every page, with sections from bookmarks or, without any, from sizes of type."""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pypdfium2  # type: ignore[import-untyped]
from pypdfium2 import raw

from retrieval.extraction.outline import Outline
from retrieval.extraction.reader import Reading
from retrieval.extraction.readers.pdf_layout import (
    HeadingSizes,
    Line,
    join_broken_words,
    paragraphs,
)
from retrieval.extraction.results import Damaged, PasswordRequired, TextTooLarge

_MOST_PAGES = 20_000
_MOST_BOOKMARKS = 5_000
_DEEPEST_BOOKMARK = 8
_ALEFS = "اأإآٱ"
_LAM = "ل"
_ARABIC = re.compile("[\u0600-\u06ff\ufb50-\ufdff\ufe70-\ufefc]")
_REVERSED_LIGATURE = re.compile(f"[{_ALEFS}]{_LAM}")
# The bidirectional order of a line loses the space where Latin ends and Arabic goes on
_LOST_SPACE = re.compile("(?<=[A-Za-z])(?=[\u0621-\u064a])")


# What a file with pages must hold, in the open or inside a stream of objects
_PAGE = re.compile(rb"/Type\s*/Page\b|/ObjStm\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bookmark:
    level: int
    title: str
    # Where on the page it points to, in points from below; None for the whole page
    top: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    lines: tuple[Line, ...]
    # What is written into the page's form, as further lines
    fields: tuple[str, ...]
    is_blank: bool


def read_pdf(content: bytes, reading: Reading) -> None:
    """Read a PDF file; pages without text and pages that cannot be read become notices."""
    document = _open(content)
    count = len(document)
    if count > _MOST_PAGES:
        raise TextTooLarge(f"The document has {count:,} pages; {_MOST_PAGES:,} can be read.")
    pages = [_read_page(document, number) for number in range(count)]
    bookmarks = _bookmarks(document, count)
    _say_what_is_missing(pages, content, reading)
    reading.pages = count
    texts = _with_joined_words([page.lines if page else () for page in pages])
    sizes = HeadingSizes([] if bookmarks else texts)
    for number, (page, lines) in enumerate(zip(pages, texts, strict=True)):
        reading.outline.page(number + 1)
        if bookmarks:
            _write_by_bookmarks(lines, bookmarks.get(number, []), reading.outline)
        else:
            _write_by_size(lines, sizes, reading.outline)
        if page is not None and page.fields:
            reading.outline.block("\n".join(page.fields))


def _open(content: bytes) -> pypdfium2.PdfDocument:
    try:
        return pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        if raw.FPDF_GetLastError() == raw.FPDF_ERR_PASSWORD or "password" in str(error).lower():
            raise PasswordRequired from error
        raise Damaged("The PDF file is damaged: it cannot be opened.") from error


def _read_page(document: pypdfium2.PdfDocument, number: int) -> _Page | None:
    try:
        page = document[number]
        text_page = page.get_textpage()
    except pypdfium2.PdfiumError:
        return None
    try:
        text = text_page.get_text_range() if text_page.count_chars() else ""
        is_blank = raw.FPDFPage_CountObjects(page) == 0
        lines = tuple(_lines(text_page, text))
        return _Page(lines=lines, fields=tuple(_fields(page)), is_blank=is_blank)
    finally:
        text_page.close()
        page.close()


def _lines(text_page: pypdfium2.PdfTextPage, text: str) -> Iterator[Line]:
    has_places = text_page.count_chars() == len(text)
    if has_places and _ARABIC.search(text):
        text = _with_ligatures_in_order(text_page, text)
    at = 0
    for line in text.split("\r\n"):
        shown = _LOST_SPACE.sub(" ", line.strip())
        if shown:
            begin = at + len(line) - len(line.lstrip())
            end = at + len(line.rstrip()) - 1
            yield _line(text_page, shown, begin, end) if has_places else _unplaced(shown)
        at += len(line) + 2


def _line(text_page: pypdfium2.PdfTextPage, text: str, begin: int, end: int) -> Line:
    left, first_base = _origin(text_page, begin)
    right, last_base = _origin(text_page, end)
    _, bottom, _, top = text_page.get_charbox(begin, loose=True)
    if right < left:
        left, right = -left, -right
    return Line(
        text=text,
        left=left,
        right=right,
        first_base=first_base,
        last_base=last_base,
        height=abs(top - bottom),
    )


def _unplaced(text: str) -> Line:
    return Line(text=text, left=0, right=0, first_base=0, last_base=0, height=0)


def _origin(text_page: pypdfium2.PdfTextPage, index: int) -> tuple[float, float]:
    x, y = ctypes.c_double(), ctypes.c_double()
    raw.FPDFText_GetCharOrigin(text_page, index, x, y)
    return x.value, y.value


def _with_ligatures_in_order(text_page: pypdfium2.PdfTextPage, text: str) -> str:
    """Put lam before alef again where both come of one glyph: PDFium turns them round."""
    characters = list(text)
    for match in _REVERSED_LIGATURE.finditer(text):
        at = match.start()
        if _origin(text_page, at) == _origin(text_page, at + 1):
            characters[at], characters[at + 1] = characters[at + 1], characters[at]
    return "".join(characters)


def _fields(page: pypdfium2.PdfPage) -> Iterator[str]:
    """Yield "label: value" of the text fields that are filled in."""
    for index in range(min(raw.FPDFPage_GetAnnotCount(page), 2000)):
        annotation = raw.FPDFPage_GetAnnot(page, index)
        if not annotation:
            continue
        try:
            kind = raw.FPDFAnnot_GetSubtype(annotation)
            if kind == raw.FPDF_ANNOT_WIDGET and _string(annotation, b"FT") in ("", "Tx", "Ch"):
                value = _string(annotation, b"V").strip()
                label = (_string(annotation, b"TU") or _string(annotation, b"T")).strip()
                if value and value != "Off":
                    yield f"{label}: {value}" if label else value
            elif kind == raw.FPDF_ANNOT_FREETEXT:
                yield from filter(None, [_string(annotation, b"Contents").strip()])
        finally:
            raw.FPDFPage_CloseAnnot(annotation)


def _string(annotation: object, key: bytes) -> str:
    length = raw.FPDFAnnot_GetStringValue(annotation, key, None, 0)
    if length <= 2:
        return ""
    buffer = ctypes.create_string_buffer(length)
    pointer = ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR))
    raw.FPDFAnnot_GetStringValue(annotation, key, pointer, length)
    return buffer.raw[: length - 2].decode("utf-16-le", "replace")


def _bookmarks(document: pypdfium2.PdfDocument, count: int) -> dict[int, list[_Bookmark]]:
    found: dict[int, list[_Bookmark]] = {}
    try:
        for mark in itertools.islice(document.get_toc(_DEEPEST_BOOKMARK), _MOST_BOOKMARKS):
            target = mark.get_dest()
            page = target.get_index() if target else None
            if target is None or page is None or not 0 <= page < count:
                continue
            mode, places = target.get_view()
            has_top = mode == raw.PDFDEST_VIEW_XYZ and len(places) > 1
            top = places[1] if has_top else None
            bookmark = _Bookmark(level=mark.level + 1, title=mark.get_title(), top=top)
            found.setdefault(page, []).append(bookmark)
    except pypdfium2.PdfiumError:
        return {}
    return found


def _with_joined_words(pages: Sequence[Sequence[Line]]) -> list[list[Line]]:
    texts = iter(join_broken_words([line.text for lines in pages for line in lines]))
    return [[_with_text(line, next(texts)) for line in lines] for lines in pages]


def _with_text(line: Line, text: str) -> Line:
    if text == line.text:
        return line
    return Line(
        text=text,
        left=line.left,
        right=line.right,
        first_base=line.first_base,
        last_base=line.last_base,
        height=line.height,
    )


def _write_by_bookmarks(
    lines: Sequence[Line], bookmarks: Sequence[_Bookmark], outline: Outline
) -> None:
    written = 0
    for mark in bookmarks:
        at, length = _place(mark, lines, written)
        outline.block(paragraphs(lines[written:at]))
        outline.heading(mark.level, mark.title, shown=length > 0)
        written = at + length
    outline.block(paragraphs(lines[written:]))


def _place(mark: _Bookmark, lines: Sequence[Line], start: int) -> tuple[int, int]:
    """Return the line where a bookmark's section begins, and how many lines are its title."""
    wanted = _key(mark.title)
    for at in range(start, len(lines)):
        found = ""
        for length in range(1, 4):
            found += _key(lines[at + length - 1].text) if at + length <= len(lines) else ""
            if wanted and found == wanted:
                return at, length
        if len(wanted) > 3 and _key(lines[at].text).startswith(wanted):
            return at, 0
    if mark.top is not None:
        for at in range(start, len(lines)):
            if lines[at].first_base < mark.top:
                return at, 0
    return start, 0


def _key(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _write_by_size(lines: Sequence[Line], sizes: HeadingSizes, outline: Outline) -> None:
    written = 0
    for at, line in enumerate(lines):
        if at < written:
            continue
        level = sizes.level_of(line)
        if level is None:
            continue
        end = at + 1
        while end < len(lines) and end - at < 3 and sizes.level_of(lines[end]) == level:
            end += 1
        outline.block(paragraphs(lines[written:at]))
        outline.heading(level, " ".join(part.text for part in lines[at:end]))
        written = end
    outline.block(paragraphs(lines[written:]))


def _say_what_is_missing(pages: Sequence[_Page | None], content: bytes, reading: Reading) -> None:
    unreadable = [number for number, page in enumerate(pages, 1) if page is None]
    nothing = all(page is None or page.is_blank for page in pages)
    if len(unreadable) == len(pages) or (nothing and not _PAGE.search(content)):
        raise Damaged("The PDF file is damaged: none of its pages can be read.")
    if unreadable:
        reading.notices.append(f"Damaged, not read: {_named(unreadable)}.")
    textless = [
        number
        for number, page in enumerate(pages, 1)
        if page is not None and not (page.lines or page.fields or page.is_blank)
    ]
    if textless:
        reading.notices.append(f"No text on {_named(textless)}: scanned?")
        reading.why_empty = f"No text on {_named(textless)}: scanned?"


def _named(numbers: Sequence[int]) -> str:
    """Return "page 3" or "pages 1–3, 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    named = ", ".join("–".join(map(str, run)) for run in runs)
    return f"page{'s' if len(numbers) > 1 else ''} {named}"
