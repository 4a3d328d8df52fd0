"""Old and rare formats, read by kreuzberg: Word 97, Excel 97 and binary workbooks.

The one importer of kreuzberg, which gives the headings, paragraphs and tables of rich text and
the cells of spreadsheets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import kreuzberg

from retrieval.extraction import media_types as types
from retrieval.extraction.archives import SIGNATURE, Archive, BrokenArchive
from retrieval.extraction.ocr import Ocr
from retrieval.extraction.outline import Outline
from retrieval.extraction.reader import Reading
from retrieval.extraction.readers.workbook import check_size
from retrieval.extraction.results import Damaged, PasswordRequired
from retrieval.extraction.tables import spreadsheet_text, table_text

# How Word 97 notes where a link leads, and what it counts
_FIELD_CODE = re.compile(
    r'\bHYPERLINK(?: \\[a-z])? "[^"\n]*"(?: \\[a-z] "[^"\n]*")*|\bSEQ \w+ \\\* [A-Z]+ '
)
_PASSWORD = re.compile(r"password|encrypt", re.I)
_SHEETS = (types.XLSB, types.XLS)
# What a date without a time, and a time without a date, look like
_MIDNIGHT = re.compile(r"^(\d{4}-\d\d-\d\d) 00:00:00$")
_NO_DATE = re.compile(r"^(?:1899-12-3[01]|1904-01-01) (\d\d:\d\d:\d\d)$")


def reader(media_type: str) -> Callable[[bytes, Reading], None]:
    """Return the reader of a media type that has none of our own; raises KeyError for others."""
    readers = {
        **{kind: partial(_read_sheets, kind) for kind in _SHEETS},
        types.DOC: partial(_read_rich_text, types.DOC),
    }
    return readers[media_type]


def recognise(picture: bytes, ocr: Ocr) -> str:
    """Return the text on a picture in the format PGM; none where the engine fails on it."""
    # Read by the engine itself; in this process, which is one document's, nothing else reads it
    os.putenv("TESSDATA_PREFIX", ocr.data_folder)
    config = kreuzberg.ExtractionConfig(
        use_cache=False,
        enable_quality_processing=False,
        ocr=kreuzberg.OcrConfig(backend="tesseract", language=ocr.languages),
    )
    try:
        result = kreuzberg.extract_bytes_sync(picture, "image/x-portable-graymap", config=config)
    except kreuzberg.KreuzbergError:
        return ""
    return str(result.content)


def _read_rich_text(media_type: str, content: bytes, reading: Reading) -> None:
    result = _extract(media_type, content)
    structure: Any = result.document or {}
    for node in structure.get("nodes", ()):
        _write_node(node["content"], reading.outline)
    if reading.outline.is_empty:
        reading.outline.block(_FIELD_CODE.sub("", result.content))


def _write_node(node: dict[str, Any], outline: Outline) -> None:
    kind, text = node["node_type"], _FIELD_CODE.sub("", node.get("text") or "")
    if kind in ("title", "heading"):
        outline.heading(int(node.get("level") or 0), text)
    elif kind == "table":
        rows: dict[int, dict[int, str]] = {}
        for cell in node["grid"]["cells"]:
            rows.setdefault(cell["row"], {})[cell["col"]] = cell["content"]
        table = [[row.get(at, "") for at in range(max(row) + 1)] for _, row in sorted(rows.items())]
        outline.block(table_text(table))
    elif kind == "list_item":
        outline.block(f"- {text}")
    else:
        outline.block(text)


def _read_sheets(media_type: str, content: bytes, reading: Reading) -> None:
    if content.startswith(SIGNATURE):
        _check_size(content)
    result = _extract(media_type, content)
    names = list((result.metadata or {}).get("sheet_names") or [])
    outline = reading.outline
    for table in result.tables:
        # The "page" of a sheet is its place in the workbook
        place = table.page_number - 1
        outline.leave(1)
        if 0 <= place < len(names):
            outline.heading(1, names[place], shown=False)
        outline.block(spreadsheet_text([[_cell(cell) for cell in row] for row in table.cells]))


def _extract(media_type: str, content: bytes) -> kreuzberg.ExtractionResult:
    config = kreuzberg.ExtractionConfig(
        use_cache=False, enable_quality_processing=False, include_document_structure=True
    )
    try:
        return kreuzberg.extract_bytes_sync(content, media_type, config=config)
    except kreuzberg.KreuzbergError as error:
        if _PASSWORD.search(str(error)):
            raise PasswordRequired from error
        raise Damaged("The document is damaged: it cannot be read to its end.") from error


def _check_size(content: bytes) -> None:
    try:
        archive = Archive(content)
    except BrokenArchive as error:
        raise Damaged(f"The document cannot be opened: {error}.") from error
    check_size(archive)


def _cell(text: str) -> str:
    date = _MIDNIGHT.match(text) or _NO_DATE.match(text)
    return date[1] if date else text
