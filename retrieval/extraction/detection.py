"""What kind of document an upload is: by its content where that tells, else by its name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from registry.errors import Invalid, UnsupportedType
from retrieval.extraction import media_types as types
from retrieval.extraction.archives import SIGNATURE, Archive, BrokenArchive
from retrieval.extraction.encodings import wide_encoding
from retrieval.extraction.results import ExtractionFailed

_OLE_SIGNATURE = bytes.fromhex("d0cf11e0a1b11ae1")
_HEAD = 1024
_TAIL = 2048
# "v1.2" has none
_EXTENSION = re.compile(r"[^/\\]\.([A-Za-z][A-Za-z0-9]{0,9})\Z")
_OLE_ENTRY = 128
_HTML_HEAD = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html[\s>])",
    re.I | re.S,
)
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
# Control characters that texts do hold: tab, line ends, form feed, escape (terminal logs, JIS)
_UNTEXTLIKE = bytes(set(range(32)) - set(b"\t\n\r\v\f\x1a\x1b\b"))
_UNTEXTLIKE_SHARE = 0.02
# First bytes of kinds that are often uploaded and never read, with what to do about it
_REFUSED_SIGNATURES = (
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"II*\0", "a TIFF picture"),
    (b"MM\0*", "a TIFF picture"),
    (b"RIFF", "a sound, film or WebP file"),
    (b"ID3", "a sound file"),
    (b"OggS", "a sound or film file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\0", "an xz archive"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"SQLite format 3\0", "a SQLite database"),
    (b"%!PS", "a PostScript file"),
)
_OFFICE_PARTS = (
    ("word/", types.DOCX),
    ("ppt/", types.PPTX),
    ("xl/workbook.bin", types.XLSB),
    ("xl/", types.XLSX),
)
# Names of streams inside an OLE file, as UTF-16 in its directory
_OLE_STREAMS = (
    ("WordDocument", types.DOC),
    ("Workbook", types.XLS),
    ("Book", types.XLS),
)


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
    """Tell a document of Office 2007 or later that is under a password: no ZIP, an OLE file."""
    return content.startswith(_OLE_SIGNATURE) and _has_ole_stream(content, "EncryptedPackage")


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
    if head.startswith(_OLE_SIGNATURE):
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
    if "[Content_Types].xml" in archive.names:
        for prefix, media_type in _OFFICE_PARTS:
            if any(part.startswith(prefix) for part in archive.names):
                return media_type
    raise _unsupported(name, "The file is a ZIP archive, not a document: upload what is in it")


def _ole_type(name: str, content: bytes, claimed: types.MediaType | None) -> str:
    if is_encrypted_office(content):
        # What is inside cannot be known, so its name is believed
        return claimed.name if claimed and not claimed.is_text else types.DOCX
    for stream, media_type in _OLE_STREAMS:
        if _has_ole_stream(content, stream):
            return media_type
    raise _unsupported(
        name, "The file is in an old Office or Outlook format: save it as PPTX, DOCX or EML"
    )


def _has_ole_stream(content: bytes, stream: str) -> bool:
    """Tell whether an entry of the file's directory, which are aligned, has this name."""
    wanted = stream.encode("utf-16-le") + b"\0\0"
    at = content.find(wanted)
    while at >= 0 and at % _OLE_ENTRY:
        at = content.find(wanted, at + 1)
    return at >= 0


def _text_type(
    name: str, content: bytes, claimed: types.MediaType | None, default_text: str
) -> str:
    if not _is_text(content):
        if claimed is not None and not claimed.is_text:
            raise _unreadable(name, f"the file is not a {claimed.label}, although so named")
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
    return untextlike <= len(content) * _UNTEXTLIKE_SHARE


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
