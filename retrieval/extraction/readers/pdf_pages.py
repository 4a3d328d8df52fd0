"""Pages of a PDF file as PDFium gives them: lines with their places, form fields, pictures."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pypdfium2  # type: ignore[import-untyped]
from pypdfium2 import raw

from retrieval.extraction.normalisation import normalise
from retrieval.extraction.readers.pdf_forms import filled_in
from retrieval.extraction.readers.pdf_layout import BROKEN_HYPHEN, Line

_ALEFS = "اأإآٱ"
_LAM = "ل"
_ARABIC = re.compile("[\u0600-\u06ff\ufb50-\ufdff\ufe70-\ufefc]")
_REVERSED_LIGATURE = re.compile(f"[{_ALEFS}]{_LAM}")
# The bidirectional order of a line loses the space where Latin ends and Arabic goes on
_LOST_SPACE = re.compile("(?<=[A-Za-z])(?=[\u0621-\u064a])")
_PICTURE_SCALE = 200 / 72
_MOST_PIXELS = 25_000_000
# The longest that is stamped on a scan, in characters
_STAMP = 30
_COVERED_SHARE = 0.6
_MOST_OBJECTS = 500
# In quarters of a turn
_SLANTED = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What is on a page; it is blank when nothing at all is drawn on it."""

    lines: tuple[Line, ...]
    # What is written into the page's form, as further lines
    fields: tuple[str, ...]
    is_blank: bool
    # Whether it is a picture with next to no text: a scan, maybe with a number stamped on it
    is_picture: bool = False


def read_page(document: pypdfium2.PdfDocument, number: int) -> Page | None:
    """Return a page (counted from 0); None when it cannot be read."""
    try:
        page = document[number]
        text_page, quarter = _upright(page)
    except pypdfium2.PdfiumError:
        return None
    try:
        text = text_page.get_text_range() if text_page.count_chars() else ""
        is_blank = raw.FPDFPage_CountObjects(page) == 0
        lines = tuple(_lines(text_page, text, quarter)) if _is_readable(text) else ()
        return Page(
            lines=lines,
            fields=tuple(filled_in(page)),
            is_blank=is_blank,
            is_picture=sum(len(line.text) for line in lines) <= _STAMP and _is_covered(page),
        )
    finally:
        text_page.close()
        page.close()


def _is_covered(page: pypdfium2.PdfPage) -> bool:
    """Tell whether pictures take up most of a page; scanners put one there, or strips."""
    width, height = page.get_size()
    covered = 0.0
    for index in range(min(raw.FPDFPage_CountObjects(page), _MOST_OBJECTS)):
        thing = raw.FPDFPage_GetObject(page, index)
        if raw.FPDFPageObj_GetType(thing) == raw.FPDF_PAGEOBJ_IMAGE:
            left, bottom, right, top = (ctypes.c_float() for _ in range(4))
            if raw.FPDFPageObj_GetBounds(thing, left, bottom, right, top):
                covered += (right.value - left.value) * (top.value - bottom.value)
    return bool(covered >= width * height * _COVERED_SHARE)


def _upright(page: pypdfium2.PdfPage) -> tuple[pypdfium2.PdfTextPage, int]:
    """Return the page's text and how many quarters the text is turned on the page.

    PDFium gives lines that run downwards, as the page is shown, in the wrong order: so the page
    is turned such that they do not.
    """
    page.set_rotation(0)
    text_page = page.get_textpage()
    angle = raw.FPDFText_GetCharAngle(text_page, 0) if text_page.count_chars() else 0.0
    quarter = round(2 * angle / math.pi) % 4
    if quarter == 1:
        text_page.close()
        page.set_rotation(90)
        text_page = page.get_textpage()
    return text_page, quarter


def picture(document: pypdfium2.PdfDocument, number: int) -> bytes:
    """Return a page drawn in shades of grey, in the format PGM."""
    page = document[number]
    width, height = page.get_size()
    scale = min(_PICTURE_SCALE, (_MOST_PIXELS / max(width * height, 1)) ** 0.5)
    bitmap = page.render(scale=scale, grayscale=True)
    pixels, stride = bytes(bitmap.buffer), bitmap.stride
    rows = (pixels[at : at + bitmap.width] for at in range(0, stride * bitmap.height, stride))
    return b"P5 %d %d 255\n" % (bitmap.width, bitmap.height) + b"".join(rows)


def _lines(text_page: pypdfium2.PdfTextPage, text: str, quarter: int) -> Iterator[Line]:
    has_places = text_page.count_chars() == len(text)
    if has_places and _ARABIC.search(text):
        text = _with_ligatures_in_order(text_page, text)
    at = 0
    for line in text.split("\r\n"):
        shown = _LOST_SPACE.sub(" ", line.strip())
        if shown:
            begin = at + len(line) - len(line.lstrip())
            end = at + len(line.rstrip()) - 1
            yield _line(text_page, shown, (begin, end), quarter) if has_places else _unplaced(shown)
        at += len(line) + 2


def _is_readable(text: str) -> bool:
    """Tell letters from the mere numbers of glyphs in fonts that do not say what they show."""
    return text.isprintable() or bool(normalise(text.replace(BROKEN_HYPHEN, "")))


def _line(text_page: pypdfium2.PdfTextPage, text: str, span: tuple[int, int], quarter: int) -> Line:
    left, first_base = _turned(_origin(text_page, span[0]), quarter)
    right, last_base = _turned(_origin(text_page, span[1]), quarter)
    quarters = 2 * raw.FPDFText_GetCharAngle(text_page, span[0]) / math.pi
    is_slanted = abs(quarters - round(quarters)) > _SLANTED
    x0, y0, x1, y1 = text_page.get_charbox(span[0], loose=True)
    if right < left:
        left, right = -left, -right
    return Line(
        text=text,
        left=left,
        right=right,
        first_base=first_base,
        last_base=last_base,
        height=0.0 if is_slanted else abs(x1 - x0) if quarter % 2 else abs(y1 - y0),
    )


def _unplaced(text: str) -> Line:
    return Line(text=text, left=0, right=0, first_base=0, last_base=0, height=0)


def _origin(text_page: pypdfium2.PdfTextPage, index: int) -> tuple[float, float]:
    x, y = ctypes.c_double(), ctypes.c_double()
    raw.FPDFText_GetCharOrigin(text_page, index, x, y)
    return x.value, y.value


def _turned(place: tuple[float, float], quarter: int) -> tuple[float, float]:
    """Return where a place is when the text is turned upright."""
    x, y = place
    return ((x, y), (-y, x), (-x, -y), (y, -x))[quarter]


def _with_ligatures_in_order(text_page: pypdfium2.PdfTextPage, text: str) -> str:
    """Put lam before alef again where both come of one glyph: PDFium turns them round."""
    characters = list(text)
    for match in _REVERSED_LIGATURE.finditer(text):
        at = match.start()
        if _origin(text_page, at) == _origin(text_page, at + 1):
            characters[at], characters[at + 1] = characters[at + 1], characters[at]
    return "".join(characters)
