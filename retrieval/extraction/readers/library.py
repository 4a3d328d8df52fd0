"""Old and rare formats, read by kreuzberg: RTF, Word 97, and spreadsheets of every kind.

The one importer of kreuzberg. It writes rich text as Markdown, with escapes, so that headings,
lists and tables are read from that; of spreadsheets it gives the cells.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial

import kreuzberg

from retrieval.extraction import media_types as types
from retrieval.extraction.archives import SIGNATURE, Archive, BrokenArchive
from retrieval.extraction.ocr import Ocr
from retrieval.extraction.reader import Reading
from retrieval.extraction.readers.markdown import write_markdown
from retrieval.extraction.results import Damaged, PasswordRequired, TextTooLarge
from retrieval.extraction.tables import spreadsheet_text

_PASSWORD = re.compile(r"password|encrypt", re.I)
_SHEETS = (types.XLSX, types.XLSB, types.XLS, types.ODS)
_RICH_TEXTS = (types.RTF, types.DOC)
_MOST_SHEET_BYTES = 160 * 1024 * 1024
# What a date without a time, and a time without a date, look like
_MIDNIGHT = re.compile(r"^(\d{4}-\d\d-\d\d) 00:00:00$")
_NO_DATE = re.compile(r"^(?:1899-12-3[01]|1904-01-01) (\d\d:\d\d:\d\d)$")


def reader(media_type: str) -> Callable[[bytes, Reading], None]:
    """Return the reader of a media type that has none of our own; raises KeyError for others."""
    readers = {
        **{kind: partial(_read_sheets, kind) for kind in _SHEETS},
        **{kind: partial(_read_rich_text, kind) for kind in _RICH_TEXTS},
    }
    return readers[media_type]


def recognise(picture: bytes, ocr: Ocr) -> str:
    """Return the text on a picture in the format PGM."""
    # Read by the engine itself; in this process, which is one document's, nothing else reads it
    os.putenv("TESSDATA_PREFIX", ocr.data_folder)
    config = kreuzberg.ExtractionConfig(
        use_cache=False,
        enable_quality_processing=False,
        ocr=kreuzberg.OcrConfig(backend="tesseract", language=ocr.languages),
    )
    result = kreuzberg.extract_bytes_sync(picture, "image/x-portable-graymap", config=config)
    return str(result.content)


def _read_rich_text(media_type: str, content: bytes, reading: Reading) -> None:
    result = _extract(media_type, content, output_format="markdown")
    write_markdown(result.content, reading.outline)


def _read_sheets(media_type: str, content: bytes, reading: Reading) -> None:
    if content.startswith(SIGNATURE):
        _check_size(content)
    result = _extract(media_type, content, output_format="plain")
    names = list((result.metadata or {}).get("sheet_names") or [])
    outline = reading.outline
    for table in result.tables:
        # The "page" of a sheet is its place in the workbook
        place = table.page_number - 1
        outline.leave(1)
        if 0 <= place < len(names):
            outline.heading(1, names[place], shown=False)
        outline.block(spreadsheet_text([[_cell(cell) for cell in row] for row in table.cells]))


def _extract(media_type: str, content: bytes, *, output_format: str) -> kreuzberg.ExtractionResult:
    config = kreuzberg.ExtractionConfig(
        use_cache=False, enable_quality_processing=False, output_format=output_format
    )
    try:
        return kreuzberg.extract_bytes_sync(content, media_type, config=config)
    except kreuzberg.KreuzbergError as error:
        if _PASSWORD.search(str(error)):
            raise PasswordRequired from error
        raise Damaged("The document is damaged: it cannot be read to its end.") from error


def _check_size(content: bytes) -> None:
    try:
        size = Archive(content).whole_size
    except BrokenArchive as error:
        raise Damaged(f"The document cannot be opened: {error}.") from error
    if size > _MOST_SHEET_BYTES:
        raise TextTooLarge(
            "The workbook unfolds to far more data than can be searched: split it, "
            "or save the sheets that matter as CSV."
        )


def _cell(text: str) -> str:
    date = _MIDNIGHT.match(text) or _NO_DATE.match(text)
    return date[1] if date else text
