"""What kind of document an upload is: by its content where that tells, else by its name."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from registry.errors import Invalid, UnsupportedType
from retrieval.extraction import media_types as types
from retrieval.extraction.archives import SIGNATURE, Archive, BrokenArchive
from retrieval.extraction.encodings import wide_encoding
from retrieval.extraction.ole import SIGNATURE as SIGNATURE_OF_OLE
from retrieval.extraction.ole import BrokenOle, OleFile
from retrieval.extraction.results import ExtractionFailed

_HEAD = 1024
_TAIL = 2048
# "v1.2" has none
_EXTENSION = re.compile(r"[^/\\]\.([A-Za-z][A-Za-z0-9]{0,9})\Z")
_HTML_HEAD = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html[\s>])",
    re.I | re.S,
)
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
# Control characters that texts do hold: tab, line ends, form feed, escape (terminal logs, JIS)
_UNTEXTLIKE = bytes(set(range(32)) - set(b"\t\n\r\v\f\x1a\x1b\b"))
_UNTEXTLIKE_SHARE = 0.02
# Bytes that are UTF-8 are so hardly by chance
_UNTEXTLIKE_IN_UTF8_SHARE = 0.1
# First bytes of kinds that are often uploaded and never read, with what to do about it
_REFUSED_SIGNATURES = (
    (b"\x89PNG", "a PNG picture: text on pictures is read from PDF files"),
    (b"\xff\xd8\xff", "a JPEG picture: text on pictures is read from PDF files"),
    (b"GIF8", "a GIF picture: text on pictures is read from PDF files"),
    (b"II*\0", "a TIFF picture: text on pictures is read from PDF files"),
    (b"MM\0*", "a TIFF picture: text on pictures is read from PDF files"),
    (b"RIFF", "a sound, film or WebP file"),
    (b"ID3", "a sound file"),
    (b"OggS", "a sound or film file"),
    (b"\x1f\x8b", "a gzip archive: upload what is in it"),
    (b"BZh", "a bzip2 archive: upload what is in it"),
    (b"\xfd7zXZ\0", "an xz archive: upload what is in it"),
    (b"7z\xbc\xaf", "a 7-Zip archive: upload what is in it"),
    (b"Rar!", "a RAR archive: upload what is in it"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive: upload what is in it"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"SQLite format 3\0", "a SQLite database"),
    (b"%!PS", "a PostScript file"),
    (b"\x09\x04\x06\0", "an Excel workbook of before 1997: save it as XLSX"),
    (b"\x09\x02\x06\0", "an Excel workbook of before 1997: save it as XLSX"),
    (b"\x09\0\x04\0", "an Excel workbook of before 1997: save it as XLSX"),
    (b"\xffWPC", "a WordPerfect document: save it as DOCX"),
    (b"\xdb\xa5", "a Word document of before 1997: save it as DOCX"),
)
_OFFICE_PARTS = (
    ("word/", types.DOCX),
    ("ppt/", types.PPTX),
    ("xl/workbook.bin", types.XLSB),
    ("xl/", types.XLSX),
)
# Streams at the top of OLE files that are not read, and what to do about them
_REFUSED_STREAMS = (
    ("book", "an Excel workbook of before 1997: save it as XLSX"),
    ("powerpoint document", "a PowerPoint presentation of before 2007: save it as PPTX"),
    ("__properties_version1.0", "an Outlook message: save it as EML"),
    ("visiodocument", "a Visio drawing: export it as PDF"),
)
_ENCRYPTED_WORD = 0x0100
_WORD_97 = 0xA5EC


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedType:
    """A supported media type; ``notice`` says so when the name suggests another kind."""

    media_type: str
    notice: str | None


def detect_type(*, name: str, content: bytes, default_text: str = types.PLAIN) -> DetectedType:
    """Return the kind of an upload; ``default_text`` is that of a text without an extension.

    Raises Invalid ``document.empty`` or ``document.unreadable`` (a container that cannot be
    opened) and UnsupportedType ``document.unsupported_type``.
    """
    if not content:
        raise Invalid.field(
            "file",
            name,
            "The file is empty (0 bytes).",
            allowed="at least one byte",
            code="document.empty",
        )
    extension = _extension(name)
    claimed = types.BY_EXTENSION.get(extension)
    found = _binary_type(name, content, claimed)
    if found is None:
        found = _text_type(name, content, claimed, default_text)
    return DetectedType(media_type=found, notice=_notice(extension, claimed, found))


def is_encrypted_office(content: bytes) -> bool:
    """Tell an Office document under a password, which is an OLE file in whatever version."""
    if not content.startswith(SIGNATURE_OF_OLE):
        return False
    try:
        ole = OleFile(content)
    except BrokenOle:
        return False
    if "encryptedpackage" in ole.streams:
        return True
    head = ole.beginning("WordDocument")
    return len(head) > 12 and bool(struct.unpack_from("<H", head, 10)[0] & _ENCRYPTED_WORD)


def _extension(name: str) -> str:
    match = _EXTENSION.search(name.strip())
    return match[1].lower() if match else ""


def _binary_type(name: str, content: bytes, claimed: types.MediaType | None) -> str | None:
    head = content[:_HEAD]
    if _is_pdf(content):
        return types.PDF
    if head.lstrip().startswith(b"{\\rtf"):
        return types.RTF
    if head.startswith((SIGNATURE, b"PK\x05\x06", b"PK\x07\x08")):
        return _zip_type(name, content)
    if head.startswith(SIGNATURE_OF_OLE):
        return _ole_type(name, content, claimed)
    for signature, label in _REFUSED_SIGNATURES:
        if head.startswith(signature) and not _is_text(content):
            raise _unsupported(name, f"The file is {label}")
    return None


def _is_pdf(content: bytes) -> bool:
    if content[:_HEAD].lstrip(b"\xef\xbb\xbf\0 \t\r\n").startswith(b"%PDF-"):
        return True
    # Some begin with other bytes; a text that only speaks of PDF has no such end
    return b"%PDF-" in content[:_HEAD] and b"%%EOF" in content[-_TAIL:]


def _zip_type(name: str, content: bytes) -> str:
    try:
        archive = Archive(content)
        mimetype = archive.find("mimetype") or b""
    except BrokenArchive as error:
        raise _unreadable(name, f"the file is a container (ZIP) but {error}") from error
    except ExtractionFailed as error:
        raise _unreadable(name, error.sentence) from error
    declared = mimetype[:200].decode("ascii", "replace").strip().removesuffix("-template")
    if declared in (types.EPUB, types.ODT, types.ODS, types.ODP):
        return declared
    if "META-INF/container.xml" in archive.names and any(
        part.endswith(".opf") for part in archive.names
    ):
        return types.EPUB
    if "[Content_Types].xml" in archive.names:
        for prefix, media_type in _OFFICE_PARTS:
            if any(part.startswith(prefix) for part in archive.names):
                return media_type
    raise _unsupported(name, "The file is a ZIP archive, not a document: upload what is in it")


def _ole_type(name: str, content: bytes, claimed: types.MediaType | None) -> str:
    try:
        ole = OleFile(content)
    except BrokenOle as error:
        raise _unreadable(
            name, "the file is a container (OLE) but its directory is damaged"
        ) from error
    if "encryptedpackage" in ole.streams:
        # What is inside cannot be known, so its name is believed
        return claimed.name if claimed and not claimed.is_text else types.DOCX
    if "worddocument" in ole.streams:
        head = ole.beginning("WordDocument")
        if head and struct.unpack_from("<H", head)[0] != _WORD_97:
            raise _unsupported(name, "The file is a Word document of before 1997: save it as DOCX")
        return types.DOC
    if "workbook" in ole.streams:
        return types.XLS
    for stream, label in _REFUSED_STREAMS:
        if stream in ole.streams:
            raise _unsupported(name, f"The file is {label}")
    raise _unsupported(
        name, "The file is in an old Office or Outlook format: save it as PPTX, DOCX or EML"
    )


def _text_type(
    name: str, content: bytes, claimed: types.MediaType | None, default_text: str
) -> str:
    if not _is_text(content):
        if claimed is not None and not claimed.is_text:
            raise _unreadable(name, f"the file is not what its name says ({claimed.label})")
        raise _unsupported(name, "The file is not in a format that is read here")
    if claimed is not None and claimed.is_text:
        return claimed.name
    if _HTML_HEAD.match(content[:_HEAD]):
        return types.HTML
    return types.PLAIN if claimed is None and _extension(name) else default_text


def _is_text(content: bytes) -> bool:
    if content.startswith(_WIDE_MARKS) or wide_encoding(content) is not None:
        return True
    untextlike = len(content) - len(content.translate(None, _UNTEXTLIKE))
    if untextlike <= len(content) * _UNTEXTLIKE_SHARE:
        return True
    return untextlike <= len(content) * _UNTEXTLIKE_IN_UTF8_SHARE and _is_utf8(content)


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _notice(extension: str, claimed: types.MediaType | None, found: str) -> str | None:
    if claimed is None or claimed.name == found:
        return None
    label = types.SUPPORTED[found].label
    return f"The name ends in .{extension}, but the content is {label}: it was read as that."


def _unsupported(name: str, message: str) -> UnsupportedType:
    allowed = sorted(types.BY_EXTENSION)
    error = Invalid.field("file", name, message + ".", allowed=allowed)
    return UnsupportedType(message + ".", errors=error.errors)


def _unreadable(name: str, message: str) -> Invalid:
    return Invalid.field(
        "file",
        name,
        f"cannot be opened: {message}",
        allowed="a whole file of its kind",
        code="document.unreadable",
    )
