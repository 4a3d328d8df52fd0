"""HTML: the text that a visitor sees, with the headings it stands under.

Left out: scripts, styles, what is hidden, menus (``nav``) and the options of forms. Links and
pictures become their text. Tables of data become rows; tables that only lay out are dissolved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lxml import etree, html
from lxml.html import defs

from retrieval.extraction.outline import Outline
from retrieval.extraction.reader import Reading
from retrieval.extraction.readers.text import decoded_text
from retrieval.extraction.results import Damaged, NoText
from retrieval.extraction.tables import table_text


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DECLARED = re.compile(
    rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w.:-]+)|<\?xml[^>]+encoding\s*=\s*[\"']([\w.:-]+)", re.I
)
# Programs that have no title to write write the file's name
_FILE_NAME = re.compile(r"\S+\.\w{2,5}")
_DECLARED_WITHIN = 4096
_DROPPED = _words(
    "script style template noscript head svg iframe object embed audio video canvas datalist"
    " select annotation annotation-xml rt rp"
)
_MENUS = frozenset(("nav", "menu"))
_MENU_ROLES = frozenset(("navigation", "search", "menu", "menubar"))
# Links beside headings: "[edit]", "¶"
_HEADING_LINKS = frozenset(("mw-editsection", "headerlink", "anchorjs-link"))
_HIDDEN_STYLE = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.I)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_INLINE = _words(
    "a abbr acronym b bdi bdo big button cite code data del dfn em font i img input ins kbd label"
    " mark math meter mfrac mi mn mo mrow msub msup mtext nobr output progress q rp rt ruby s samp"
    " semantics small span strike strong sub sup time tt u var wbr br"
)
_CELLS = frozenset(("td", "th"))
# What is longer is an article in a frame
_LONGEST_CELL = 2_000
# Pages write 1000 where they mean all; each column costs an empty cell
_MOST_SPAN = 100
_LISTS = frozenset(("ul", "ol", "dl"))
_VERBATIM = frozenset(("pre", "textarea"))
_SPACE = re.compile(r"[ \t\n\r\f]+")
# Elements that HTML knows: anything else between angle brackets is a text's own notation
KNOWN_TAGS = frozenset(defs.tags) | _words(
    "main section article aside header footer nav figure figcaption details summary mark time"
    " template picture source audio video track svg math data dialog hgroup ruby rt rp bdi wbr"
    " meter progress output search menu center font tt big strike u s nobr kbd"
)


def read_html(content: bytes, reading: Reading) -> None:
    """Read a page; its title opens the path where no heading of the first level does."""
    root = _parsed(content, reading)
    if root is None:
        raise NoText
    title = (root.findtext("./head/title") or "").strip()
    if title and not _FILE_NAME.fullmatch(title) and not _has_main_heading(root):
        reading.outline.heading(0, title)
    write_page(root, reading.outline)


def write_source(content: bytes, reading: Reading) -> None:
    """Write a page that is part of another document."""
    root = _parsed(content, reading)
    if root is not None:
        write_page(root, reading.outline)


def _parsed(content: bytes, reading: Reading) -> html.HtmlElement | None:
    match = _DECLARED.search(content[:_DECLARED_WITHIN])
    declared = (match[1] or match[2]).decode("ascii") if match else None
    return parse(decoded_text(content, reading, declared))


def write_page(root: html.HtmlElement, outline: Outline) -> None:
    """Write the text of a parsed page; of one that is nothing but menus, the menus."""
    if not _Writer(outline).write(root):
        _Writer(outline, with_menus=True).write(root)


def parse(text: str) -> html.HtmlElement | None:
    """Return the root element of a page or fragment; None when there is nothing in it.

    Raises Damaged for one whose elements are nested thousands of levels deep.
    """
    parser = html.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True
    )
    # By way of bytes: a declaration of another encoding in a text is not to be believed
    encoded = text.replace("\0", "").encode("utf-8", "replace")
    try:
        root = html.document_fromstring(encoded, parser=parser)
    except etree.ParserError:
        return None
    except etree.XMLSyntaxError as error:
        # It recovers from everything but want of memory, for which it has no better name
        raise MemoryError from error
    # The parser drops the rest of such a page and says so in its log only
    if any(error.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT for error in parser.error_log):
        raise Damaged("The page is nested too deeply to be read.")
    return root


def _has_main_heading(root: html.HtmlElement) -> bool:
    return any("".join(heading.itertext()).strip() for heading in root.iter("h1"))


class _Writer:
    """One walk over a page. Without recursion: pages nest as deep as they like."""

    def __init__(self, outline: Outline, *, with_menus: bool = False) -> None:
        self._outline = outline
        self._with_menus = with_menus
        self._inline: list[str] = []
        self._preformatted = 0
        self._lists: list[int | None] = []
        self._items: list[str] = []
        self._marker = ""
        self._wrote = False

    def write(self, root: html.HtmlElement) -> bool:
        """Write everything; tell whether there was anything to write."""
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            tag = element.tag if isinstance(element.tag, str) else ""
            if event == "end":
                self._end(tag, element)
            elif self.is_left_out(tag, element):
                walk.skip_subtree()
            elif tag in _HEADINGS or element.get("role") == "heading":
                self._heading(tag, element)
                walk.skip_subtree()
            elif tag == "noframes":
                # The parser leaves what is in it unread
                inner = parse(element.text or "")
                if inner is not None:
                    self._flush()
                    self._wrote |= _Writer(self._outline).write(inner)
                walk.skip_subtree()
            elif tag == "table" and _is_data(element):
                self._flush()
                self._block(_table(element, self))
                walk.skip_subtree()
            else:
                self._start(tag, element)
        self._flush()
        self._flush_list()
        return self._wrote

    def visible_text(self, element: html.HtmlElement) -> str:
        """Return what is visible of an element in one line, a space where a block ends."""
        if self.is_left_out(str(element.tag), element):
            return ""
        parts: list[str] = []
        walk = etree.iterwalk(element, events=("start", "end"))
        for event, part in walk:
            tag = part.tag if isinstance(part.tag, str) else ""
            if event == "start":
                if part is not element and self.is_left_out(tag, part):
                    walk.skip_subtree()
                else:
                    parts.append(" " if tag == "br" else _lead(tag, part))
            else:
                if tag not in _INLINE:
                    parts.append(" ")
                if part is not element:
                    parts.append(part.tail or "")
        return _SPACE.sub(" ", "".join(parts)).strip()

    def _start(self, tag: str, element: html.HtmlElement) -> None:
        if tag == "br":
            self._inline.append("\n" if self._preformatted else "\x00")
        elif tag not in _INLINE:
            self._flush()
        if tag in _LISTS:
            self._lists.append(_first_number(element) if tag == "ol" else None)
        elif tag in ("li", "dt", "dd"):
            self._marker = self._next_marker(tag)
        elif tag in _VERBATIM:
            self._preformatted += 1
        self._inline.append(_lead(tag, element))

    def _end(self, tag: str, element: html.HtmlElement) -> None:
        # The end of what was left out comes too, and only what follows it counts
        if not self.is_left_out(tag, element):
            if tag in _VERBATIM:
                self._flush_preformatted()
                self._preformatted -= 1
            elif tag not in _INLINE:
                self._flush()
            if tag in _LISTS:
                self._lists.pop()
                if not self._lists:
                    self._flush_list()
        self._inline.append(element.tail or "")

    def _heading(self, tag: str, element: html.HtmlElement) -> None:
        self._flush()
        self._flush_list()
        text = self.visible_text(element)
        level = _HEADINGS.get(tag) or _aria_level(element)
        if text:
            self._outline.heading(level, text)
            self._wrote = True

    def _next_marker(self, tag: str) -> str:
        indent = "  " * max(0, len(self._lists) - 1)
        if tag == "dt":
            return indent
        number = self._lists[-1] if self._lists else None
        if number is None:
            return indent + "- "
        self._lists[-1] = number + 1
        return f"{indent}{number}. "

    def _flush(self) -> None:
        if self._preformatted:
            self._inline.append("\n")
            return
        text = _SPACE.sub(" ", "".join(self._inline))
        self._inline = []
        text = "\n".join(line.strip() for line in text.split("\x00")).strip()
        if text:
            self._block(text)

    def _flush_preformatted(self) -> None:
        text = "".join(self._inline).replace("\x00", "\n").strip("\n")
        self._inline = []
        if text.strip():
            self._block(f"```\n{text}\n```" if "\n" in text else text)

    def _block(self, text: str) -> None:
        if not text.strip():
            return
        self._wrote = True
        if self._lists or self._marker:
            self._items.append(self._marker + text)
            self._marker = ""
            if not self._lists:
                self._flush_list()
        else:
            self._outline.block(text)

    def _flush_list(self) -> None:
        if self._items:
            self._outline.block("\n".join(self._items))
        self._items = []

    def is_left_out(self, tag: str, element: html.HtmlElement) -> bool:
        """Tell whether a visitor does not see this element, or it is a menu."""
        if tag in _DROPPED or not tag:
            return True
        role = element.get("role", "")
        if not self._with_menus and (tag in _MENUS or role in _MENU_ROLES):
            return True
        if element.get("hidden", "until-found").lower() != "until-found":
            return True
        if _HIDDEN_STYLE.search(element.get("style", "")):
            return True
        if tag == "input":
            return element.get("type", "text").lower() in ("hidden", "checkbox", "radio")
        return not _HEADING_LINKS.isdisjoint(element.get("class", "").split())


def _lead(tag: str, element: html.HtmlElement) -> str:
    if tag == "img":
        alternative = str(element.get("alt") or "")
        return alternative if " " in alternative.strip() else ""
    if tag == "input":
        return str(element.get("value") or "")
    if tag == "br":
        return ""
    return element.text or ""


def _is_data(table: html.HtmlElement) -> bool:
    """Tell a table of data from one that lays out a page: that holds tables, headings or text."""
    inner = ("table", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "article", "section")
    if next(table.iterdescendants(*inner), None) is not None:
        return False
    cells = table.iterdescendants("td", "th")
    return all(sum(map(len, cell.itertext())) <= _LONGEST_CELL for cell in cells)


def _table(table: html.HtmlElement, writer: _Writer) -> str:
    rows = [row for row in table.iter("tr") if not writer.is_left_out("tr", row)]
    has_header = bool(rows) and any(cell.tag == "th" for cell in rows[0])
    caption = " ".join(writer.visible_text(part) for part in table.iterchildren("caption"))
    text = table_text(list(_grid(rows, writer)), has_header=has_header)
    return "\n".join(part for part in (caption, text, *_strays(table)) if part)


def _grid(rows: Sequence[html.HtmlElement], writer: _Writer) -> Iterator[list[str]]:
    """Yield the rows with empty cells where a cell spans, so that each stands in its column."""
    # Column → how many further rows a cell above reaches down
    below: dict[int, int] = {}
    for row in rows:
        line: list[str] = []
        reaching, below = below, {}
        for cell in row:
            if cell.tag not in _CELLS:
                continue
            while reaching.get(len(line)):
                line.append("")
            width, height = _span(cell, "colspan"), _span(cell, "rowspan")
            for column in range(len(line), len(line) + width):
                below[column] = height - 1
            line += [writer.visible_text(cell), *[""] * (width - 1)]
        for column, count in reaching.items():
            below[column] = max(below.get(column, 0), count - 1)
        yield line


def _span(cell: html.HtmlElement, name: str) -> int:
    value = cell.get(name, "1").strip()
    return max(1, min(int(value), _MOST_SPAN)) if value.isdecimal() and len(value) < 9 else 1


def _strays(table: html.HtmlElement) -> Iterator[str]:
    """Text that stands in a table outside its cells; parsers leave it where it is."""
    for part in table.iter("table", "tbody", "thead", "tfoot", "tr"):
        texts = [part.text, *(child.tail for child in part)]
        yield from (text.strip() for text in texts if text and text.strip())


def _aria_level(element: html.HtmlElement) -> int:
    level = element.get("aria-level", "2")
    return int(level) if level.isdecimal() and 0 < int(level) < 10 else 2


def _first_number(element: html.HtmlElement) -> int:
    start = element.get("start", "1")
    return int(start) if start.isdecimal() and len(start) < 7 else 1
