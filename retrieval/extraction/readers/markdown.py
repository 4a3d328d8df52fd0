"""Markdown: the text without its marks, with tables and code as they are.

The title of the front matter is the highest heading; ``{#anchor}`` and ``{.class}`` attributes
go; HTML between the Markdown is read as HTML, but words in angle brackets that HTML does not
know (``<your-name>``) are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block import table as read_table
from markdown_it.token import Token

from retrieval.extraction.outline import Outline
from retrieval.extraction.reader import Reading
from retrieval.extraction.readers import html
from retrieval.extraction.readers.front_matter import split_front_matter
from retrieval.extraction.readers.text import decoded_text
from retrieval.extraction.results import Damaged
from retrieval.extraction.tables import table_text

_FENCE = re.compile(r"[ >]*(`{3,}|~{3,})")
_LIST_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]")
_TABLE_RULE = re.compile(r" {0,3}[|:-][|: \t-]+$")
# Most cells of long tables: nothing that means anything to Markdown
_PLAIN = re.compile(r"(?:[^\W_]|[ .,;:/()?%+-])*")
_FOOTNOTE = re.compile(r"^( {0,3}\[\^[^\]\s]+\]):", re.M)
_ATTRIBUTES = re.compile(r"^\{:?\s*[.#][^{}\n]*\}")
_LAST_ATTRIBUTES = re.compile(r"(?<!\s)\s*\{:?\s*[.#][^{}\n]*\}\s*$")
_CALLOUT = re.compile(r"^\[!(\w+)\][+-]?[ \t]*\n?")
_TAG = re.compile(r"</?\s*([a-zA-Z][\w:.-]*)")
_ALTERNATIVE = re.compile(r"""\balt\s*=\s*("[^"]*"|'[^']*')""", re.I)
_BREAK = re.compile(r"<br\b", re.I)
_OPEN_TABLE = re.compile(r"<(table|ul|ol|dl)\b", re.I)
_INDENT = "  "

# Below the deepest level text would be lost; the parser takes about five frames a level
_DEEPEST = 100
_CONTAINERS = ("blockquote_open", "list_item_open")
# Parsed by pieces, cut at headings: a parsed document takes thirty times its size, and more where
# it is lists
_PIECE = 200_000
_PIECE_LINES = 20_000
# Marks of a table are longer as text than as HTML
_MOST_GROWTH = 20


class _Rows(list[Token]):
    """Takes the tokens of a table and keeps what its cells hold: eight tokens a row are too many."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[list[str]] = []
        self._cell: Token | None = None

    def append(self, token: Token) -> None:
        if token.type == "tr_open":
            self.cells.append([])
        elif token.type == "inline":
            self._cell = token
        elif token.type in ("th_close", "td_close") and self._cell:
            self.cells[-1].append(self._cell.content)


def _table_rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001
    """Read a table by the parser's own rule, as one token with its rows."""
    tokens = state.tokens
    rows = state.tokens = _Rows()
    try:
        is_table = read_table(state, start, end, silent)
    finally:
        state.tokens = tokens
    if is_table and not silent:
        state.push("table", "table", 0).meta["rows"] = rows.cells
    return is_table


def _new_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True, "maxNesting": _DEEPEST})
    parser.enable(["table", "strikethrough"])
    parser.block.ruler.at("table", _table_rule, {"alt": ["paragraph", "reference"]})
    return parser


_parser = _new_parser()


def read_markdown(content: bytes, reading: Reading) -> None:
    """Read a Markdown document."""
    write_markdown(decoded_text(content, reading), reading.outline)


def write_markdown(text: str, outline: Outline) -> None:
    """Write the text of a Markdown document to ``outline``.

    Raises Damaged for one that is nested a hundred levels deep.
    """
    front, body = split_front_matter(text.replace("\r\n", "\n").replace("\r", "\n"))
    if front.title:
        outline.heading(0, front.title)
    for line in front.lines:
        outline.block(line)
    body = _FOOTNOTE.sub(r"\1", _without_gaps_in_html(body))
    for piece in _pieces(body):
        links: dict[str, Any] = {}
        tokens = _parser.parse(piece, links)
        if any(map(_is_too_deep, tokens)):
            raise Damaged("The document is nested too deeply to be read.")
        at = 0
        while at < len(tokens):
            end = _end_of_block(tokens, at)
            _write_block(tokens[at:end], links, outline, front.title)
            at = end


def _pieces(text: str) -> Iterator[str]:
    """Cut a long text at headings; where these are far apart, at paragraphs, items of a list or
    rows of a table, which then begins anew with its header. Never inside of code.
    """
    if len(text) <= 2 * _PIECE:
        yield text
        return
    piece: list[str] = []
    # The two lines that open the table which this line may be in
    table: list[str] = []
    size, fence, before = 0, "", ""
    for line in text.split("\n"):
        is_far = size > 2 * _PIECE or len(piece) > _PIECE_LINES
        starts = line.startswith("#") or (
            is_far and (not before.strip() or _LIST_ITEM.match(line) is not None)
        )
        if (size > _PIECE or is_far) and starts and not fence and line[:1].strip():
            yield "\n".join(piece)
            piece, table, size = [], [], 0
        elif is_far and table and not fence:
            if _is_row(line, table):
                yield "\n".join(piece)
                piece, size = table.copy(), 0
            else:
                table = []
        opening = _FENCE.match(line)
        if opening and (not fence or opening[1].startswith(fence)):
            fence = "" if fence else opening[1]
        if not line.strip() or fence:
            table = []
        elif (
            not table
            and "|" in before
            and _TABLE_RULE.match(line)
            and len(before) + len(line) < _PIECE
        ):
            table = [before, line]
        piece.append(line)
        size += len(line) + 1
        before = line
    yield "\n".join(piece)


def _is_row(line: str, table: Sequence[str]) -> bool:
    tokens = _parser.parse("\n".join([*table, line]))
    return [token.type for token in tokens] == ["table"] and len(tokens[0].meta["rows"]) > 1


def _is_too_deep(token: Token) -> bool:
    """Tell a quotation or list item whose text the parser has left out."""
    return token.level >= _DEEPEST - 1 and token.type in _CONTAINERS


def _end_of_block(tokens: Sequence[Token], at: int) -> int:
    depth = 0
    while at < len(tokens):
        depth += tokens[at].nesting
        at += 1
        if depth == 0:
            break
    return at


def _write_block(
    tokens: Sequence[Token], links: dict[str, Any], outline: Outline, title: str
) -> None:
    first = tokens[0]
    if first.type == "heading_open":
        text = _inline_text(tokens[1].children or [])
        repeats_title = first.tag == "h1" and text.strip() == title.strip()
        if not repeats_title:
            outline.heading(int(first.tag[1]), text)
    elif first.type == "html_block" and _knows(first.content):
        root = html.parse(first.content)
        if root is not None:
            html.write_page(root, outline)
    else:
        outline.block("\n".join(_lines(tokens, links)))


def _lines(tokens: Sequence[Token], links: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of one block, what is in lists indented and marked."""
    indent, marker = "", ""
    numbers: list[int | None] = []
    for token in tokens:
        kind = token.type
        if kind in ("bullet_list_open", "ordered_list_open"):
            is_ordered = kind == "ordered_list_open"
            numbers.append(int(token.attrGet("start") or 1) if is_ordered else None)
        elif kind in ("bullet_list_close", "ordered_list_close"):
            numbers.pop()
        elif kind == "list_item_open":
            number = numbers[-1]
            marker = "- " if number is None else f"{number}. "
            numbers[-1] = None if number is None else number + 1
            indent = _INDENT * (len(numbers) - 1)
        elif kind == "table":
            yield from _indented(_table(token, links), indent, "")
        else:
            text = _leaf_text(token)
            if text.strip():
                yield from _indented(text, indent, marker)
                indent, marker = indent + " " * len(marker), ""


def _indented(text: str, indent: str, marker: str) -> Iterator[str]:
    for line in text.split("\n"):
        yield indent + marker + line
        marker = " " * len(marker)


def _leaf_text(token: Token) -> str:
    if token.type == "inline":
        text = _inline_text(token.children or [])
        return _CALLOUT.sub(lambda match: match[1].capitalize() + ":\n", text)
    if token.type in ("fence", "code_block"):
        language = token.info.split()[0] if token.info.strip() else ""
        code = token.content.rstrip("\n")
        return f"{_fence(code)}{language}\n{code}\n{_fence(code)}"
    if token.type == "html_block":
        if not _knows(token.content):
            return token.content.strip("\n")
        root = html.parse(token.content)
        inner = Outline(most_characters=_MOST_GROWTH * len(token.content))
        if root is not None:
            html.write_page(root, inner)
        return "\n".join(segment.text for segment in inner.finish())
    return ""


def _fence(code: str) -> str:
    longest = max((len(run) for run in re.findall("`+", code)), default=0)
    return "`" * max(3, longest + 1)


def _table(token: Token, links: dict[str, Any]) -> str:
    rows = [[_cell_text(cell, links) for cell in row] for row in token.meta["rows"]]
    return table_text(rows, has_header=True)


def _cell_text(text: str, links: dict[str, Any]) -> str:
    if _PLAIN.fullmatch(text):
        return text
    return _inline_text(_parser.parseInline(text, links)[0].children or [])


def _inline_text(tokens: Sequence[Token]) -> str:
    parts: list[str] = []
    before = ""
    for at, token in enumerate(tokens):
        kind = token.type
        text = token.content
        if kind in ("text", "text_special"):
            if before in ("link_close", "image"):
                text = _ATTRIBUTES.sub("", text)
            if at + 1 == len(tokens) or tokens[at + 1].type in ("softbreak", "hardbreak"):
                text = _LAST_ATTRIBUTES.sub("", text)
            parts.append(text)
        elif kind == "code_inline":
            parts.append(text)
        elif kind == "softbreak":
            is_callout = len(parts) == 1 and parts[0].startswith("[!")
            parts.append("\n" if is_callout else " ")
        elif kind == "hardbreak":
            parts.append("\n")
        elif kind == "image":
            parts.append(_inline_text(token.children or []))
        elif kind == "html_inline":
            parts.append(_inline_html(text))
        before = kind
    return "".join(parts)


def _inline_html(tag: str) -> str:
    if tag.startswith("<!--"):
        return ""
    if not _knows(tag):
        return tag
    if _BREAK.match(tag):
        return "\n"
    alternative = _ALTERNATIVE.search(tag)
    return alternative[1][1:-1] if alternative else ""


def _knows(markup: str) -> bool:
    """Tell whether the first tag is one of HTML's, or a comment."""
    match = _TAG.search(markup)
    return match is None or match[1].lower() in html.KNOWN_TAGS


def _without_gaps_in_html(text: str) -> str:
    """Drop empty lines inside HTML tables and lists, where Markdown would see their end."""
    if not _OPEN_TABLE.search(text):
        return text
    kept: list[str] = []
    fence, tag, depth = "", "", 0
    for line in text.split("\n"):
        opening = _FENCE.match(line)
        if not depth and opening and (not fence or opening[1].startswith(fence)):
            fence = "" if fence else opening[1]
        if not fence:
            if not depth:
                opened = _OPEN_TABLE.match(line.lstrip(" >")[:200])
                tag = opened[1].lower() if opened and len(line) - len(line.lstrip()) < 4 else ""
            if tag:
                lower = line.lower()
                depth = max(0, depth + lower.count(f"<{tag}") - lower.count(f"</{tag}"))
        if line.strip() or not depth:
            kept.append(line)
    return "\n".join(kept) if not depth else text
