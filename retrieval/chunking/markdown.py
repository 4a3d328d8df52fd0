"""What Markdown adds to prose: headings, and blocks that lose their sense when they are cut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FENCE = re.compile(r" {0,3}(`{3,}(?!.*`)|~{3,})")
_ATX_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_SETEXT_LINE = re.compile(r" {0,3}(?:=+|-{2,})\s*$")
_ROW = re.compile(r"\s*\|")
_TABLE_OPEN = re.compile(r"<table\b", re.IGNORECASE)
_TABLE_CLOSE = re.compile(r"</table\s*>", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """Code-point places in a text: headings as (start, start of what follows); blocks likewise."""

    headings: tuple[tuple[int, int], ...]
    blocks: tuple[tuple[int, int], ...]


def outline_of(text: str) -> Outline:
    """Return the headings, tables and code fences of a Markdown text, in one pass over its lines.

    A fence or HTML table that is never closed is no block: the rest of the text is prose.
    """
    lines = list(_lines(text))
    headings: list[tuple[int, int]] = []
    blocks: list[tuple[int, int]] = []
    # Where looking for an end failed once, it need not be looked for again.
    unclosed: set[str] = set()
    number = 0
    while number < len(lines):
        start, line = lines[number]
        after = _block_end(lines, number, unclosed)
        if after > number:
            blocks.append((start, _start_of(lines, after, text)))
            number = after
            continue
        if _ATX_HEADING.match(line):
            headings.append((start, _start_of(lines, number + 1, text)))
        elif _is_setext_heading(lines, number):
            headings.append((start, _start_of(lines, number + 2, text)))
            number += 1
        number += 1
    return Outline(headings=tuple(headings), blocks=tuple(blocks))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for line in text.split("\n"):
        yield start, line
        start += len(line) + 1


def _block_end(lines: list[tuple[int, str]], number: int, unclosed: set[str]) -> int:
    """Return the number of the line after the block that starts here; ``number`` if none does."""
    line = lines[number][1]
    fence = _FENCE.match(line)
    if fence:
        mark = fence[1]
        if mark not in unclosed:
            for following in range(number + 1, len(lines)):
                closing = lines[following][1].strip()
                if len(closing) >= len(mark) and set(closing) == {mark[0]}:
                    return following + 1
            unclosed.add(mark)
        return number
    if _TABLE_OPEN.search(line) and "table" not in unclosed:
        for following in range(number, len(lines)):
            if _TABLE_CLOSE.search(lines[following][1]):
                return following + 1
        unclosed.add("table")
    after = number
    while after < len(lines) and _ROW.match(lines[after][1]):
        after += 1
    return after if after > number + 1 else number


def _is_setext_heading(lines: list[tuple[int, str]], number: int) -> bool:
    line = lines[number][1]
    return (
        number + 1 < len(lines)
        and bool(line.strip())
        and not _SETEXT_LINE.match(line)
        and (number == 0 or not lines[number - 1][1].strip())
        and bool(_SETEXT_LINE.match(lines[number + 1][1]))
    )


def _start_of(lines: list[tuple[int, str]], number: int, text: str) -> int:
    """Return where the first line from ``number`` on that is not blank starts."""
    while number < len(lines) and not lines[number][1].strip():
        number += 1
    if number == len(lines):
        return len(text)
    start, line = lines[number]
    return start + len(line) - len(line.lstrip())
