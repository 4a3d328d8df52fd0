"""The kinds of documents that are read, with the extensions that mean them."""

from __future__ import annotations

from dataclasses import dataclass

PLAIN = "text/plain"
MARKDOWN = "text/markdown"
HTML = "text/html"
CSV = "text/csv"
JSON = "application/json"
MAIL = "message/rfc822"
PDF = "application/pdf"
RTF = "application/rtf"
EPUB = "application/epub+zip"
_OOXML = "application/vnd.openxmlformats-officedocument."
DOCX = _OOXML + "wordprocessingml.document"
PPTX = _OOXML + "presentationml.presentation"
XLSX = _OOXML + "spreadsheetml.sheet"
XLSB = "application/vnd.ms-excel.sheet.binary.macroenabled.12"
ODT = "application/vnd.oasis.opendocument.text"
ODS = "application/vnd.oasis.opendocument.spreadsheet"
ODP = "application/vnd.oasis.opendocument.presentation"
DOC = "application/msword"
XLS = "application/vnd.ms-excel"


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaType:
    """A kind of document: how people call it and which extensions its files have."""

    name: str
    label: str
    extensions: tuple[str, ...]
    # Nothing in the bytes tells text formats apart: among them the extension decides
    is_text: bool = False


SUPPORTED = {
    kind.name: kind
    for kind in (
        MediaType(name=PLAIN, label="plain text", extensions=("txt", "text", "log"), is_text=True),
        MediaType(
            name=MARKDOWN,
            label="Markdown",
            extensions=("md", "markdown", "mdown", "mkd", "mdx"),
            is_text=True,
        ),
        MediaType(
            name=HTML, label="HTML page", extensions=("html", "htm", "xhtml", "xht"), is_text=True
        ),
        MediaType(name=CSV, label="CSV table", extensions=("csv", "tsv", "tab"), is_text=True),
        MediaType(
            name=JSON, label="JSON", extensions=("json", "jsonl", "ndjson", "geojson"), is_text=True
        ),
        MediaType(name=MAIL, label="e-mail", extensions=("eml", "mht", "mhtml"), is_text=True),
        MediaType(name=PDF, label="PDF", extensions=("pdf",)),
        MediaType(name=RTF, label="RTF document", extensions=("rtf",)),
        MediaType(name=EPUB, label="EPUB book", extensions=("epub",)),
        MediaType(name=DOCX, label="Word document", extensions=("docx", "docm", "dotx", "dotm")),
        MediaType(
            name=PPTX,
            label="PowerPoint presentation",
            extensions=("pptx", "pptm", "ppsx", "ppsm", "potx", "potm"),
        ),
        MediaType(name=XLSX, label="Excel workbook", extensions=("xlsx", "xlsm", "xltx", "xltm")),
        MediaType(name=XLSB, label="binary Excel workbook", extensions=("xlsb",)),
        MediaType(name=ODT, label="OpenDocument text", extensions=("odt", "ott")),
        MediaType(name=ODS, label="OpenDocument spreadsheet", extensions=("ods", "ots")),
        MediaType(name=ODP, label="OpenDocument presentation", extensions=("odp", "otp")),
        MediaType(name=DOC, label="Word 97 document", extensions=("doc", "dot")),
        MediaType(name=XLS, label="Excel 97 workbook", extensions=("xls", "xlt")),
    )
}
# Those that the extraction library reads; our own readers read the rest
READ_BY_LIBRARY = frozenset((XLSB, XLS, DOC))
BY_EXTENSION = {extension: kind for kind in SUPPORTED.values() for extension in kind.extensions}
