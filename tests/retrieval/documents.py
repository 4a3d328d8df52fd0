"""Small documents made on the spot, each with just what a test looks for."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

from docx import Document
from fpdf import FPDF
from PIL import Image, ImageDraw, ImageFont

_OOXML = "http://schemas.openxmlformats.org"
_RELATIONSHIPS = f"{_OOXML}/package/2006/relationships"
_OFFICE = f"{_OOXML}/officeDocument/2006/relationships"
_DRAWING = f"{_OOXML}/drawingml/2006/main"
_PRESENTATION = f"{_OOXML}/presentationml/2006/main"
_SHEET = f"{_OOXML}/spreadsheetml/2006/main"


def zipped(parts: dict[str, str | bytes]) -> bytes:
    """Return a ZIP archive with these parts."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def word(fill: Callable[[Any], object]) -> bytes:
    """Return a Word document that ``fill`` has written to."""
    document = Document()
    fill(document)
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def word_xml(body: str, **parts: str) -> bytes:
    """Return a Word document with this body and further parts, as raw XML."""
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": (
                f'<w:document xmlns:w="{_OOXML}/wordprocessingml/2006/main"'
                f' xmlns:mc="{_OOXML}/markup-compatibility/2006">'
                f"<w:body>{body}</w:body></w:document>"
            ),
            **parts,
        }
    )


def relations(*targets: tuple[str, str]) -> str:
    """Return the part that says what another refers to, by kind and name; ids count from r1."""
    items = "".join(
        f'<Relationship Id="r{number}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(targets, start=1)
    )
    return f'<Relationships xmlns="{_RELATIONSHIPS}">{items}</Relationships>'


def _shape(text: str, placeholder: str = "") -> str:
    kind = f'<p:nvPr><p:ph type="{placeholder}"/></p:nvPr>' if placeholder else ""
    lines = "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in text.split("\n"))
    return f"<p:sp><p:nvSpPr>{kind}</p:nvSpPr><p:txBody>{lines}</p:txBody></p:sp>"


def _slide(shapes: str) -> str:
    return (
        f'<p:sld xmlns:p="{_PRESENTATION}" xmlns:a="{_DRAWING}"><p:cSld><p:spTree>'
        f"{shapes}</p:spTree></p:cSld></p:sld>"
    )


def presentation(slides: list[tuple[str, str, str]]) -> bytes:
    """Return a presentation of (title, body, speaker notes); the files' numbers run backwards."""
    count = len(slides)
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": relations(("officeDocument", "ppt/presentation.xml")),
        "ppt/_rels/presentation.xml.rels": relations(
            *(("slide", f"slides/slide{count - at}.xml") for at in range(count))
        ),
        "ppt/presentation.xml": (
            f'<p:presentation xmlns:p="{_PRESENTATION}" xmlns:r="{_OFFICE}"><p:sldIdLst>'
            + "".join(f'<p:sldId id="{256 + at}" r:id="r{at + 1}"/>' for at in range(count))
            + "</p:sldIdLst></p:presentation>"
        ),
    }
    for at, (title, body, notes) in enumerate(slides):
        number = count - at
        shapes = _shape(body) + (_shape(title, "title") if title else "") + _shape("7", "sldNum")
        parts[f"ppt/slides/slide{number}.xml"] = _slide(shapes)
        if notes:
            parts[f"ppt/slides/_rels/slide{number}.xml.rels"] = relations(
                ("notesSlide", f"../notesSlides/notesSlide{at + 1}.xml")
            )
            parts[f"ppt/notesSlides/notesSlide{at + 1}.xml"] = _slide(_shape(notes, "body"))
    return zipped(parts)


def workbook(sheets: dict[str, list[list[str | float]]]) -> bytes:
    """Return a workbook with these sheets of texts and numbers."""
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": (
            f'<Types xmlns="{_OOXML}/package/2006/content-types">'
            '<Default Extension="xml" ContentType="application/xml"/></Types>'
        ),
        "_rels/.rels": relations(("officeDocument", "xl/workbook.xml")),
        "xl/_rels/workbook.xml.rels": relations(
            *(("worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(sheets) + 1))
        ),
        "xl/workbook.xml": (
            f'<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}"><sheets>'
            + "".join(
                f'<sheet name="{name}" sheetId="{n}" r:id="r{n}"/>'
                for n, name in enumerate(sheets, start=1)
            )
            + "</sheets></workbook>"
        ),
    }
    for number, rows in enumerate(sheets.values(), start=1):
        data = "".join(f"<row>{''.join(map(_cell, row))}</row>" for row in rows)
        parts[f"xl/worksheets/sheet{number}.xml"] = (
            f'<worksheet xmlns="{_SHEET}"><sheetData>{data}</sheetData></worksheet>'
        )
    return zipped(parts)


def _cell(value: str | float) -> str:
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
    return f"<c><v>{value}</v></c>"


def book(pages: dict[str, str], *, mimetype: str = "application/epub+zip", **parts: str) -> bytes:
    """Return an EPUB of pages in reading order, which is not that of their names.

    ``parts`` replace others: ``container`` and ``package``.
    """
    items = "".join(
        f'<item id="{n}" href="{name}" media-type="application/xhtml+xml"/>'
        for n, name in enumerate(sorted(pages))
    )
    order = {name: n for n, name in enumerate(sorted(pages))}
    spine = "".join(f'<itemref idref="{order[name]}"/>' for name in pages)
    return zipped(
        {
            **({"mimetype": mimetype} if mimetype else {}),
            "META-INF/container.xml": parts.get("container")
            or (
                '<container><rootfiles><rootfile full-path="book/content.opf"/></rootfiles>'
                "</container>"
            ),
            "book/content.opf": parts.get("package")
            or (f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>"),
            **{f"book/{name}": f"<html><body>{page}</body></html>" for name, page in pages.items()},
        }
    )


def opendocument(kind: str, body: str) -> bytes:
    """Return an OpenDocument ("text", "presentation") with this body as raw XML."""
    names = ["office", "text", "table", "draw", "presentation"]
    space = "urn:oasis:names:tc:opendocument:xmlns"
    spaces = " ".join(
        f'xmlns:{name}="{space}:{"drawing" if name == "draw" else name}:1.0"' for name in names
    )
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": (
                f"<office:document-content {spaces}><office:body><office:{kind}>{body}"
                f"</office:{kind}></office:body></office:document-content>"
            ),
        }
    )


def pdf(fill: Callable[[FPDF], object]) -> bytes:
    """Return a PDF that ``fill`` has written to; its font is set."""
    document = FPDF()
    document.set_font("Helvetica", size=11)
    fill(document)
    return bytes(document.output())


def pages(*texts: str) -> bytes:
    """Return a PDF with a page for each of these texts."""

    def fill(document: FPDF) -> None:
        for text in texts:
            document.add_page()
            document.multi_cell(w=0, text=text)

    return pdf(fill)


def picture(*lines: str) -> Image.Image:
    """Return a page of 200 dots an inch with these lines on it, as a scanner gives it."""
    page = Image.new("L", (1650, 1000), 255)
    font = ImageFont.load_default(size=48)
    for at, line in enumerate(lines):
        ImageDraw.Draw(page).text((150, 150 + 90 * at), line, fill=0, font=font)
    return page


def scan(*pages: str) -> bytes:
    """Return a PDF of pictures of these texts, a page each; a blank text leaves a page of text."""

    def fill(document: FPDF) -> None:
        for text in pages:
            document.add_page()
            if text:
                document.image(picture(*text.split("\n")), w=document.epw)
            else:
                document.cell(text="This page was written, not scanned.")

    return pdf(fill)


def raw_pdf(*objects: bytes) -> bytes:
    """Return a PDF of these objects; the first is the catalogue."""
    content, places = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return content + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer<</Root 1 0 R/Size %d>>\nstartxref\n%d\n%%%%EOF"
        % (len(objects) + 1, table, len(objects) + 1, len(content))
    )


def pdf_stream(content: bytes) -> bytes:
    """Return a compressed stream object."""
    packed = zlib.compress(content, 9)
    return b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(packed), packed)


def ole(*streams: str, below: tuple[str, ...] = (), head: bytes = b"", size: int = 4096) -> bytes:
    """Return an OLE file with these streams at its top and others in a storage below it.

    Each begins with ``head``. One of less than 4 KiB must be the only one: it stands inside the
    stream of the root.
    """
    if size < 4096:
        content = bytearray(ole(*streams, head=head))
        root = 2 * 512
        content[root + 0x74 : root + 0x78] = content[root + 0x80 + 0x74 : root + 0x80 + 0x78]
        content[root + 0x80 + 0x74 : root + 0x80 + 0x7C] = struct.pack("<IQ", 0, size)[:8]
        return bytes(content)
    sector = 512
    names = ["Root Entry", *streams, *(("Storage", *below) if below else ())]
    count = len(names)
    directory_sectors = -(-count * 128 // sector)
    first_data = 1 + directory_sectors
    table = [0xFFFFFFFD]
    table += [*range(2, 1 + directory_sectors), 0xFFFFFFFE]
    directory = b""
    for number, name in enumerate(names):
        at_top = 1 <= number <= len(streams) + bool(below)
        kind = 5 if number == 0 else 1 if name == "Storage" else 2
        has_next = at_top and number < len(streams) + bool(below)
        is_below = number > len(streams) + 1
        child = 1 if number == 0 else len(streams) + 2 if name == "Storage" else 0xFFFFFFFF
        following = number + 1 if has_next or (is_below and number + 1 < count) else 0xFFFFFFFF
        start = first_data + len(table) - first_data if kind == 2 else 0xFFFFFFFE
        if kind == 2:
            table += [*range(start + 1, start + size // sector), 0xFFFFFFFE]
        encoded = name.encode("utf-16-le") + b"\0\0"
        directory += (
            encoded.ljust(64, b"\0")
            + struct.pack("<HBB", len(encoded), kind, 1)
            + struct.pack("<III", 0xFFFFFFFF, following, child)
            + b"\0" * 36
            + struct.pack("<IQ", start, size if kind == 2 else 0)
        )
    header = (
        bytes.fromhex("d0cf11e0a1b11ae1").ljust(0x18, b"\0")
        + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6)
        + b"\0" * 6
        + struct.pack("<IIII", 0, 1, 1, 0)
        + struct.pack("<IIIII", size, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0)
        + struct.pack("<I", 0)
    ).ljust(sector, b"\xff")
    fat = struct.pack(f"<{len(table)}I", *table).ljust(sector, b"\xff")
    data = head.ljust(size, b"\0") * (count - 1 - bool(below))
    return header + fat + directory.ljust(directory_sectors * sector, b"\0") + data
