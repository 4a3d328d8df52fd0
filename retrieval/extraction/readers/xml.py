"""XML parts of office documents: parsed without entities, read by local name.

The names of the two dialects of Office Open XML differ in their namespaces only.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TypeAlias

from lxml import etree

from retrieval.extraction.archives import Archive, resolve
from retrieval.extraction.results import Damaged, TextTooLarge

Element: TypeAlias = etree._Element

# How many elements of a list stay before they are dropped together
_KEPT = 100


def parse(content: bytes, part: str) -> Element:
    """Return the root of an XML part. Raises Damaged, naming the part."""
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
        recover=False,
    )
    try:
        return etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        raise _failure(error, part) from error


def children_of(content: bytes, parent: str, part: str) -> Iterator[Element]:
    """Yield the children of the element ``parent`` one by one, so that none is kept after it.

    Raises Damaged, naming the part, where its XML breaks off.
    """
    source = io.BytesIO(content)
    walk = etree.iterparse(
        source,
        events=("start", "end"),
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
        huge_tree=False,
    )
    inside: Element | None = None
    try:
        for event, element in walk:
            if event == "start":
                if inside is None and name(element) == parent:
                    inside = element
            elif element is inside:
                return
            elif inside is not None and element.getparent() is inside:
                yield element
                element.clear()
                while element.getprevious() is not None:
                    del inside[0]
    except etree.XMLSyntaxError as error:
        raise _failure(error, part) from error


def ended(content: bytes, wanted: tuple[str, ...], part: str) -> Iterator[Element]:
    """Yield every element of these names when it is whole; few are kept after it.

    Raises Damaged, naming the part, where its XML breaks off.
    """
    walk = etree.iterparse(
        io.BytesIO(content),
        events=("end",),
        tag=[f"{{*}}{one}" for one in wanted],
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
        huge_tree=False,
    )
    try:
        for number, (_, element) in enumerate(walk, start=1):
            yield element
            if number % _KEPT == 0 and (parent := element.getparent()) is not None:
                del parent[:-1]
    except etree.XMLSyntaxError as error:
        raise _failure(error, part) from error


def name(element: Element) -> str:
    """Return an element's name without its namespace; "" for comments and the like."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def attribute(element: Element, wanted: str) -> str | None:
    """Return an attribute by its local name; in office documents these are unique."""
    for key, value in element.attrib.items():
        if str(key).rpartition("}")[2] == wanted:
            return str(value)
    return None


def qualified(element: Element, wanted: str) -> str:
    """Return ``r:id`` and the like: beside it may stand an ``id`` without a namespace."""
    suffix = "}" + wanted
    return next((str(v) for k, v in element.attrib.items() if str(k).endswith(suffix)), "")


def first(element: Element, *path: str) -> Element | None:
    """Return the first descendant along a path of local names of children, or None."""
    found: Element | None = element
    for step in path:
        if found is None:
            return None
        found = next((child for child in found if name(child) == step), None)
    return found


def relations(archive: Archive, part: str) -> dict[str, tuple[str, str]]:
    """Return what an Office part refers to: id → (kind, name of the part); outer links left out."""
    folder, _, file = part.rpartition("/")
    content = archive.find(f"{folder}/_rels/{file}.rels".lstrip("/"))
    if content is None:
        return {}
    found = {}
    for relation in parse(content, f"{part}.rels"):
        target, key = relation.get("Target"), relation.get("Id")
        if target and key and relation.get("TargetMode") != "External":
            kind = str(relation.get("Type", "")).rpartition("/")[2]
            found[str(key)] = (kind, resolve(part, str(target)))
    return found


def _failure(error: etree.XMLSyntaxError, part: str) -> Exception:
    if error.code == etree.ErrorTypes.ERR_NO_MEMORY:
        return MemoryError()
    if error.code == etree.ErrorTypes.ERR_RESOURCE_LIMIT or "huge" in str(error):
        return TextTooLarge(
            "The document holds a single text of over 10 million characters: split it."
        )
    return Damaged(f"The document is damaged: the XML of its part {part!r} is broken.")
