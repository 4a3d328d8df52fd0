"""The work of the limited child: find the reader of a media type and write down what it reads.

The readers' libraries are imported by the host process, before it forks, so that a child costs
no import; the large one for old and rare formats only when one of these is asked for. What they
make at their first use is made there as well.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import IO, Any

from retrieval.extraction import media_types as types
from retrieval.extraction.detection import is_encrypted_office
from retrieval.extraction.ocr import Ocr
from retrieval.extraction.outline import Outline
from retrieval.extraction.reader import Reading
from retrieval.extraction.readers import (
    epub,
    html,
    mail,
    markdown,
    opendocument,
    pdf,
    rtf,
    slides,
    text,
    word,
    workbook,
)
from retrieval.extraction.results import (
    Damaged,
    Extracted,
    ExtractionFailed,
    NoText,
    PasswordRequired,
)

# A document may hold this many characters, and one more for each 1/20 byte of its file
_BASE_CHARACTERS = 2_000_000
_CHARACTERS_PER_BYTE = 20
_MOST_CHARACTERS = 60_000_000

_SAMPLE = b"""# Heading

Text with *emphasis*, [a link](https://example.org/), `code`, <b>HTML</b> and an &amp;

- item
  1. item

> quoted

| a | b |
|---|---|
| 1 | 2 |

```
code
```
"""

Reader = Callable[[bytes, Reading], None]
_READERS: dict[str, Reader] = {
    types.PLAIN: text.read_plain,
    types.CSV: text.read_plain,
    types.JSON: text.read_json,
    types.MARKDOWN: markdown.read_markdown,
    types.HTML: html.read_html,
    types.MAIL: mail.read_mail,
    types.PDF: pdf.read_pdf,
    types.RTF: rtf.read_rtf,
    types.EPUB: epub.read_epub,
    types.DOCX: word.read_word,
    types.PPTX: slides.read_slides,
    types.XLSX: workbook.read_workbook,
    types.ODT: opendocument.read_text,
    types.ODP: opendocument.read_slides,
    types.ODS: opendocument.read_sheets,
}


def read_document(content: bytes, media_type: str, *, ocr: Ocr | None = None) -> Extracted:
    """Read a document in this process, without limits of time and memory.

    Raises ExtractionFailed, and whatever a library raises on bytes that it did not expect.
    """
    if is_encrypted_office(content):
        raise PasswordRequired
    most = min(_MOST_CHARACTERS, _BASE_CHARACTERS + _CHARACTERS_PER_BYTE * len(content))
    reading = Reading(outline=Outline(most_characters=most), ocr=ocr)
    _reader(media_type)(content, reading)
    segments = reading.outline.finish()
    if not segments:
        raise NoText(reading.why_empty or "The document holds no text.")
    notices = tuple(dict.fromkeys(reading.notices))
    return Extracted(segments=segments, notices=notices, pages=reading.pages)


def run(content: bytes, options: dict[str, Any], output: IO[bytes]) -> None:
    """Read a document and write the outcome as lines of JSON: what ``extracting`` expects."""
    try:
        ocr = Ocr(**options["ocr"]) if options["ocr"] else None
        extracted = read_document(content, options["media_type"], ocr=ocr)
    except RecursionError:
        _write_failure(output, Damaged("The document is nested too deeply to be read."))
        return
    except ExtractionFailed as error:
        _write_failure(output, error)
        return
    _write(output, {"notices": extracted.notices, "pages": extracted.pages})
    for segment in extracted.segments:
        _write(output, [segment.page, segment.section, segment.text])


def _make_ready() -> None:
    """Read a text of our own, so that no child compiles the rules and patterns of Markdown."""
    read_document(_SAMPLE, types.MARKDOWN)


def _reader(media_type: str) -> Reader:
    reader = _READERS.get(media_type)
    if reader is None:
        library = importlib.import_module("retrieval.extraction.readers.library")
        reader = library.reader(media_type)
    return reader


def _write_failure(output: IO[bytes], error: ExtractionFailed) -> None:
    _write(output, {"code": error.code, "sentence": error.sentence})


def _write(output: IO[bytes], value: Any) -> None:
    output.write(json.dumps(value, ensure_ascii=False).encode("utf-8") + b"\n")


_make_ready()
