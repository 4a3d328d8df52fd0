"""What the pages of a document's revisions show: a reading's segments, and two texts compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.core.paginator import Paginator
from django.http import QueryDict

from retrieval.models import Document, Extraction
from retrieval.revisions import Hunk, Line, compare_revisions, marked_words, revisions_of

_SEGMENTS_PER_PAGE = 50
_HUNKS_PER_PAGE = 100
# Marking single words in longer lines takes long and helps nobody
_LONGEST_MARKED = 5_000

# A line with its parts, each with whether it differs from the line that it stands for
MarkedLine = tuple[Line, list[tuple[str, bool]]]


def segments_context(document: Document, query: QueryDict) -> dict[str, Any]:
    """Return what was read out of a revision (``?revision=``; default: the newest)."""
    numbers = list(document.revisions.order_by("-number").values_list("number", flat=True))
    number = _chosen(query.get("revision"), numbers, numbers[0])
    extraction = (
        Extraction.objects.filter(revision__document=document, revision__number=number)
        .order_by("-status", "-pk")  # sealed before pending and failed
        .first()
    )
    pages = Paginator((extraction.segments if extraction else None) or [], _SEGMENTS_PER_PAGE)
    return {
        "numbers": numbers,
        "number": number,
        "extraction": extraction,
        "segments": pages.get_page(query.get("p")),
        "segments_query": f"revision={number}",
    }


def comparison_context(document: Document, query: QueryDict) -> dict[str, Any]:
    """Return two revisions compared (``?from=&to=``; default: the newest with the one before)."""
    revisions = revisions_of(document)
    numbers = [revision.number for revision in revisions]
    after = _chosen(query.get("to"), numbers, numbers[0])
    before = _chosen(query.get("from"), numbers, max(after - 1, numbers[-1]))
    comparison = compare_revisions(document, before, after) if len(numbers) > 1 else None
    hunks = Paginator(comparison.hunks if comparison else (), _HUNKS_PER_PAGE)
    shown = hunks.get_page(query.get("p"))
    return {
        "revisions": revisions,
        "before": before,
        "after": after,
        "comparison": comparison,
        "hunks": shown,
        "shown_hunks": [(hunk, list(marked_lines(hunk))) for hunk in shown],
        "hunks_query": f"from={before}&to={after}",
    }


def marked_lines(hunk: Hunk) -> Iterator[MarkedLine]:
    """Yield the lines of a hunk; of a line that stands for another, the words that differ."""
    lines = list(hunk.lines)
    while lines:
        removed = _taken(lines, "removed")
        added = _taken(lines, "added")
        # What has no line to stand for comes after those that have
        pairs = [_marked(old, new) for old, new in zip(removed, added, strict=False)]
        yield from (old for old, _ in pairs)
        yield from ((line, [(line.text, True)]) for line in removed[len(pairs) :])
        yield from (new for _, new in pairs)
        yield from ((line, [(line.text, True)]) for line in added[len(pairs) :])
        yield from ((line, [(line.text, False)]) for line in _taken(lines, "same"))


def _taken(lines: list[Line], change: str) -> Sequence[Line]:
    """Take the lines of this change from the beginning."""
    count = next((at for at, line in enumerate(lines) if line.change != change), len(lines))
    taken, lines[:] = lines[:count], lines[count:]
    return taken


def _marked(old: Line, new: Line) -> tuple[MarkedLine, MarkedLine]:
    if len(old.text) + len(new.text) > _LONGEST_MARKED:
        return (old, [(old.text, True)]), (new, [(new.text, True)])
    left, right = marked_words(old.text, new.text)
    return (old, left), (new, right)


def _chosen(asked: str | None, numbers: list[int], default: int) -> int:
    number = int(asked) if asked and asked.isdecimal() and len(asked) < 10 else default
    return number if number in numbers else default
