"""Office documents, books and mails made here: pages, sections, tables, notes."""

from __future__ import annotations

import pytest

from retrieval.extraction import Extracted, ExtractionFailed, detect_type
from retrieval.extraction.archives import Archive
from retrieval.extraction.reading import read_document
from tests.retrieval import documents

MIB = 1024 * 1024


def read(name: str, content: bytes) -> Extracted:
    return read_document(content, detect_type(name=name, content=content).media_type)


def outline(result: Extracted) -> list[tuple[str | None, str]]:
    return [(segment.section, segment.text) for segment in result.segments]


def test_word__with_headings__has_their_path_as_section():
    def fill(document):
        document.add_heading("Handbook", level=0)
        document.add_paragraph("About us.")
        document.add_heading("Refunds", level=1)
        document.add_heading("Returns by post", level=2)
        document.add_paragraph("Send it.")
        document.add_paragraph("in a box", style="List Bullet")
        document.add_heading("Warranty", level=1)
        document.add_paragraph("Two years.")

    assert outline(read("a.docx", documents.word(fill))) == [
        ("Handbook", "Handbook\n\nAbout us."),
        (
            "Handbook > Refunds > Returns by post",
            "Refunds\n\nReturns by post\n\nSend it.\n\nin a box",
        ),
        ("Handbook > Warranty", "Warranty\n\nTwo years."),
    ]


def test_word__with_a_style_based_on_a_heading__takes_it_for_one():
    def fill(document):
        style = document.styles.add_style("Our Heading", 1)
        style.base_style = document.styles["Heading 1"]
        document.add_paragraph("Refunds", style="Our Heading")
        document.add_paragraph("Money.")

    assert outline(read("a.docx", documents.word(fill))) == [("Refunds", "Refunds\n\nMoney.")]


def test_word__with_a_table__keeps_its_rows_and_what_is_nested():
    def fill(document):
        table = document.add_table(2, 2)
        for cell, text in zip(table._cells, ("Plan", "Price", "Basic", "5 | 6"), strict=True):
            cell.text = text
        inner = table.cell(1, 0).add_table(1, 2)
        inner.cell(0, 0).text, inner.cell(0, 1).text = "in", "side"

    assert outline(read("a.docx", documents.word(fill))) == [
        (None, "| Plan | Price |\n| Basic in side | 5 \\| 6 |")
    ]


def test_word__with_changes_boxes_and_notes__keeps_what_a_reader_sees():
    body = (
        "<w:p><w:r><w:t>kept </w:t></w:r><w:ins><w:r><w:t>new</w:t></w:r></w:ins>"
        "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del>"
        "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r>"
        "<w:r><w:tab/><w:t>x</w:t><w:noBreakHyphen/><w:t>y</w:t><w:softHyphen/><w:t>z</w:t></w:r>"
        '<w:r><w:instrText>PAGE</w:instrText></w:r><w:r><w:footnoteReference w:id="2"/></w:r>'
        "<mc:AlternateContent><mc:Choice><w:txbxContent><w:p><w:r><w:t>box</w:t></w:r></w:p>"
        "</w:txbxContent></mc:Choice><mc:Fallback><w:txbxContent><w:p><w:r><w:t>box</w:t></w:r>"
        "</w:p></w:txbxContent></mc:Fallback></mc:AlternateContent></w:p>"
        "<w:sdt><w:sdtContent><w:p><w:r><w:t>control</w:t></w:r></w:p></w:sdtContent></w:sdt>"
    )
    note = "<w:p><w:r><w:t>at the foot</w:t></w:r></w:p>"
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    content = documents.word_xml(
        body,
        **{
            "word/_rels/document.xml.rels": (
                '<R><Relationship Id="f" Type="x/footnotes" Target="footnotes.xml"/></R>'
            ),
            "word/footnotes.xml": (
                f'<w:footnotes xmlns:w="{word}"><w:footnote w:type="separator" w:id="1"/>'
                f'<w:footnote w:id="2">{note}</w:footnote></w:footnotes>'
            ),
        },
    )

    assert outline(read("a.docx", content)) == [
        (None, "kept new\tx-yz\n\nbox\n\nNote: at the foot\n\ncontrol")
    ]


def test_word__with_wide_cells_boxes_and_deleted_rows_in_a_table__keeps_the_columns():
    def cell(text: str, properties: str = "", inside: str = "") -> str:
        return (
            f"<w:tc><w:tcPr>{properties}</w:tcPr><w:p><w:r><w:t>{text}</w:t>{inside}</w:r></w:p>"
            "</w:tc>"
        )

    wide = '<w:gridSpan w:val="2"/>'
    box = (
        "<w:pict><w:txbxContent><w:p><w:r><w:t>in a box</w:t></w:r></w:p></w:txbxContent></w:pict>"
    )
    body = (
        "<w:tbl>"
        f"<w:tr>{cell('Plan', wide)}{cell('Price')}</w:tr>"
        f"<w:tr><w:trPr><w:gridBefore w:val='1'/></w:trPr>{cell('a')}{cell('5', '', box)}</w:tr>"
        f"<w:tr>{cell('b')}{cell('c')}{cell('6')}</w:tr>"
        f"<w:tr><w:trPr><w:del/></w:trPr>{cell('gone')}{cell('gone')}{cell('gone')}</w:tr>"
        "</w:tbl>"
    )

    assert outline(read("a.docx", documents.word_xml(body))) == [
        (None, "| Plan |  | Price |\n|  | a | 5 in a box |\n| b | c | 6 |")
    ]


def test_word__with_an_author_in_the_style_of_the_title__keeps_the_title_on_top():
    def fill(document):
        for name in ("Author", "Date"):
            style = document.styles.add_style(name, 1)
            style.base_style = document.styles["Title"]
        document.add_heading("Handbook", level=0)
        document.add_paragraph("A. Writer", style="Author")
        document.add_heading("Refunds", level=1)
        document.add_paragraph("Money.")

    assert outline(read("a.docx", documents.word(fill))) == [
        ("Handbook", "Handbook\n\nA. Writer"),
        ("Handbook > Refunds", "Refunds\n\nMoney."),
    ]


def test_word__with_a_chart_and_a_diagram__has_what_they_say():
    content = documents.word_xml(
        '<w:p><w:r><w:drawing><c:chart xmlns:c="c" id="r1"/></w:drawing></w:r></w:p>'
        '<w:p><w:r><w:t>Then:</w:t><w:drawing><d:relIds xmlns:d="d" dm="r2"/></w:drawing></w:r></w:p>',
        **{
            "word/_rels/document.xml.rels": documents.relations(
                ("chart", "charts/chart1.xml"),
                ("diagramData", "diagrams/data1.xml"),
                ("comments", "comments.xml"),
            ),
            "word/comments.xml": "<comments/>",
            "word/charts/chart1.xml": (
                "<chart><title><p><r><t>Sales</t></r></p></title><ser><tx><v>Post</v></tx>"
                "<cat><v>2023</v><v>2024</v></cat><val><v>4</v><v>4.4000000000000004</v></val></ser>"
                "</chart>"
            ),
            "word/diagrams/data1.xml": (
                "<dataModel><p><r><t>Pack</t></r></p><p><r><t>Send</t></r></p></dataModel>"
            ),
        },
    )

    result = read("a.docx", content)

    assert outline(result) == [
        (
            None,
            "Sales\n|  | 2023 | 2024 |\n| --- | --- | --- |\n| Post | 4 | 4.4 |\n\n"
            "Then:\n\nPack\nSend",
        )
    ]
    assert result.notices == ()


def test_word__that_is_nothing_but_a_running_head__has_its_words():
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    head = f'<w:hdr xmlns:w="{word}"><w:p><w:r><w:t>Notice 7</w:t></w:r></w:p></w:hdr>'
    parts = {
        "word/_rels/document.xml.rels": documents.relations(("header", "header1.xml")),
        "word/header1.xml": head,
    }

    alone = documents.word_xml("<w:p/>", **parts)
    beside = documents.word_xml("<w:p><w:r><w:t>Text.</w:t></w:r></w:p>", **parts)

    assert outline(read("a.docx", alone)) == [(None, "Notice 7")]
    assert outline(read("a.docx", beside)) == [(None, "Text.")]


def test_word__whose_xml_asks_for_a_file_of_the_server__does_not_get_it(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("of the server")
    body = "<w:p><w:r><w:t>x&file;y</w:t></w:r></w:p>"
    document = documents.word_xml(body)
    content = documents.zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": (
                f'<!DOCTYPE d [<!ENTITY file SYSTEM "{secret.as_uri()}">]>'
                '<w:document xmlns:w="urn:w"><w:body>' + body + "</w:body></w:document>"
            ),
        }
    )
    assert len(document) > 100

    assert outline(read("a.docx", content)) == [(None, "x")]


def test_slides__in_an_order_of_their_own__have_page_title_and_notes():
    content = documents.presentation(
        [
            ("Refunds", "Money comes back.\nIn days.", "Say it slowly."),
            ("", "No title here.", ""),
            ("Warranty", "Two years.", ""),
        ]
    )

    result = read("a.pptx", content)

    assert [(s.page, s.section, s.text) for s in result.segments] == [
        (1, "Refunds", "Refunds\n\nMoney comes back.\nIn days."),
        (1, "Refunds > Speaker notes", "Speaker notes\n\nSay it slowly."),
        (2, None, "No title here."),
        (3, "Warranty", "Warranty\n\nTwo years."),
    ]
    assert result.pages == 3


def test_slides__with_comments__leave_them_out_and_say_so():
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": "<Types/>",
        "ppt/slides/slide1.xml": "<sld><sp><p><t>Shown.</t></p></sp></sld>",
        "ppt/slides/_rels/slide1.xml.rels": documents.relations(("comments", "../c.xml")),
        "ppt/c.xml": "<cmLst><cm><text>a remark</text></cm></cmLst>",
    }

    result = read("a.pptx", documents.zipped(parts))

    assert outline(result) == [(None, "Shown.")]
    assert result.notices == ("The presentation has comments; they were left out.",)


def test_workbook__of_several_sheets__has_the_sheet_as_section_and_rows_as_lines():
    content = documents.workbook(
        {"Prices": [["Plan", "Price"], ["Basic", 5.5]], "Empty": [], "Places": [["Łódź"]]}
    )

    assert outline(read("a.xlsx", content)) == [
        ("Prices", "Plan\tPrice\nBasic\t5.5"),
        ("Places", "Łódź"),
    ]


def test_book__of_several_pages__is_read_in_its_own_order():
    content = documents.book(
        {
            "z.xhtml": "<h1>One</h1><p>First.</p>",
            "a.xhtml": "<p>Still one.</p><h2>Part</h2><p>Second.</p>",
            "b.xhtml": "<h1>Two</h1><p>Third.</p>",
        }
    )

    assert outline(read("a.epub", content)) == [
        ("One", "One\n\nFirst.\n\nStill one."),
        ("One > Part", "Part\n\nSecond."),
        ("Two", "Two\n\nThird."),
    ]


def test_opendocument_text__with_headings__has_their_path_as_section():
    body = (
        '<text:h text:outline-level="1">Refunds</text:h><text:p>a<text:s text:c="2"/>b<text:tab/>c'
        "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>foot</text:p>"
        '</text:note-body></text:note></text:p><text:h text:outline-level="2">By post</text:h>'
        "<text:list><text:list-item><text:p>one</text:p><text:list><text:list-item><text:p>two"
        "</text:p></text:list-item></text:list></text:list-item></text:list>"
        "<table:table><table:table-row><table:table-cell><text:p>x</text:p></table:table-cell>"
        '<table:table-cell table:number-columns-repeated="2"><text:p>y</text:p></table:table-cell>'
        "</table:table-row></table:table>"
    )

    assert outline(read("a.odt", documents.opendocument("text", body))) == [
        ("Refunds", "Refunds\n\na  b\tc\n\nNote: foot"),
        ("Refunds > By post", "By post\n\n- one\n  - two\n\n| x | y | y |"),
    ]


def test_opendocument_text__with_a_title_and_comments__has_the_title_on_top_and_no_comments():
    comment = "<office:annotation><text:p>a remark</text:p></office:annotation>"
    body = (
        '<text:p text:style-name="Title">Handbook</text:p><text:h>Refunds</text:h>'
        f"<table:table><table:table-row><table:table-cell><text:p>x{comment}</text:p>"
        "</table:table-cell><table:table-cell><text:p>y</text:p></table:table-cell>"
        "</table:table-row></table:table>"
    )

    assert outline(read("a.odt", documents.opendocument("text", body))) == [
        ("Handbook > Refunds", "Handbook\n\nRefunds\n\n| x | y |")
    ]


def test_opendocument_text__with_a_note_and_a_box_in_a_list__keeps_both():
    body = (
        "<text:list><text:list-item><text:p>one<text:note><text:note-body><text:p>foot</text:p>"
        "</text:note-body></text:note></text:p></text:list-item><text:list-item><text:p>two"
        "<draw:frame><draw:text-box><text:p>boxed</text:p></draw:text-box></draw:frame></text:p>"
        "</text:list-item></text:list>"
    )

    assert outline(read("a.odt", documents.opendocument("text", body))) == [
        (None, "- one\n- two\n\nNote: foot\n\nboxed")
    ]


def test_opendocument_sheets__with_formats__have_what_the_cells_show():
    def row(*cells: str, repeated: int = 1) -> str:
        return (
            f'<table:table-row table:number-rows-repeated="{repeated}">{"".join(cells)}'
            "</table:table-row>"
        )

    def cell(shown: str, value: str = "", more: str = "") -> str:
        text = f"<text:p>{shown}</text:p>" if shown else ""
        return f'<table:table-cell office:value="{value}" {more}>{text}</table:table-cell>'

    empty = '<table:table-cell table:number-columns-repeated="16384"/>'
    body = (
        '<table:table table:name="Rates">'
        + row(empty, repeated=1_000_000)
        + row("<table:table-cell/>", cell("Land"), cell("VAT"), empty)
        + row("<table:table-cell/>", cell("Belgien"), cell("21 %", "0.21"), cell("", "7"))
        + row("<table:table-cell/>", cell("Alle"), "<table:covered-table-cell/>", cell("1.234,50"))
        + '</table:table><table:table table:name="Empty"/>'
        + '<table:table table:name="Twice">'
        + row(cell("x", more='table:number-columns-repeated="2"'), repeated=2)
        + "</table:table>"
    )

    assert outline(read("a.ods", documents.opendocument("spreadsheet", body))) == [
        ("Rates", "Land\tVAT\nBelgien\t21 %\t7\nAlle\t\t1.234,50"),
        ("Twice", "x\tx\nx\tx"),
    ]


def test_opendocument_slides__with_notes__have_page_title_and_notes():
    body = (
        '<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>Refunds</text:p>'
        "</draw:text-box></draw:frame><draw:frame><draw:text-box><text:p>Money.</text:p>"
        "</draw:text-box></draw:frame><presentation:notes><draw:frame><draw:text-box><text:p>Slowly."
        "</text:p></draw:text-box></draw:frame></presentation:notes></draw:page><draw:page>"
        "<draw:frame><draw:text-box><text:p>Two.</text:p></draw:text-box></draw:frame></draw:page>"
    )

    result = read("a.odp", documents.opendocument("presentation", body))

    assert [(s.page, s.section, s.text) for s in result.segments] == [
        (1, "Refunds", "Refunds\n\nMoney."),
        (1, "Refunds > Speaker notes", "Speaker notes\n\nSlowly."),
        (2, None, "Two."),
    ]


def test_rtf__with_headings_and_marks__has_sections_and_the_words_as_they_are():
    content = (
        rb"{\rtf1\ansi\ansicpg1252{\stylesheet{\s1 heading 1;}}{\pard\s1\outlinelevel0 Refunds\par}"
        rb"{\pard a*b*c <x> _y_ caf\'e9 \u8364?5 # no\par}}"
    )

    assert outline(read("a.rtf", content)) == [("Refunds", "Refunds\n\na*b*c <x> _y_ café €5 # no")]


def test_mail__in_html_with_attachments__is_read_with_what_is_text():
    content = (
        b"From: =?utf-8?q?J=C3=BCrgen?= <j@example.org>\r\nSubject: Refund\r\n"
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"
        b"--b\r\nContent-Type: text/html; charset=iso-8859-1\r\n"
        b"Content-Transfer-Encoding: quoted-printable\r\n\r\n<p>Sch=F6ne <b>Gr=FC=DFe</b></p>\r\n"
        b"--b\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename=n.txt\r\n\r\n"
        b"noted\r\n--b\r\nContent-Type: image/png\r\n"
        b"Content-Disposition: attachment; filename=p.png\r\n\r\nxx\r\n"
        b"--b\r\nContent-Type: message/rfc822\r\n\r\nSubject: Inner\r\n\r\nforwarded\r\n--b--\r\n"
    )

    result = read("a.eml", content)

    assert outline(result) == [
        ("Refund", "Refund\n\nFrom: Jürgen <j@example.org>\n\nSchöne Grüße"),
        ("Refund > n.txt", "n.txt\n\nnoted"),
        ("Refund > Inner", "Inner\n\nforwarded"),
    ]
    assert result.notices == ("The attachment 'p.png' was not read: upload it by itself.",)


def test_mail__with_several_texts__has_all_that_a_reader_is_shown():
    alternative = (
        b"Content-Type: multipart/alternative; boundary=%b\n\n"
        b"--%b\nContent-Type: text/plain\n\n%s\n"
        b"--%b\nContent-Type: text/html\n\n<p>the same in HTML\n--%b--\n"
    )
    content = (
        b"Subject: Returns\nContent-Type: multipart/mixed; boundary=m\n\n"
        b"--m\n" + alternative % (b"a", b"a", b"Hello.", b"a", b"a") + b"--m\n"
        b"Content-Type: message/rfc822\n\nSubject: Inner\n\nforwarded\n"
        b"--m\nContent-Type: text/html\n\n<h1>Offer</h1><p>Ten percent.\n"
        b"--m\n" + alternative % (b"c", b"c", b"More words.", b"c", b"c") + b"--m\n"
        b"Content-Type: text/plain\n\nSent to the list.\n"
        b"--m\nContent-Type: text/calendar\n\nBEGIN:VCALENDAR\n--m--\n"
    )

    assert outline(read("a.eml", content)) == [
        ("Returns", "Returns\n\nHello."),
        ("Returns > Inner", "Inner\n\nforwarded"),
        ("Returns > Offer", "Offer\n\nTen percent."),
        ("Returns", "More words.\n\nSent to the list."),
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "koi8-r"])
def test_mail__with_bare_letters_in_its_head__has_them_right(encoding):
    subject = "Возврат товара" if encoding == "koi8-r" else "Rückgabe größerer Geräte"

    content = f"Subject: {subject}\n\nBody\n".encode(encoding)

    assert outline(read("a.eml", content)) == [(subject, f"{subject}\n\nBody")]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_mail__saved_as_text_in_another_encoding__is_read(encoding):
    content = "Subject: Größe\n\nBody\n".encode(encoding)

    assert outline(read("a.eml", content)) == [("Größe", "Größe\n\nBody")]


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx", "a.pptx"])
def test_office_document__under_a_password__says_that_one_is_needed(name):
    with pytest.raises(ExtractionFailed) as failure:
        read(name, documents.ole("EncryptionInfo", "EncryptedPackage"))

    assert failure.value.code == "extraction.password_required"


def test_word_97_document__under_a_password__says_that_one_is_needed():
    # The flag in its head, at byte 10
    head = b"\xec\xa5\xc1\0".ljust(10, b"\0") + b"\0\x01"

    with pytest.raises(ExtractionFailed) as failure:
        read("a.doc", documents.ole("WordDocument", head=head))

    assert failure.value.code == "extraction.password_required"


def test_word__with_embedded_web_pages__reads_them_in_their_place():
    body = (
        "<w:p><w:r><w:t>Before</w:t></w:r></w:p>"
        '<w:altChunk xmlns:r="urn:r" r:id="r1"/><w:altChunk xmlns:r="urn:r" r:id="r2"/>'
        '<w:altChunk xmlns:r="urn:r" r:id="r3"/><w:altChunk xmlns:r="urn:r" r:id="r9"/>'
        "<w:p><w:r><w:t>After</w:t></w:r></w:p>"
    )
    page = "MIME-Version: 1.0\nContent-Type: text/html\n\n<p>Saved page</p>"
    content = documents.word_xml(
        body,
        **{
            "word/_rels/document.xml.rels": documents.relations(
                ("aFChunk", "a.html"), ("aFChunk", "b.mht"), ("aFChunk", "c.docx")
            ),
            "word/a.html": "<h2>Terms</h2><p>Größe</p>",
            "word/b.mht": page,
            "word/c.docx": "x",
        },
    )

    result = read("a.docx", content)

    assert outline(result) == [(None, "Before"), ("Terms", "Terms\n\nGröße\n\nSaved page\n\nAfter")]
    assert result.notices == (
        "The embedded document 'word/c.docx' was not read: upload it by itself.",
    )


@pytest.mark.parametrize(
    "broken",
    [
        {"package": "<package><manifest><item"},
        {"container": "<container/>"},
        {"container": "no XML"},
        {"package": "<package/>"},
    ],
)
def test_book__whose_list_of_pages_is_broken__is_read_in_the_order_of_names(broken):
    content = documents.book({"b.xhtml": "<p>Second</p>", "a.xhtml": "<p>First</p>"}, **broken)

    result = read("a.epub", content)

    assert outline(result) == [(None, "First\n\nSecond")]
    assert "list of pages is broken" in result.notices[0]


def test_book__of_the_first_kind__is_read_in_its_own_order():
    package = (
        '<package><manifest><item id="a" href="a.html" media-type="text/x-oeb1-document"/>'
        '<item id="b" href="b.html" media-type="text/x-oeb1-document"/></manifest>'
        '<spine><itemref idref="b"/><itemref idref="a"/></spine></package>'
    )
    content = documents.book({"a.html": "<p>Last.", "b.html": "<p>First."}, package=package)

    result = read("a.epub", content)

    assert outline(result) == [(None, "First.\n\nLast.")]
    assert result.notices == ()


def test_book__that_lists_a_page_often__has_it_once():
    package = (
        '<package><manifest><item id="a" href="a.xhtml" media-type="text/html"/></manifest><spine>'
        + '<itemref idref="a"/>' * 1000
        + "</spine></package>"
    )

    result = read("a.epub", documents.book({"a.xhtml": "<p>Once</p>"}, package=package))

    assert outline(result) == [(None, "Once")]


def test_slides__with_a_text_beyond_all_bounds__say_that_it_is_too_long():
    with pytest.raises(ExtractionFailed) as failure:
        read("a.pptx", documents.presentation([("T", "word " * 3_000_000, "")]))

    assert failure.value.code == "extraction.too_large"


def test_archive__that_unfolds_to_more_than_allowed__is_not_unfolded():
    archive = Archive(documents.zipped({"part": bytes(2 * MIB), "small": b"x"}))

    with pytest.raises(ExtractionFailed) as failure:
        archive.read("part", most=MIB)

    assert failure.value.code == "extraction.too_large"
    assert archive.read("small", most=MIB) == b"x"


def test_archive__whose_parts_unfold_to_more_than_allowed_together__stops_there():
    archive = Archive(documents.zipped({f"{number}": bytes(60 * MIB) for number in range(5)}))
    for number in range(4):
        archive.read(f"{number}")

    with pytest.raises(ExtractionFailed) as failure:
        archive.read("4")

    assert failure.value.code == "extraction.too_large"


def test_office_document__with_a_broken_part__says_that_it_is_damaged():
    content = documents.word_xml("<w:p><w:r><w:t>never closed")

    with pytest.raises(ExtractionFailed) as failure:
        read("a.docx", content)

    assert failure.value.code == "extraction.damaged"
    assert "word/document.xml" in failure.value.sentence
