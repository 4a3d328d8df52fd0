"""Workbooks made here: what cells, boxes and charts show, and what is hostile."""

from __future__ import annotations

import pytest

from retrieval.extraction import Extracted, ExtractionFailed
from retrieval.extraction.readers.number_formats import BUILT_IN, number_format
from retrieval.extraction.reading import read_document
from tests.retrieval import documents

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def workbook(rows: str, *, properties: str = "", **parts: str) -> bytes:
    """Return a workbook of one sheet of raw XML; ``parts`` are more of its folder ``xl``."""
    content = {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": documents.relations(("officeDocument", "/xl/workbook.xml")),
        "xl/_rels/workbook.xml.rels": documents.relations(
            ("worksheet", "worksheets/sheet1.xml"),
            ("sharedStrings", "sharedStrings.xml"),
            ("styles", "styles.xml"),
        ),
        "xl/workbook.xml": (
            f'<workbook xmlns:r="r">{properties}<sheets><sheet name="A" r:id="r1"/></sheets>'
            "</workbook>"
        ),
        "xl/worksheets/sheet1.xml": f"<worksheet><sheetData>{rows}</sheetData></worksheet>",
    }
    return documents.zipped({**content, **{f"xl/{name}": part for name, part in parts.items()}})


def read(content: bytes) -> Extracted:
    return read_document(content, XLSX)


@pytest.mark.parametrize(
    ("code", "value", "shown"),
    [
        ("0%", "0.19", "19%"),
        ("0.0%", "7.4999999999999997E-2", "7.5%"),
        ("0.00 %;[Red]-0.00 %", "0.2", "20.00%"),
        ("0.0#%", "0.125", "12.5%"),
        ("0%", "n/a", "n/a"),
        (f"0.{'0' * 15}%", "123456789012345", f"12345678901234500.{'0' * 15}%"),
        ("00000", "1234", "01234"),
        ("00000", "-7", "-00007"),
        ("dd/mm/yyyy", "45352", "2024-03-01"),
        ("d. mmmm yyyy", "45352", "2024-03-01"),
        ("yyyy-mm-dd hh:mm", "45352.604166666664", "2024-03-01 14:30:00"),
        ("yyyy-mm-dd hh:mm", "45352", "2024-03-01"),
        ("m/d/yy", "45352.9", "2024-03-01"),
        ("[$-409]mmm yy", "1", "1900-01-01"),
        ("yyyy", "59", "1900-02-28"),
        ("hh:mm", "0.39583333333333331", "09:30:00"),
        ("h:mm AM/PM", "45352.5", "12:00:00"),
        ("mm:ss", "0.0010416666666666667", "00:01:30"),
        ("[h]:mm", "1.5", "36:00:00"),
        ("yyyy", "-1", "-1"),
        ("yyyy", "1E+300", "1E+300"),
        ("General", "0.30000000000000004", "0.3"),
        ("General", "1E+21", "1000000000000000000000"),
        ("General", "83200000", "83200000"),
        ("General", "13.0", "13"),
        ("General", "0.0", "0"),
        ("General", "123456789012345678", "123456789012345678"),
        ('#,##0.00 "h"', "1234.5", "1234.5"),
        ('"days: "0', "5", "5"),
        ("0.00E+00", "5", "5"),
    ],
)
def test_number__in_a_format__is_shown_as_people_see_it(code, value, shown):
    assert number_format(code)(value) == shown


def test_number__in_a_format_without_a_code__is_shown_as_people_see_it():
    assert number_format(BUILT_IN[9])("0.5") == "50%"
    assert number_format(BUILT_IN[14])("45352") == "2024-03-01"
    assert number_format(BUILT_IN[46])("2") == "48:00:00"


def test_workbook__with_cells_of_every_kind__has_what_they_show():
    rows = (
        '<row><c r="B2" t="s"><v>0</v></c><c r="D2" t="s"><v>1</v></c></row>'
        '<row><c r="B3" s="1"><v>0.19</v></c><c r="C3" t="b"><v>1</v></c>'
        '<c r="D3" t="e"><v>#DIV/0!</v></c></row>'
        '<row><c r="C4"><f>SUM(B1:B2)</f></c><c r="D4"><f>1+1</f><v>2</v></c></row>'
        '<row><c t="str"><f>A1</f><v>text</v></c><c t="inlineStr"><is><t>in line</t></is></c></row>'
        '<row><c t="s"><v>99</v></c><c s="99"><v>5</v></c><c t="d"><v>2024-03-01</v></c></row>'
        "<row/><row><c/></row>"
    )
    content = workbook(
        rows,
        **{
            "sharedStrings.xml": (
                "<sst><si><r><t>La</t></r><r><t>nd</t></r><rPh><t>hidden</t></rPh></si>"
                "<si><t>VAT_x000D_</t></si></sst>"
            ),
            "styles.xml": (
                '<styleSheet><cellXfs><xf numFmtId="0"/><xf numFmtId="9"/></cellXfs></styleSheet>'
            ),
        },
    )

    [segment] = read(content).segments

    assert segment.section == "A"
    assert segment.text == (
        "\tLand\t\tVAT\n\t19%\tTRUE\t#DIV/0!\n\t\t=SUM(B1:B2)\t2\ntext\tin line\n\t5\t2024-03-01"
    )


def test_workbook__that_counts_from_1904__has_the_right_dates():
    styles = (
        '<styleSheet><numFmts><numFmt numFmtId="170" formatCode="yyyy"/></numFmts>'
        '<cellXfs><xf numFmtId="170"/></cellXfs></styleSheet>'
    )
    content = workbook(
        "<row><c><v>43890</v></c></row>",
        properties='<workbookPr date1904="1"/>',
        **{"styles.xml": styles},
    )

    assert read(content).segments[0].text == "2024-03-01"


def test_workbook__with_a_box_a_chart_and_comments__reads_the_first_two_and_names_the_third():
    content = workbook(
        "<row><c><v>1</v></c></row>",
        **{
            "worksheets/_rels/sheet1.xml.rels": documents.relations(
                ("drawing", "../drawings/drawing1.xml"), ("comments", "../comments1.xml")
            ),
            "drawings/drawing1.xml": (
                "<wsDr><sp><txBody><p><r><t>In a box</t></r></p></txBody></sp>"
                "<AlternateContent><Choice><graphicFrame/></Choice><Fallback><sp><p><r>"
                "<t>This shape represents a slicer.</t></r></p></sp></Fallback></AlternateContent>"
                '<graphicFrame><chart id="r1"/></graphicFrame></wsDr>'
            ),
            "drawings/_rels/drawing1.xml.rels": documents.relations(("chart", "../chart1.xml")),
            "chart1.xml": "<c><title><p><r><t>Sales</t></r></p></title></c>",
            "comments1.xml": "<comments/>",
        },
    )

    result = read(content)

    assert result.segments[0].text == "1\n\nIn a box\n\nSales"
    assert result.notices == ("The workbook has cell comments; they were left out.",)


@pytest.mark.parametrize(
    "row",
    [
        '<row><c r="A1"><v>1</v></c><c r="XFD1"><v>1</v></c></row>' * 1000,
        '<row><c t="s"><v>0</v></c></row>' * 10_000,
        "<row><c><v>1</v></c></row>" + '<row><c r="XFD1"><v>1</v></c></row>' * 10_000,
    ],
)
def test_workbook__that_unfolds_beyond_all_bounds__is_too_large(row):
    strings = f"<sst><si><t>{'x' * 10_000}</t></si></sst>"

    with pytest.raises(ExtractionFailed) as failure:
        read(workbook(row, **{"sharedStrings.xml": strings}))

    assert failure.value.code == "extraction.too_large"


def test_workbook__with_escaped_characters_beyond_the_first_65536__has_them_whole():
    content = workbook('<row><c t="inlineStr"><is><t>a _xD83D__xDE00_ _xD83D_</t></is></c></row>')

    assert read(content).segments[0].text == "a \N{GRINNING FACE} \N{REPLACEMENT CHARACTER}"


def test_workbook__whose_cells_go_back__has_their_texts_and_no_end():
    content = workbook(
        '<row><c r="C1"><v>1</v></c><c r="A1"><v>2</v></c></row>'
        "<row>" + '<c r="A2"><v>3</v></c>' * 20_000 + "</row>"
    )

    first, second = read(content).segments[0].text.split("\n")

    assert first.split() == ["1", "2"]
    assert len(second.split("\t")) == 16_384


def test_workbook__with_places_beyond_the_last_column__leaves_these_cells_out():
    content = workbook('<row><c r="ZZZZZZ1"><v>1</v></c><c r="?"><v>2</v></c><c><v>3</v></c></row>')

    with pytest.raises(ExtractionFailed) as failure:
        read(content)

    assert failure.value.code == "extraction.no_text"


def test_workbook__that_breaks_off__is_damaged():
    with pytest.raises(ExtractionFailed) as failure:
        read(workbook("<row><c>"))

    assert failure.value.code == "extraction.damaged"
