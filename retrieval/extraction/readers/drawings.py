"""Charts and diagrams of office documents: what they say, as text."""

from __future__ import annotations

from collections.abc import Iterator

from retrieval.extraction.archives import Archive
from retrieval.extraction.readers import xml
from retrieval.extraction.readers.number_formats import number_format
from retrieval.extraction.readers.xml import Element
from retrieval.extraction.tables import table_text


def drawn_texts(
    archive: Archive, element: Element, related: dict[str, tuple[str, str]]
) -> Iterator[str]:
    """Yield the text of each chart and diagram that stands in ``element``."""
    for drawing in element.iter("{*}chart", "{*}relIds"):
        is_chart = xml.name(drawing) == "chart"
        key = xml.attribute(drawing, "id" if is_chart else "dm")
        part = related.get(key or "", ("", ""))[1]
        content = archive.find(part) if part else None
        if content is not None:
            root = xml.parse(content, part)
            yield _chart(root) if is_chart else "\n".join(lines(root))


def lines(element: Element) -> Iterator[str]:
    """Yield the paragraphs of a drawing that are not blank."""
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


def _chart(root: Element) -> str:
    """Return a chart's titles and its series as a table with the categories on top."""
    titles = ["".join(_runs(title)) for title in root.iter("{*}title")]
    rows: list[list[str]] = []
    for series in (element for element in root.iter() if xml.name(element) == "ser"):
        name = " ".join(_values(series, "tx"))
        categories = _values(series, "cat") or _values(series, "xVal")
        if not rows and categories:
            rows.append(["", *categories])
        rows.append([name, *(_values(series, "val") or _values(series, "yVal"))])
    return "\n".join(part for part in (*titles, table_text(rows, has_header=True)) if part)


def _values(series: Element, child: str) -> list[str]:
    element = xml.first(series, child)
    values = () if element is None else element.iter("{*}v")
    return [number_format("")(value.text or "") for value in values]
