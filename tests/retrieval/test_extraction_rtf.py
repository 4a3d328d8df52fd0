"""Rich Text as programs really write it: code pages by font, escapes, notes, tables, junk."""

from __future__ import annotations

import pytest

from retrieval.extraction import Extracted
from retrieval.extraction.reading import read_document


def read(body: str, head: str = r"\ansi\ansicpg1252") -> Extracted:
    return read_document(f"{{\\rtf1{head} {body}}}".encode("latin-1"), "application/rtf")


def texts(body: str, head: str = r"\ansi\ansicpg1252") -> list[tuple[str | None, str]]:
    return [(segment.section, segment.text) for segment in read(body, head).segments]


def bytes_of(text: str, encoding: str) -> str:
    return "".join(f"\\'{byte:02x}" for byte in text.encode(encoding))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (r"Gr\'f6\'dfe", "Größe"),
        (r"\uc1 Gr\u246?\u223?e", "Größe"),
        (r"\uc0 Gr\u246\u223e", "Größe"),
        (r"\uc2 Gr\u246\'81\'82e", "Gröe"),
        (r"\u-10179?\u-8704?", "😀"),
        (r"a\~b\_c\-d", "a b-cd"),
        (r"\{x\}\\", "{x}\\"),
        (r"one\line two", "one\ntwo"),
        (r"\ldblquote q\rdblquote\emdash x", "“q”—x"),
        (r"seen{\v hidden}{\deleted gone} on", "seen on"),
        (r"{\field{\*\fldinst HYPERLINK x}{\fldrslt the link}}", "the link"),
        (r"{\*\unknown optional}text", "text"),
        (r"{\upr{ansi}{\*\ud{unicode}}}", "unicode"),
        (r"{\pict\bin4 {{{{}after", "after"),
        (r"cut {\b short", "cut short"),
        (r"text {\shp{\*\shpinst{\sp{\sn n}{\sv v}}{\shptxt boxed}}}", "text boxed"),
        (r"{\header running head}{\footerf foot}body", "body"),
    ],
)
def test_rtf__with_escapes_and_groups__gives_what_a_reader_sees(body, text):
    assert texts(body) == [(None, text)]


@pytest.mark.parametrize(
    ("charset", "encoding", "text"),
    [
        (204, "cp1251", "Возврат товара"),
        (238, "cp1250", "Zażółć gęślą jaźń"),
        (128, "cp932", "返品できます"),
        (134, "gb18030", "可以退货"),
        (136, "cp950", "可以退貨"),
        (129, "cp949", "반품 정책"),
        (177, "cp1255", "החזרות"),
    ],
)
def test_rtf__with_a_font_of_another_charset__is_read_by_that(charset, encoding, text):
    head = rf"\ansi\ansicpg1252{{\fonttbl{{\f0 A;}}{{\f1\fcharset{charset} B;}}}}"

    assert texts(rf"{{\f1 {bytes_of(text, encoding)}}} \f0 caf\'e9", head) == [
        (None, f"{text} café")
    ]


def test_rtf__with_styles_for_headings__has_their_path():
    head = (
        r"\ansi{\stylesheet{\s1 heading 1;}{\s2 heading 2;}{\s7\outlinelevel0 Chapter;}{\s9 Body;}}"
    )

    found = texts(
        r"\pard\s1 Refunds\par\pard\s9 Text.\par\pard\s2 By post\par\pard\s9 More.\par"
        r"\pard\s7 Other\par\pard End.\par",
        head,
    )

    assert found == [
        ("Refunds", "Refunds\n\nText."),
        ("Refunds > By post", "By post\n\nMore."),
        ("Other", "Other\n\nEnd."),
    ]


def test_rtf__with_a_table_list_and_note__keeps_their_form():
    [(_, text)] = texts(
        r"Before{\footnote A note.}.{\super\chftn}{\*\footnote\chftn\pard Another.}\par"
        r"{\pntext\'b7\tab}One\par{\listtext 2.\tab}Two\par"
        r"\trowd\pard\intbl a\par b\cell c\cell\row\pard\intbl d\cell e\cell\row\pard After\par"
    )

    assert text == (
        "Before.\n\nNote: A note.\n\nNote: Another.\n\n- One\n2. Two\n\n| a b | c |\n| d | e |\n\nAfter"
    )


def test_rtf__with_comments__leaves_them_out_and_says_so():
    result = read(r"Text{\*\atnid x}{\*\annotation{\*\atnref 1}remark} on.\par")

    assert [segment.text for segment in result.segments] == ["Text on."]
    assert result.notices == ("The document has review comments; they were left out.",)
