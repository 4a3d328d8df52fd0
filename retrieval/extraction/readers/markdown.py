"""Markdown: the text without its marks, with tables and code as they are.

The title of the front matter is the highest heading; ``{#anchor}`` and ``{.class}`` attributes
go; HTML between the Markdown is read as HTML, but words in angle brackets that HTML does not
know (``<your-name>``) are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from retrieval.extraction.outline import Outline
from retrieval.extraction.reader import Reading
from retrieval.extraction.readers import html
from retrieval.extraction.readers.front_matter import split_front_matter
from retrieval.extraction.readers.text import decoded_text
from retrieval.extraction.tables import table_text

_FENCE = re.compile(r"[ >]*(`{3,}|~{3,})")
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
# Parsed by pieces, cut at headings: a parsed document takes thirty times its size
_PIECE = 200_000
_parser = MarkdownIt("commonmark", {"html": True, "maxNesting": _DEEPEST}).enable(
    ["table", "strikethrough"]
)


def read_markdown(content: bytes, reading: Reading) -> None:
    """Read a Markdown document."""
    write_markdown(decoded_text(content, reading), reading.outline)


def write_markdown(text: str, outline: Outline) -> None:
    """Write the text of a Markdown document to ``outline``."""
    front, body = split_front_matter(text.replace("\r\n", "\n").replace("\r", "\n"))
    if front.title:
        outline.heading(0, front.title)
    for line in front.lines:
        outline.block(line)
    body = _FOOTNOTE.sub(r"\1", _without_gaps_in_html(body))
    for piece in _pieces(body):
        tokens = _parser.parse(piece)
        at = 0
        while at < len(tokens):
            end = _end_of_block(tokens, at)
            _write_block(tokens[at:end], outline, front.title)
            at = end


def _pieces(text: str) -> Iterator[str]:
    """Cut a long text at headings, or at paragraphs where these are far apart, outside of code."""
    if len(text) <= 2 * _PIECE:
        yield text
        return
    piece: list[str] = []
    size, fence, after_gap = 0, "", False
    for line in text.split("\n"):
        opening = _FENCE.match(line)
        can_cut = not fence and (line.startswith("#") or (after_gap and size > 2 * _PIECE))
        if size > _PIECE and can_cut and line[:1].strip():
            yield "\n".join(piece)
            piece, size = [], 0
        if opening and (not fence or opening[1].startswith(fence)):
            fence = "" if fence else opening[1]
        after_gap = not line.strip()
        piece.append(line)
        size += len(line) + 1
    yield "\n".join(piece)


def _end_of_block(tokens: Sequence[Token], at: int) -> int:
    depth = 0
    while at < len(tokens):
        depth += tokens[at].nesting
        at += 1
        if depth == 0:
            break
    return at


def _write_block(tokens: Sequence[Token], outline: Outline, title: str) -> None:
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
        outline.block("\n".join(_lines(tokens)))


def _lines(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the lines of one block, what is in lists indented and marked."""
    indent, marker = "", ""
    numbers: list[int | None] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
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
        elif kind == "table_open":
            end = _end_of_block(tokens, at)
            yield from _indented(_table(tokens[at:end]), indent, "")
            at = end - 1
        else:
            text = _leaf_text(token)
            if text.strip():
                yield from _indented(text, indent, marker)
                indent, marker = indent + " " * len(marker), ""
        at += 1


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
        inner = Outline(most_characters=len(token.content) + 1)
        if root is not None:
            html.write_page(root, inner)
        return "\n".join(segment.text for segment in inner.finish())
    return ""


def _fence(code: str) -> str:
    longest = max((len(run) for run in re.findall("`+", code)), default=0)
    return "`" * max(3, longest + 1)


def _table(tokens: Sequence[Token]) -> str:
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(_inline_text(token.children or []))
    return table_text(rows, has_header=True)


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
