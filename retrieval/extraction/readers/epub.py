"""EPUB books: their pages in reading order, one heading path through the whole book."""

from __future__ import annotations

import re

from retrieval.extraction.archives import Archive, BrokenArchive, resolve
from retrieval.extraction.encodings import decode
from retrieval.extraction.reader import Reading
from retrieval.extraction.readers import html, xml
from retrieval.extraction.results import Damaged, ExtractionFailed

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_PAGES = re.compile(r"\.x?html?\Z", re.I)
_PAGE_TYPES = ("application/xhtml+xml", "text/html", "text/x-oeb1-document")


def read_epub(content: bytes, reading: Reading) -> None:
    """Read a book; one whose list of pages is broken, in the order of its pages' names.

    Raises ExtractionFailed ``extraction.protected`` for one under copy protection.
    """
    try:
        archive = Archive(content)
    except BrokenArchive as error:
        raise Damaged(f"The book cannot be opened: {error}.") from error
    if b"xhtml" in (archive.find(_ENCRYPTION) or b"") or "META-INF/rights.xml" in archive.names:
        raise ExtractionFailed(
            "extraction.protected", "The book is copy-protected: its text cannot be read."
        )
    for page in _spine(archive, reading):
        source = archive.find(page)
        if source is None:
            reading.notices.append(f"The page {page!r} is missing in the book.")
            continue
        root = html.parse(decode(source).text)
        if root is not None:
            html.write_page(root, reading.outline)


def _spine(archive: Archive, reading: Reading) -> list[str]:
    """Return the parts that hold the text, in reading order, each once."""
    try:
        pages = _listed(archive)
    except Damaged:
        pages = []
    if pages:
        return pages
    found = sorted(name for name in archive.names if _PAGES.search(name))
    if not found:
        raise Damaged("The book is damaged: it lists no pages and holds none.")
    reading.notices.append(
        "The book's list of pages is broken: its pages were read in the order of their names."
    )
    return found


def _listed(archive: Archive) -> list[str]:
    """Return the pages that the book lists. Raises Damaged where the list cannot be read."""
    container = xml.parse(archive.read(_CONTAINER), _CONTAINER)
    package = next(
        (str(e.get("full-path")) for e in container.iter() if xml.name(e) == "rootfile"), ""
    )
    root = xml.parse(archive.read(package), package)
    pages = {
        str(item.get("id")): resolve(package, str(item.get("href", "")))
        for item in root.iter()
        if xml.name(item) == "item" and item.get("media-type") in _PAGE_TYPES
    }
    order = [str(e.get("idref")) for e in root.iter() if xml.name(e) == "itemref"]
    return list(dict.fromkeys(pages[key] for key in order if key in pages))
