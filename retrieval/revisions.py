"""The history of a document: its revisions, and how the text of one differs from another's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from typing import Any, Literal

from registry.errors import NotFound
from retrieval.line_diff import Opcode, grouped_changes
from retrieval.models import Document, Extraction

Text = Literal["read", "pending", "failed", "purged"]
Change = Literal["same", "removed", "added"]

# Longer texts are not compared: some seconds at worst
MOST_LINES = 100_000
_CONTEXT_LINES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One content of a document and what became of its text."""

    number: int
    sha256: str
    # In bytes
    size: int
    media_type: str
    created_at: datetime
    # Whether its text is there; ``detail`` is a sentence about why not
    text: Text
    detail: str | None
    pages: int | None
    # The recipe that read it, or tried to; None while none has
    recipe: str | None
    extraction_id: int

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "sha256": self.sha256,
            "size": self.size,
            "mediaType": self.media_type,
            "createdAt": self.created_at.isoformat(),
            "text": self.text,
            "detail": self.detail,
            "pages": self.pages,
            "recipe": self.recipe,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of either text, and where it stands."""

    change: Change
    text: str
    page: int | None
    section: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """Lines that changed, with up to three equal ones around; lines count from 1."""

    from_line: int
    to_line: int
    lines: tuple[Line, ...]

    @property
    def place(self) -> Line:
        """The first line that changed: its page and section are where to look."""
        return next(line for line in self.lines if line.change != "same")

    def as_json(self) -> dict[str, Any]:
        return {
            "fromLine": self.from_line,
            "toLine": self.to_line,
            "page": self.place.page,
            "section": self.place.section,
            "lines": [{"change": line.change, "text": line.text} for line in self.lines],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How the text of one revision differs from another's.

    ``reason`` says why the texts cannot be compared; then there are no hunks. ``note`` is a
    sentence about a difference that the texts do not show.
    """

    before: Revision
    after: Revision
    reason: str | None
    note: str | None
    removed: int
    added: int
    hunks: tuple[Hunk, ...]


def revisions_of(document: Document) -> list[Revision]:
    """Return all revisions, newest first, in two queries."""
    rows = list(
        document.revisions.defer("content")
        .extra(select={"is_purged": "content IS NULL"})
        .order_by("-number")
    )
    tried: dict[int, Extraction] = {}
    extractions = Extraction.objects.filter(revision__document=document).defer("segments")
    for extraction in extractions.order_by("pk"):
        best = tried.get(extraction.revision_id)
        # The newest reading, else the newest attempt
        if best is None or best.status != "sealed" or extraction.status == "sealed":
            tried[extraction.revision_id] = extraction
    return [_revision(row, tried.get(row.pk)) for row in rows]


def compare_revisions(document: Document, before: int, after: int) -> Comparison:
    """Compare the texts of two revisions, by number. Raises NotFound."""
    known = {revision.number: revision for revision in revisions_of(document)}
    for number in (before, after):
        if number not in known:
            raise NotFound(
                f"{document.name} has no revision {number}.", code="document.revision_not_found"
            )
    old, new = known[before], known[after]
    reason = " ".join(revision.detail for revision in (old, new) if revision.detail) or None
    hunks: tuple[Hunk, ...] = ()
    if reason is None:
        try:
            hunks = _hunks(_lines(old), _lines(new))
        except OverflowError:
            reason = f"The texts have more than {MOST_LINES:,} lines: too many to compare here."
    return Comparison(
        before=old,
        after=new,
        reason=reason,
        note=None if reason or hunks else _note(old, new),
        removed=_count(hunks, "removed"),
        added=_count(hunks, "added"),
        hunks=hunks,
    )


def marked_words(before: str, after: str) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
    """Return both lines in parts, each with whether it differs from the other line."""
    old, new = _words(before), _words(after)
    left: list[tuple[str, bool]] = []
    right: list[tuple[str, bool]] = []
    for kind, a1, a2, b1, b2 in SequenceMatcher(None, old, new).get_opcodes():
        for parts, words in ((left, old[a1:a2]), (right, new[b1:b2])):
            if words:
                parts.append(("".join(words), kind != "equal"))
    return left, right


def _revision(row: Any, tried: Extraction | None) -> Revision:
    text: Text = "read"
    detail = None
    if row.is_purged:
        text, detail = "purged", f"Revision {row.number} was purged: its text is gone."
    elif tried is None or tried.status == "pending":
        text, detail = "pending", f"Revision {row.number} has not been read."
    elif tried.status == "failed":
        text, detail = "failed", f"Revision {row.number} could not be read: {tried.error}"
    return Revision(
        number=row.number,
        sha256=row.sha256,
        size=row.size,
        media_type=row.media_type,
        created_at=row.created_at,
        text=text,
        detail=detail,
        pages=tried.pages if tried else None,
        recipe=tried.recipe if tried else None,
        extraction_id=tried.pk if tried else 0,
    )


def _lines(revision: Revision) -> list[Line]:
    readings = Extraction.objects.filter(pk=revision.extraction_id)
    segments = readings.values_list("segments", flat=True).first()
    return [
        Line(change="same", text=line, page=segment["page"], section=segment["section"])
        for segment in segments or []
        for line in segment["text"].split("\n")
        if line.strip()
    ]


def _hunks(old: Sequence[Line], new: Sequence[Line]) -> tuple[Hunk, ...]:
    """Return the differences. Raises OverflowError where there are too many lines to compare."""
    if max(len(old), len(new)) > MOST_LINES:
        raise OverflowError
    groups = grouped_changes(
        [line.text for line in old], [line.text for line in new], context=_CONTEXT_LINES
    )
    return tuple(
        Hunk(
            from_line=group[0][1] + 1,
            to_line=group[0][3] + 1,
            lines=tuple(line for code in group for line in _changed(code, old, new)),
        )
        for group in groups
    )


def _changed(code: Opcode, old: Sequence[Line], new: Sequence[Line]) -> list[Line]:
    kind, a1, a2, b1, b2 = code
    if kind == "equal":
        return list(new[b1:b2])
    return [_with(line, "removed") for line in old[a1:a2]] + [
        _with(line, "added") for line in new[b1:b2]
    ]


def _with(line: Line, change: Change) -> Line:
    return Line(change=change, text=line.text, page=line.page, section=line.section)


def _note(old: Revision, new: Revision) -> str:
    if old.sha256 == new.sha256:
        return "The bytes are the same."
    note = "The bytes differ and the texts are the same: layout, pictures or what is not read."
    if old.recipe != new.recipe:
        note += " They were read by different extractors."
    return note


def _count(hunks: Sequence[Hunk], change: Change) -> int:
    return sum(line.change == change for hunk in hunks for line in hunk.lines)


def _words(line: str) -> list[str]:
    words: list[str] = []
    for part in line.split(" "):
        words += [part, " "]
    return words[:-1]
