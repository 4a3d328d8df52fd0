"""Write the handbook's PDF and DOCX documents from the Markdown in `sources/`.

`sources/eu/warranty.pdf.md` becomes `eu/warranty.pdf`. Run it after editing a source, and commit
what it wrote. The same sources give the same bytes as long as fpdf2 and python-docx keep theirs.

    python examples/handbook/build.py [OUTPUT_FOLDER]
"""

import io
import re
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import docx
from docx.enum.text import WD_BREAK
from fpdf import FPDF
from fpdf.enums import XPos, YPos
from fpdf.fonts import FontFace

HANDBOOK = Path(__file__).parent
EDITION = datetime(2026, 3, 2, tzinfo=UTC)
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
PAGE_BREAK = "<!-- page -->"


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a source. `kind` is heading, paragraph, bullet, step, table or page."""

    kind: str
    text: str = ""
    level: int = 0
    rows: tuple[tuple[str, ...], ...] = ()


def blocks(source: str) -> Iterator[Block]:
    """The blocks of a source that keeps every paragraph and list item on one line."""
    table: list[tuple[str, ...]] = []
    for line in [*source.splitlines(), ""]:
        if line.startswith("|"):
            cells = tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
            if not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
                table.append(cells)
            continue
        if table:
            yield Block("table", rows=tuple(table))
            table = []
        if heading := re.fullmatch(r"(#+) (.+)", line):
            yield Block("heading", heading[2], level=len(heading[1]))
        elif item := re.fullmatch(r"- (.+)", line):
            yield Block("bullet", item[1])
        elif step := re.fullmatch(r"(\d+)\. (.+)", line):
            yield Block("step", step[2], level=int(step[1]))
        elif line == PAGE_BREAK:
            yield Block("page")
        elif line:
            yield Block("paragraph", line)


def spans(text: str) -> Iterator[tuple[str, str]]:
    """Pieces of a line with their emphasis: "", "bold" or "italic"."""
    for piece in re.split(r"(\*\*[^*]+\*\*|\*[^*]+\*)", text):
        if piece.startswith("**"):
            yield piece.strip("*"), "bold"
        elif piece.startswith("*"):
            yield piece.strip("*"), "italic"
        elif piece:
            yield piece, ""


def plain(text: str) -> str:
    return "".join(piece for piece, _ in spans(text))


def as_pdf(source: str) -> bytes:
    pdf = FPDF(format="A4")
    # The built-in fonts reach the euro sign and typographic dashes in this encoding only.
    pdf.core_fonts_encoding = "cp1252"
    pdf.set_creation_date(EDITION)
    pdf.set_margin(22)
    pdf.set_auto_page_break(auto=True, margin=22)
    pdf.add_page()
    for block in blocks(source):
        _add_to_pdf(pdf, block)
    return bytes(pdf.output())


def _add_to_pdf(pdf: FPDF, block: Block) -> None:
    if block.kind == "page":
        pdf.add_page()
        return
    if block.kind == "heading":
        if block.level == 1:
            pdf.set_title(block.text)
        pdf.set_font("Helvetica", "B", {1: 20, 2: 15}.get(block.level, 12))
        pdf.ln(3)
        pdf.start_section(block.text, level=block.level - 1)
        pdf.multi_cell(0, 8, block.text, align="L", new_x=XPos.LMARGIN, new_y=YPos.NEXT)
        pdf.ln(1)
        return
    pdf.set_font("Helvetica", "", 11)
    if block.kind == "table":
        bold = FontFace(emphasis="BOLD")
        with pdf.table(line_height=6, text_align="LEFT", headings_style=bold) as table:
            for cells in block.rows:
                table.row([plain(cell) for cell in cells])
        pdf.ln(3)
        return
    lead = {"bullet": "\u2022 ", "step": f"{block.level}. "}.get(block.kind, "")
    marks = {"": "", "bold": "**", "italic": "__"}
    line = "".join(f"{marks[style]}{text}{marks[style]}" for text, style in spans(block.text))
    pdf.multi_cell(
        0, 5.6, lead + line, align="L", markdown=True, new_x=XPos.LMARGIN, new_y=YPos.NEXT
    )
    pdf.ln(1 if lead else 2.5)


def as_docx(source: str) -> bytes:
    document = docx.Document()
    properties = document.core_properties
    properties.author = "Quillmere Electronics"
    properties.created = properties.modified = EDITION.replace(tzinfo=None)
    styles = {"paragraph": "Normal", "bullet": "List Bullet", "step": "List Number"}
    for block in blocks(source):
        if block.kind == "heading":
            if block.level == 1:
                properties.title = block.text
            document.add_heading(block.text, level=block.level)
        elif block.kind == "page":
            document.add_paragraph().add_run().add_break(WD_BREAK.PAGE)
        elif block.kind == "table":
            table = document.add_table(rows=0, cols=len(block.rows[0]), style="Table Grid")
            for cells in block.rows:
                for cell, text in zip(table.add_row().cells, cells, strict=True):
                    cell.text = plain(text)
        else:
            paragraph = document.add_paragraph(style=styles[block.kind])
            for text, style in spans(block.text):
                run = paragraph.add_run(text)
                run.bold, run.italic = style == "bold", style == "italic"
    written = io.BytesIO()
    document.save(written)
    return _with_fixed_times(written)


def _with_fixed_times(archive: io.BytesIO) -> bytes:
    """The same ZIP archive without the time of day that each entry was written."""
    fixed = io.BytesIO()
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(fixed, "w") as new:
        for entry in old.infolist():
            info = zipfile.ZipInfo(entry.filename, ZIP_EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(info, old.read(entry))
    return fixed.getvalue()


WRITERS = {".pdf": as_pdf, ".docx": as_docx}


def build(output: Path = HANDBOOK) -> list[Path]:
    """Write every document that has a source below `output`; returns what was written."""
    sources = HANDBOOK / "sources"
    written = []
    for source in sorted(sources.rglob("*.md")):
        target = output / source.relative_to(sources).with_suffix("")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(WRITERS[target.suffix](source.read_text(encoding="utf-8")))
        written.append(target)
    return written


if __name__ == "__main__":
    for path in build(Path(sys.argv[1]) if len(sys.argv) > 1 else HANDBOOK):
        print(path)
