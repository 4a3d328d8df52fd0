"""PowerPoint presentations: a page for each slide, its title as section, speaker notes after it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from retrieval.extraction.archives import Archive, BrokenArchive
from retrieval.extraction.outline import Outline
from retrieval.extraction.reader import Reading
from retrieval.extraction.readers import xml
from retrieval.extraction.readers.drawings import drawn_texts, lines
from retrieval.extraction.readers.xml import Element
from retrieval.extraction.results import Damaged
from retrieval.extraction.tables import table_text

NOTES = "Speaker notes"
_TITLES = ("title", "ctrTitle")
# Placeholders that repeat on every slide
_FURNITURE = ("dt", "ftr", "sldNum", "hdr", "sldImg")
_NUMBER = re.compile(r"(\d+)\.xml\Z")


def read_slides(content: bytes, reading: Reading) -> None:
    """Read a presentation in the order in which it is shown; hidden slides are read too."""
    try:
        archive = Archive(content)
    except BrokenArchive as error:
        raise Damaged(f"The presentation cannot be opened: {error}.") from error
    parts = _slide_parts(archive)
    for number, part in enumerate(parts, start=1):
        reading.outline.page(number)
        if _write_slide(archive, part, reading.outline):
            reading.notices.append("The presentation has comments; they were left out.")
    reading.pages = len(parts)


def _slide_parts(archive: Archive) -> list[str]:
    main = "ppt/presentation.xml"
    for kind, name in xml.relations(archive, "").values():
        if kind == "officeDocument":
            main = name
    related = xml.relations(archive, main)
    content = archive.find(main)
    order = [] if content is None else list(xml.parse(content, main).iter())
    parts = [
        related[key][1]
        for slide in order
        if xml.name(slide) == "sldId" and (key := xml.qualified(slide, "id")) in related
    ]
    if parts:
        return [part for part in parts if part in archive.names]
    found = [name for name in archive.names if re.fullmatch(r"ppt/slides/slide\d+\.xml", name)]
    return sorted(found, key=_number)


def _number(part: str) -> int:
    match = _NUMBER.search(part)
    return int(match[1]) if match else 0


def _write_slide(archive: Archive, part: str, outline: Outline) -> bool:
    """Write a slide and its notes; tell whether it has comments."""
    root = xml.parse(archive.read(part), part)
    related = xml.relations(archive, part)
    shapes = list(_shapes(root))
    titles = [shape for shape in shapes if _placeholder(shape) in _TITLES]
    title = " ".join(lines(titles[0])) if titles else ""
    outline.leave(1)
    outline.heading(1, title)
    for shape in shapes:
        if shape not in titles[:1] and _placeholder(shape) not in _FURNITURE:
            outline.block(_shape_text(archive, shape, related))
    for kind, target in related.values():
        if kind == "notesSlide" and target in archive.names:
            _write_notes(archive, target, outline)
    return any(kind == "comments" for kind, _ in related.values())


def _write_notes(archive: Archive, part: str, outline: Outline) -> None:
    root = xml.parse(archive.read(part), part)
    blocks = [
        "\n".join(lines(shape)) for shape in _shapes(root) if _placeholder(shape) not in _FURNITURE
    ]
    if any(block.strip() for block in blocks):
        outline.heading(2, NOTES)
        for block in blocks:
            outline.block(block)


def _shapes(root: Element) -> Iterator[Element]:
    """Yield shapes and frames in their order, those of groups in place of the group."""
    for child in root:
        kind = xml.name(child)
        if kind in ("sp", "graphicFrame", "pic", "cxnSp"):
            yield child
        elif kind in ("cSld", "spTree", "grpSp", "AlternateContent", "Choice"):
            yield from _shapes(child)


def _placeholder(shape: Element) -> str | None:
    for element in shape.iter():
        if xml.name(element) == "ph":
            return xml.attribute(element, "type") or "body"
        if xml.name(element) == "txBody":
            return None
    return None


def _shape_text(archive: Archive, shape: Element, related: dict[str, tuple[str, str]]) -> str:
    if xml.name(shape) != "graphicFrame":
        return "\n".join(lines(shape))
    tables = (_table(element) for element in shape.iter() if xml.name(element) == "tbl")
    parts = (*tables, *drawn_texts(archive, shape, related))
    return "\n\n".join(part for part in parts if part)


def _table(table: Element) -> str:
    rows = [
        [" ".join(lines(cell)) for cell in row if xml.name(cell) == "tc"]
        for row in table
        if xml.name(row) == "tr"
    ]
    properties = xml.first(table, "tblPr")
    has_header = properties is not None and xml.attribute(properties, "firstRow") in ("1", "true")
    return table_text(rows, has_header=has_header)
