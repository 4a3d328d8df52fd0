"""PowerPoint presentations: a page for each slide, its title as section, speaker notes after it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from retrieval.extraction.archives import Archive, BrokenArchive
from retrieval.extraction.outline import Outline
from retrieval.extraction.reader import Reading
from retrieval.extraction.readers import xml
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
        _write_slide(archive, part, reading.outline)
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
        if xml.name(slide) == "sldId" and (key := _relation_id(slide)) in related
    ]
    if parts:
        return [part for part in parts if part in archive.names]
    found = [name for name in archive.names if re.fullmatch(r"ppt/slides/slide\d+\.xml", name)]
    return sorted(found, key=_number)


def _relation_id(slide: Element) -> str:
    """Return ``r:id``: beside it stands an ``id`` without a namespace."""
    return next((str(v) for k, v in slide.attrib.items() if str(k).endswith("}id")), "")


def _number(part: str) -> int:
    match = _NUMBER.search(part)
    return int(match[1]) if match else 0


def _write_slide(archive: Archive, part: str, outline: Outline) -> None:
    root = xml.parse(archive.read(part), part)
    related = xml.relations(archive, part)
    shapes = list(_shapes(root))
    titles = [shape for shape in shapes if _placeholder(shape) in _TITLES]
    title = " ".join(_lines(titles[0])) if titles else ""
    outline.leave(1)
    outline.heading(1, title)
    for shape in shapes:
        if shape not in titles[:1] and _placeholder(shape) not in _FURNITURE:
            outline.block(_shape_text(archive, shape, related))
    for kind, target in related.values():
        if kind == "notesSlide" and target in archive.names:
            _write_notes(archive, target, outline)


def _write_notes(archive: Archive, part: str, outline: Outline) -> None:
    root = xml.parse(archive.read(part), part)
    blocks = [
        "\n".join(_lines(shape)) for shape in _shapes(root) if _placeholder(shape) not in _FURNITURE
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
        return "\n".join(_lines(shape))
    parts = []
    for element in shape.iter():
        kind = xml.name(element)
        if kind == "tbl":
            parts.append(_table(element))
        elif kind == "chart":
            target = related.get(xml.attribute(element, "id") or "", ("", ""))[1]
            parts.append(_chart(archive, target))
        elif kind == "relIds":
            target = related.get(xml.attribute(element, "dm") or "", ("", ""))[1]
            parts.append(_diagram(archive, target))
    return "\n\n".join(part for part in parts if part)


def _lines(element: Element) -> Iterator[str]:
    for paragraph in element.iter():
        if xml.name(paragraph) == "p":
            text = "".join(_runs(paragraph))
            if text.strip():
                yield text


def _runs(paragraph: Element) -> Iterator[str]:
    for element in paragraph.iter():
        kind = xml.name(element)
        if kind == "t":
            yield element.text or ""
        elif kind == "br":
            yield "\n"


def _table(table: Element) -> str:
    rows = [
        [" ".join(_lines(cell)) for cell in row if xml.name(cell) == "tc"]
        for row in table
        if xml.name(row) == "tr"
    ]
    properties = xml.first(table, "tblPr")
    has_header = properties is not None and xml.attribute(properties, "firstRow") in ("1", "true")
    return table_text(rows, has_header=has_header)


def _chart(archive: Archive, part: str) -> str:
    """Return a chart's title and its series as a table with the categories on top."""
    content = archive.find(part) if part else None
    if content is None:
        return ""
    root = xml.parse(content, part)
    title = "".join(e.text or "" for e in root.iter() if xml.name(e) == "t")
    rows: list[list[str]] = []
    for series in (element for element in root.iter() if xml.name(element) == "ser"):
        name = " ".join(_values(series, "tx"))
        categories = _values(series, "cat") or _values(series, "xVal")
        if not rows and categories:
            rows.append(["", *categories])
        rows.append([name, *(_values(series, "val") or _values(series, "yVal"))])
    return "\n".join(part for part in (title, table_text(rows, has_header=True)) if part)


def _values(series: Element, child: str) -> list[str]:
    element = xml.first(series, child)
    return [] if element is None else [e.text or "" for e in element.iter() if xml.name(e) == "v"]


def _diagram(archive: Archive, part: str) -> str:
    content = archive.find(part) if part else None
    return "" if content is None else "\n".join(_lines(xml.parse(content, part)))
