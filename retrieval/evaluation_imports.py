"""Evaluation sets from files: JSON Lines or CSV, each mistake named by its row.

JSON Lines: one ``{"query": …, "documents": [name or {name, pages?, grade?}, …]}`` a line. CSV: a
header and one row per question and document: ``query,document`` and optionally ``page`` (numbers,
separated by spaces or semicolons) and ``grade``; rows of one question belong together, a blank
document says that nothing answers it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from registry import strict_json
from registry.actors import Actor
from registry.errors import FieldError, Invalid, Malformed, RegistryError
from retrieval.evaluation_questions import Written, save_questions
from retrieval.models import KnowledgeBase

FORMATS = ("jsonl", "csv")
COLUMNS = ("query", "document", "page", "grade")
_NEEDED = COLUMNS[:2]
_MOST_ERRORS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A question as a file has it, and the number of the line it starts in."""

    line: int
    value: Any


def import_questions(
    *, actor: Actor, base: KnowledgeBase, name: str, content: bytes, replace_all: bool = False
) -> Written:
    """Save the questions of a file; the name's end (``.jsonl``, ``.csv``) says how to read it.

    All or none. Raises Invalid whose errors name ``rows.<line>`` and the field.
    """
    rows = _read(name, content)
    if not rows:
        raise Invalid.field("file", name, "holds no questions", allowed="at least one question")
    return save_questions(
        actor=actor,
        base=base,
        questions=[row.value for row in rows],
        replace=replace_all,
        prefixes=[f"rows.{row.line}." for row in rows],
    )


def _read(name: str, content: bytes) -> list[_Row]:
    kind = name.rpartition(".")[2].lower()
    if kind not in FORMATS:
        raise Invalid.field(
            "file", name, "is neither .jsonl nor .csv", allowed=[f".{one}" for one in FORMATS]
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise Invalid.field(
            f"rows.{line}", None, "is not UTF-8", allowed="a file in UTF-8"
        ) from error
    return _json_lines(text) if kind == "jsonl" else _csv(text)


def _json_lines(text: str) -> list[_Row]:
    rows, errors = [], []
    # Not splitlines: JSON texts may hold other line separators.
    for line, part in enumerate(text.split("\n"), start=1):
        if not part.strip():
            continue
        try:
            value = strict_json.loads(part)
        except Malformed as error:
            where = error.errors[0] if error.errors else None
            field = where.field if where and where.field != "(body)" else ""
            errors.append(
                FieldError(
                    field=f"rows.{line}.{field}".rstrip("."),
                    value=where.value if where and field else part,
                    message=error.detail,
                    allowed=where.allowed if where else "a JSON object",
                )
            )
        else:
            rows.append(_Row(line=line, value=value))
    _refuse(errors)
    return rows


def _csv(text: str) -> list[_Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: dict[str, _Row] = {}
    errors: list[FieldError] = []
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        _check_header(header)
        line = reader.line_num + 1
        for cells in reader:
            start, line = line, reader.line_num + 1
            if not any(cell.strip() for cell in cells):
                continue
            try:
                query, document = _cells(header, cells, start)
            except RegistryError as error:
                errors.extend(error.errors)
                continue
            row = rows.setdefault(query, _Row(line=start, value={"query": query, "documents": []}))
            if document is not None:
                _merge(row.value["documents"], document)
    except csv.Error as error:
        errors.append(
            FieldError(
                field=f"rows.{reader.line_num}",
                message=f"cannot be read as CSV: {error}",
                allowed="cells with quotes around commas, quotes and line ends",
            )
        )
    _refuse(errors)
    return list(rows.values())


def _check_header(header: Sequence[str]) -> None:
    unknown = [name for name in header if name not in COLUMNS]
    missing = [name for name in _NEEDED if name not in header]
    twice = sorted({name for name in header if header.count(name) > 1})
    if unknown or missing or twice:
        what = [
            *(f"{name!r} is no column" for name in unknown),
            *(f"{name!r} is missing" for name in missing),
            *(f"{name!r} stands twice" for name in twice),
        ]
        raise Invalid.field(
            "rows.1", ",".join(header), "; ".join(what), allowed="query,document[,page][,grade]"
        )


def _cells(
    header: Sequence[str], cells: Sequence[str], line: int
) -> tuple[str, dict[str, Any] | None]:
    if len(cells) != len(header):
        raise Invalid.field(
            f"rows.{line}",
            ",".join(cells),
            f"has {len(cells)} cells, the header {len(header)}",
            allowed=f"{len(header)} cells",
        )
    row: Mapping[str, str] = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
    if not row["query"]:
        raise Invalid.field(
            f"rows.{line}.query", "", "must not be empty", allowed="a text that is not blank"
        )
    if not row["document"]:
        return row["query"], None
    document: dict[str, Any] = {"name": row["document"]}
    if row.get("page"):
        document["pages"] = [
            _number(page, f"rows.{line}.page") for page in re.split(r"[;\s]+", row["page"])
        ]
    if row.get("grade"):
        document["grade"] = _number(row["grade"], f"rows.{line}.grade")
    return row["query"], document


def _merge(documents: list[dict[str, Any]], document: dict[str, Any]) -> None:
    """Add a document, or further pages of one that is there: a row may name a single page."""
    for one in documents:
        if one["name"] == document["name"] and "pages" in one and "pages" in document:
            one["pages"] += document["pages"]
            return
    documents.append(document)


def _number(text: str, field: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 8):
        raise Invalid.field(field, text, "must be a whole number", allowed="1, 2, 3 …")
    return int(text)


def _refuse(errors: Sequence[FieldError]) -> None:
    if errors:
        first = errors[0]
        more = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
        raise Invalid(f"{first.field}: {first.message}{more}", errors=list(errors)[:_MOST_ERRORS])
