"""PDF files made here: pages, sections, reading order, paragraphs, what is missing."""

from __future__ import annotations

import io

import pypdfium2  # type: ignore[import-untyped]
import pytest
from fpdf import FPDF

from retrieval.extraction import Extracted, ExtractionFailed, extract, installed_ocr
from retrieval.extraction.reading import read_document
from tests.retrieval.documents import pdf, pdf_stream, picture, raw_pdf

PDF = "application/pdf"
LONG = (
    "Parcels that come back within thirty days are refunded in full, provided that nothing in "
    "them was used, and the money is sent the way it came on the day the parcel is opened. "
)


def some_words(document: FPDF) -> None:
    document.add_page()
    document.cell(text="Some words.")


def read(content: bytes) -> Extracted:
    return read_document(content, PDF)


def test_pdf__of_several_pages__keeps_each_text_on_its_page():
    def fill(document):
        for number in ("one", "two", "three"):
            document.add_page()
            document.multi_cell(0, 6, f"Text of page {number}.")

    result = read(pdf(fill))

    assert [(s.page, s.text) for s in result.segments] == [
        (1, "Text of page one."),
        (2, "Text of page two."),
        (3, "Text of page three."),
    ]
    assert result.pages == 3


def test_pdf__with_bookmarks__has_their_path_as_section():
    def fill(document):
        document.add_page()
        document.cell(text="Before all.", new_x="LMARGIN", new_y="NEXT")
        document.start_section("Refunds")
        document.cell(text="Refunds", new_x="LMARGIN", new_y="NEXT")
        document.cell(text="Money comes back.", new_x="LMARGIN", new_y="NEXT")
        document.start_section("Returns by post", level=1)
        document.cell(text="Returns by post", new_x="LMARGIN", new_y="NEXT")
        document.cell(text="Send it to us.", new_x="LMARGIN", new_y="NEXT")
        document.add_page()
        document.cell(text="Still about post.", new_x="LMARGIN", new_y="NEXT")
        document.start_section("Warranty")
        document.cell(text="Two years for everything.")

    result = read(pdf(fill))

    assert [(s.page, s.section, s.text) for s in result.segments] == [
        (1, None, "Before all."),
        (1, "Refunds", "Refunds\n\nMoney comes back."),
        (1, "Refunds > Returns by post", "Returns by post\n\nSend it to us."),
        (2, "Refunds > Returns by post", "Still about post."),
        (2, "Warranty", "Two years for everything."),
    ]


def test_pdf__without_bookmarks__has_sections_by_size_of_type():
    def fill(document):
        for chapter in ("Delivery", "Returns"):
            document.add_page()
            document.set_font(size=8)
            document.cell(text="Handbook, running head", new_x="LMARGIN", new_y="NEXT")
            document.set_font(size=20)
            document.cell(text=chapter, new_x="LMARGIN", new_y="NEXT")
            for part in ("By post", "In person"):
                document.set_font(size=14)
                document.cell(text=part, new_x="LMARGIN", new_y="NEXT")
                document.set_font(size=11)
                document.multi_cell(0, 6, LONG * 3, new_x="LMARGIN", new_y="NEXT")

    sections = [(s.page, s.section) for s in read(pdf(fill)).segments]

    assert sections == [
        (1, None),
        (1, "Delivery > By post"),
        (1, "Delivery > In person"),
        (2, "Delivery > In person"),
        (2, "Returns > By post"),
        (2, "Returns > In person"),
    ]


def test_pdf__in_two_columns__is_read_column_by_column():
    def fill(document):
        document.add_page()
        with document.text_columns(ncols=2, gutter=10) as columns:
            columns.write("First column begins. " + LONG * 9)
            columns.write("Last words of all.")

    text = " ".join(read(pdf(fill)).segments[0].text.split())

    assert text == " ".join(("First column begins. " + LONG * 9 + "Last words of all.").split())


def test_pdf__with_wrapped_lines__has_whole_sentences_and_separate_paragraphs():
    def fill(document):
        document.add_page()
        document.multi_cell(0, 6, LONG, new_x="LMARGIN", new_y="NEXT")
        document.ln(6)
        document.multi_cell(0, 6, LONG, new_x="LMARGIN", new_y="NEXT")

    paragraphs = read(pdf(fill)).segments[0].text.split("\n\n")

    assert [p.replace("\n", " ") for p in paragraphs] == [LONG.strip(), LONG.strip()]
    assert "refunded in full, provided that nothing in them was used" in paragraphs[0]


def test_pdf__with_a_table__keeps_its_rows_apart():
    def fill(document):
        document.add_page()
        for row in (("Code", "Place", "Count"), ("SKU-1", "A-12", "450"), ("SKU-2", "B-7", "3")):
            for cell in row:
                document.cell(50, 6, cell)
            document.ln(6)

    text = read(pdf(fill)).segments[0].text

    assert [line.split() for line in text.splitlines() if line] == [
        ["Code", "Place", "Count"],
        ["SKU-1", "A-12", "450"],
        ["SKU-2", "B-7", "3"],
    ]


@pytest.mark.parametrize("turned", [0, 90, 180, 270])
@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_pdf__with_turned_text_on_a_rotated_page__is_read_as_usual(degrees, turned):
    def fill(document):
        document.add_page()
        with document.rotation(turned, x=100, y=150):
            document.set_xy(40, 130)
            document.multi_cell(100, 6, LONG)

    document = pypdfium2.PdfDocument(pdf(fill))
    document[0].set_rotation(degrees)
    file = io.BytesIO()
    document.save(file)

    text = read(file.getvalue()).segments[0].text

    assert " ".join(text.split()) == LONG.strip()


def test_pdf__under_a_password__says_that_one_is_needed():
    def fill(document):
        document.set_encryption(owner_password="owner", user_password="user")
        document.add_page()
        document.cell(text="Secret.")

    with pytest.raises(ExtractionFailed) as failure:
        extract(pdf(fill), PDF)

    assert failure.value.code == "extraction.password_required"
    assert "password" in failure.value.sentence


def test_pdf__with_a_scanned_page__names_it_and_keeps_the_others():
    def fill(document):
        document.add_page()
        document.cell(text="Typed.")
        for _ in range(2):
            document.add_page()
            document.rect(10, 10, 50, 50, style="F")

    result = read(pdf(fill))

    assert [s.page for s in result.segments] == [1]
    assert result.notices == ("No text on pages 2–3: scanned?",)


TESSERACT = installed_ocr("eng")


def stamped_scan(document: FPDF) -> None:
    document.add_page()
    document.image(picture("Parcels are returned"), x=0, y=0, w=document.w, h=document.h)
    document.text(20, 20, "ABC-000123")
    document.add_page()
    document.image(picture("logo"), x=10, y=10, w=40)
    document.text(20, 80, "A short page.")


def test_pdf__with_a_stamp_on_a_scan__says_that_there_is_hardly_any_text():
    result = read(pdf(stamped_scan))

    assert [(s.page, s.text) for s in result.segments] == [(1, "ABC-000123"), (2, "A short page.")]
    assert result.notices == ("Hardly any text on page 1: scanned?",)


@pytest.mark.skipif(TESSERACT is None, reason="tesseract's English language data are missing")
def test_pdf__with_a_stamp_on_a_scan_and_ocr__has_what_is_on_the_picture():
    result = extract(pdf(stamped_scan), PDF, ocr=TESSERACT)

    assert "Parcels are returned" in " ".join(result.segments[0].text.split())
    assert result.notices == ("Read by OCR: page 1.",)


@pytest.mark.parametrize("draw", [True, False])
def test_pdf__without_any_text__fails_as_having_none(draw):
    def fill(document):
        document.add_page()
        if draw:
            document.rect(10, 10, 50, 50, style="F")

    with pytest.raises(ExtractionFailed) as failure:
        extract(pdf(fill), PDF)

    assert failure.value.code == "extraction.no_text"
    assert ("scanned" in failure.value.sentence) is draw


def test_pdf__cut_short__gives_its_text_or_says_that_it_is_damaged():
    whole = pdf(some_words)

    with pytest.raises(ExtractionFailed) as failure:
        extract(whole[: len(whole) // 3], PDF)

    assert failure.value.code == "extraction.damaged"


def test_pdf__whose_pages_loop__ends_with_a_sentence():
    loop = raw_pdf(b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[2 0 R 2 0 R]/Count 10>>")

    with pytest.raises(ExtractionFailed) as failure:
        extract(loop, PDF)

    assert failure.value.code == "extraction.damaged"


def test_pdf__with_a_form__has_what_is_filled_in():
    form = raw_pdf(
        b"<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[4 0 R]>>>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Annots[4 0 R]>>",
        b"<</Type/Annot/Subtype/Widget/FT/Tx/T(city)/TU(Town)/V(Norwich)/Rect[0 0 90 20]>>",
    )

    assert [s.text for s in read(form).segments] == ["Town: Norwich"]


def test_pdf__with_a_word_broken_at_a_line_end__joins_it():
    def fill(document):
        document.add_page()
        document.cell(text="The booksellers gave them-", new_x="LMARGIN", new_y="NEXT")
        document.cell(text="selves a well-known and well-", new_x="LMARGIN", new_y="NEXT")
        document.cell(text="known profit.", new_x="LMARGIN", new_y="NEXT")

    text = read(pdf(fill)).segments[0].text

    assert text == "The booksellers gave themselves a well-known and well-known profit."


def test_pdf__with_a_form_of_other_fields__has_what_is_chosen_and_ticked():
    form = raw_pdf(
        b"<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[4 0 R 6 0 R 7 0 R 8 0 R 9 0 R]>>>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Annots[5 0 R 6 0 R 7 0 R 8 0 R 9 0 R]>>",
        # The value stands with the field, the place with its child
        b"<</FT/Tx/T(address)/TU(Town)/V(Norwich)/Kids[5 0 R]>>",
        b"<</Type/Annot/Subtype/Widget/Parent 4 0 R/Rect[0 0 90 20]>>",
        b"<</Type/Annot/Subtype/Widget/FT/Ch/Ff 131072/T(land)/V(DE)/Opt[[(DE)(Germany)]"
        b"[(FR)(France)]]/Rect[0 0 9 9]>>",
        b"<</Type/Annot/Subtype/Widget/FT/Ch/Ff 2097152/T(form[0].lang[0])/V[(en)(fr)]"
        b"/Opt[(en)(de)(fr)]/Rect[0 0 9 9]>>",
        b"<</Type/Annot/Subtype/Widget/FT/Btn/T(terms)/TU(Accepts the terms)/V/Yes/AS/Yes"
        b"/AP<</N<</Yes 10 0 R/Off 10 0 R>>>>/Rect[0 0 9 9]>>",
        b"<</Type/Annot/Subtype/Widget/FT/Btn/T(news)/V/Off/AS/Off"
        b"/AP<</N<</Yes 10 0 R/Off 10 0 R>>>>/Rect[0 0 9 9]>>",
        b"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Length 0>>stream\n\nendstream",
    )

    assert [s.text for s in read(form).segments] == [
        "Town: Norwich\nland: Germany\nlang: en\nlang: fr\nAccepts the terms: Yes"
    ]


def test_pdf__with_files_inside__names_them():
    def fill(document):
        some_words(document)
        for number in range(7):
            document.embed_file(bytes=b"x", basename=f"prices-{number}.csv")

    [notice] = read(pdf(fill)).notices

    assert "'prices-0.csv'" in notice
    assert "2 more" in notice


def test_pdf__with_letters_that_it_does_not_name__says_that_the_page_has_no_text():
    content = raw_pdf(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R"
        b"/Resources<</Font<</F 5 0 R>>>>>>",
        pdf_stream(b"BT /F 20 Tf 20 100 Td <00010002000300040005> Tj ET"),
        b"<</Type/Font/Subtype/Type0/BaseFont/X/Encoding/Identity-H/DescendantFonts[6 0 R]>>",
        b"<</Type/Font/Subtype/CIDFontType2/BaseFont/X/DW 500"
        b"/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>>>",
    )

    with pytest.raises(ExtractionFailed) as failure:
        read(content)

    assert failure.value.sentence == "No text on page 1: scanned?"


def test_pdf__with_a_word_across_the_page__does_not_take_it_for_a_heading():
    def fill(document):
        document.add_page()
        document.multi_cell(0, 6, LONG * 3, new_x="LMARGIN", new_y="NEXT")
        with document.rotation(45, x=60, y=160):
            document.set_font_size(60)
            document.text(60, 160, "DRAFT")
        document.set_font_size(11)
        document.set_y(200)
        document.multi_cell(0, 6, LONG)

    result = read(pdf(fill))

    assert {segment.section for segment in result.segments} == {None}
    assert "DRAFT" in result.segments[0].text
