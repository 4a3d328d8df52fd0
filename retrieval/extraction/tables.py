"""Tables as text: one line a row, in the form that Markdown has for them."""

from __future__ import annotations

from collections.abc import Sequence


def table_text(rows: Sequence[Sequence[str]], *, has_header: bool = False) -> str:
    """Return the rows as ``| a | b |`` lines; empty rows and empty columns are left out.

    A table of one column is no table: its cells become lines.
    """
    width = max((len(row) for row in rows), default=0)
    cells = [[" ".join(cell.split()) for cell in row] + [""] * (width - len(row)) for row in rows]
    kept = [column for column in range(width) if any(row[column] for row in cells)]
    cells = [[row[column] for column in kept] for row in cells if any(row)]
    if not cells:
        return ""
    if len(kept) == 1:
        return "\n".join(row[0] for row in cells)
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]
    if has_header and len(lines) > 1:
        lines.insert(1, "|" + " --- |" * len(kept))
    return "\n".join(lines)


def spreadsheet_text(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows as lines of cells with tabs between, without what is empty around them."""
    lines = ["\t".join(" ".join(cell.split()) for cell in row).rstrip() for row in rows]
    return "\n".join(line for line in lines if line.strip())
