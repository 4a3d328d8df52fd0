"""PDF: the text of every page, with sections from bookmarks or, without any, from sizes of type."""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pypdfium2  # type: ignore[import-untyped]
from pypdfium2 import raw

from retrieval.extraction.ocr import MOST_PAGES as MOST_OCR_PAGES
from retrieval.extraction.outline import Outline
from retrieval.extraction.reader import Reading
from retrieval.extraction.readers.pdf_layout import (
    HeadingSizes,
    Line,
    join_broken_words,
    paragraphs,
)
from retrieval.extraction.readers.pdf_pages import Page, picture, read_page
from retrieval.extraction.results import Damaged, PasswordRequired, TextTooLarge

_MOST_PAGES = 20_000
_MOST_BOOKMARKS = 5_000
_NAMED_ATTACHMENTS = 5
_DEEPEST_BOOKMARK = 8
# What a file with pages must hold, in the open or inside a stream of objects
_PAGE = re.compile(rb"/Type\s*/Page\b|/ObjStm\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bookmark:
    level: int
    title: str
    # Where on the page it points to, in points from below; None for the whole page
    top: float | None


def read_pdf(content: bytes, reading: Reading) -> None:
    """Read a PDF file; pages without text and pages that cannot be read become notices."""
    document = _open(content)
    # Before any page is loaded
    document.init_forms()
    count = len(document)
    if count > _MOST_PAGES:
        raise TextTooLarge(
            f"The document has {count:,} pages; {_MOST_PAGES:,} can be read: split it."
        )
    pages = [read_page(document, number) for number in range(count)]
    _check(pages, content, reading)
    reading.pages = count
    reading.notices.extend(filter(None, [_attachments(document)]))
    recognised = _recognise(document, pages, reading)
    bookmarks = _bookmarks(document, count)
    texts = _with_joined_words([page.lines if page else () for page in pages])
    sizes = HeadingSizes([] if bookmarks else texts)
    for number, (page, lines) in enumerate(zip(pages, texts, strict=True)):
        reading.outline.page(number + 1)
        if bookmarks:
            _write_by_bookmarks(lines, bookmarks.get(number, []), reading.outline)
        else:
            _write_by_size(lines, sizes, reading.outline)
        reading.outline.block(recognised.get(number, ""))
        if page is not None and page.fields:
            reading.outline.block("\n".join(page.fields))


def _open(content: bytes) -> pypdfium2.PdfDocument:
    try:
        return pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        if raw.FPDF_GetLastError() == raw.FPDF_ERR_PASSWORD or "password" in str(error).lower():
            raise PasswordRequired from error
        raise Damaged("The PDF file is damaged: it cannot be opened.") from error


def _attachments(document: pypdfium2.PdfDocument) -> str:
    """Return a notice that names the files inside of the document, "" without any."""
    count = document.count_attachments()
    names = [_attachment_name(document, number) for number in range(min(count, _NAMED_ATTACHMENTS))]
    if count > len(names):
        names.append(f"{count - len(names)} more")
    if not names:
        return ""
    return f"Files inside of the document were not read, upload them by themselves: {', '.join(names)}."


def _attachment_name(document: pypdfium2.PdfDocument, number: int) -> str:
    try:
        return repr(document.get_attachment(number).get_name())
    except pypdfium2.PdfiumError:
        return "one without a name"


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
    # A single bookmark names the document, not its sections
    return found if sum(map(len, found.values())) > 1 else {}


def _with_joined_words(pages: Sequence[Sequence[Line]]) -> list[list[Line]]:
    texts = iter(join_broken_words([line.text for lines in pages for line in lines]))
    return [[replace(line, text=next(texts)) for line in lines] for lines in pages]


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


def _check(pages: Sequence[Page | None], content: bytes, reading: Reading) -> None:
    unreadable = [number for number, page in enumerate(pages) if page is None]
    nothing = all(page is None or page.is_blank for page in pages)
    if len(unreadable) == len(pages) or (nothing and not _PAGE.search(content)):
        raise Damaged("The PDF file is damaged: none of its pages can be read.")
    if unreadable:
        reading.notices.append(f"Damaged, not read: {_named(unreadable)}.")


def _recognise(
    document: pypdfium2.PdfDocument, pages: Sequence[Page | None], reading: Reading
) -> dict[int, str]:
    """Return the text on pages that are pictures, if OCR is on; say which have none."""
    scanned = [
        number
        for number, page in enumerate(pages)
        if page is not None
        and not page.is_blank
        and (page.is_picture or not (page.lines or page.fields))
    ]
    found: dict[int, str] = {}
    if reading.ocr is not None and scanned:
        library = importlib.import_module("retrieval.extraction.readers.library")
        for number in scanned[:MOST_OCR_PAGES]:
            found[number] = library.recognise(picture(document, number), reading.ocr)
    unread = [number for number in scanned if not found.get(number, "").strip()]
    stamped = [number for number in unread if (page := pages[number]) and page.lines]
    if stamped:
        reading.notices.append(f"Hardly any text on {_named(stamped)}: scanned?")
    textless = [number for number in unread if number not in stamped]
    if textless:
        reading.why_empty = f"No text on {_named(textless)}: scanned?"
        reading.notices.append(reading.why_empty)
    read = [number for number in scanned if number not in unread]
    if read:
        reading.notices.append(f"Read by OCR: {_named(read)}.")
    return found


def _named(numbers: Sequence[int]) -> str:
    """Return "page 3" or "pages 1–3, 7" for numbers that count from 0."""
    runs: list[list[int]] = []
    for number in (number + 1 for number in numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    named = ", ".join("–".join(map(str, run)) for run in runs)
    return f"page{'s' if len(numbers) > 1 else ''} {named}"
