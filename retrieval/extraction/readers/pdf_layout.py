"""Lines of a PDF page to paragraphs: what was one sentence before it was set in lines is again.

A PDF file knows where characters stand and nothing of words' belonging. Paragraphs begin after
a wider gap or with an indented line; a line that goes on in small letters is joined to the one
before. All else stays a line of its own, so that tables keep their rows.
"""

from __future__ import annotations

import re
import statistics
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

# What PDFium writes for a hyphen at a line's end, in place of hyphen and line end
BROKEN_HYPHEN = "\ufffe"
_SAME_BASE = 0.2
_WIDE_GAP = 1.3
_INDENT = 0.5
_MOST_INDENT = 4.0
_DASHES = ("-", "–")
_SENTENCE_END = tuple(".!?:;。！？…")
_NO_SPACE_SCRIPTS = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_BROKEN_WORD = re.compile(rf"([^\W\d_]*){BROKEN_HYPHEN}([^\W\d_]*)")
_HEADING_SIZE = 1.15
_LONGEST_HEADING = 150
_MOST_HEADING_SHARE = 0.12
_HEADING_LEVELS = 4
_RUNNING_HEAD_PAGES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line as it is set: its text, where it begins and ends (points), and its height.

    A line with broken hyphens runs over several, hence two heights of the base line. Of a line
    that runs from right to left the places are mirrored, so that it too begins at its ``left``.
    Words that run across the page ("DRAFT") have no height.
    """

    text: str
    left: float
    right: float
    first_base: float
    last_base: float
    height: float


def paragraphs(lines: Sequence[Line]) -> str:
    """Return the text of lines that follow each other on a page."""
    leading = _leading(lines)
    parts: list[str] = []
    for at, line in enumerate(lines):
        if parts:
            following = lines[at + 1] if at + 1 < len(lines) else None
            parts.append(_between(lines[at - 1], line, following, leading))
        parts.append(line.text)
    return "".join(parts)


def join_broken_words(texts: Sequence[str]) -> list[str]:
    """Resolve hyphens at line ends: kept where the document writes the word with one elsewhere."""
    if not any(BROKEN_HYPHEN in text for text in texts):
        return list(texts)
    words = Counter(word.casefold() for text in texts for word in _WORD.findall(text))

    def joined(match: re.Match[str]) -> str:
        plain, hyphened = match[1] + match[2], f"{match[1]}-{match[2]}"
        keep = words[hyphened.casefold()] > words[plain.casefold()]
        return hyphened if keep else plain

    return [_BROKEN_WORD.sub(joined, text) if BROKEN_HYPHEN in text else text for text in texts]


class HeadingSizes:
    """Which lines of a document are headings, going by the size of their type alone.

    None are where large type is so common that it tells nothing, as in slides and forms.
    """

    def __init__(self, pages: Sequence[Sequence[Line]]) -> None:
        pages_of = Counter(key for lines in pages for key in {_key(line.text) for line in lines})
        self._running = {key for key, count in pages_of.items() if count >= _RUNNING_HEAD_PAGES}
        self._levels: dict[float, int] = {}
        sizes: Counter[float] = Counter()
        for lines in pages:
            for line in lines:
                sizes[_size(line)] += len(line.text)
        if not sizes:
            return
        body = sizes.most_common(1)[0][0]
        larger = {size for size in sizes if size >= body * _HEADING_SIZE}
        if sum(sizes[size] for size in larger) > sizes.total() * _MOST_HEADING_SHARE:
            return
        used = {
            _size(line)
            for lines in pages
            for line in lines
            if _size(line) in larger and self._could_be(line)
        }
        ranked = sorted(used, reverse=True)[:_HEADING_LEVELS]
        self._levels = {size: level for level, size in enumerate(ranked, start=1)}

    def level_of(self, line: Line) -> int | None:
        """Return the level of a line that is set as a heading (1 is the largest), else None."""
        level = self._levels.get(_size(line))
        return level if level is not None and self._could_be(line) else None

    def _could_be(self, line: Line) -> bool:
        text = line.text
        is_short = len(text) <= _LONGEST_HEADING and sum(map(str.isalpha, text)) > 2
        return is_short and _key(text) not in self._running


def _key(text: str) -> str:
    # Running heads differ in their page number only
    return _DIGITS.sub("#", text)


def _size(line: Line) -> float:
    return round(line.height * 2) / 2


def _leading(lines: Sequence[Line]) -> float:
    """Return the usual distance of base lines; 0 where there is none."""
    gaps = [
        before.last_base - line.first_base
        for before, line in pairwise(lines)
        if 0 < before.last_base - line.first_base < 4 * max(before.height, 1)
    ]
    return statistics.median_low(gaps) if gaps else 0.0


def _between(before: Line, line: Line, following: Line | None, leading: float) -> str:
    gap = before.last_base - line.first_base
    if line.height and abs(gap) < line.height * _SAME_BASE and line.left >= before.right:
        return " "
    if leading and gap > leading * _WIDE_GAP:
        return "\n\n"
    if leading and gap > 0 and _begins_paragraph(before, line, following, leading):
        return "\n\n"
    if before.text.endswith(_DASHES) and line.text[:1].isdigit():
        return ""
    if _goes_on(before.text, line.text):
        return "" if _without_spaces(before.text[-1:], line.text[:1]) else " "
    return "\n"


def _begins_paragraph(before: Line, line: Line, following: Line | None, leading: float) -> bool:
    """Tell an indented first line from the hanging lines of a list."""
    indent = line.left - before.left
    if not _INDENT * leading <= indent <= _MOST_INDENT * leading:
        return False
    return following is None or line.left - following.left >= _INDENT * leading


def _goes_on(before: str, text: str) -> bool:
    if not before or not text or before.endswith(_SENTENCE_END):
        return False
    first = text[0]
    # Letters of scripts without capitals tell nothing: there a sentence's end decides
    return first.islower() or unicodedata.category(first) == "Lo"


def _without_spaces(last: str, first: str) -> bool:
    return all(
        unicodedata.name(character, "").startswith(_NO_SPACE_SCRIPTS)
        for character in (last, first)
        if character
    )
