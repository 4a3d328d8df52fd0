"""Characters: every encoding is read, every text has one form."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.extraction import Extracted, detect_type
from retrieval.extraction.encodings import wide_encoding
from retrieval.extraction.normalisation import normalise
from retrieval.extraction.reading import read_document

SENTENCES = {
    "utf-8": "Größe, 返品, возврат",
    "utf-8-sig": "Größe, 返品, возврат",
    "utf-16": "Größe, 返品, возврат",
    "utf-32": "Größe, 返品, возврат",
    "utf-16-le": "Returns within thirty days",
    "utf-16-be": "Returns within thirty days",
    "utf-32-le": "Returns within thirty days",
    "latin-1": "können",
    "cp1252": "Größe: 5 – „groß“ für 3 €",
    "cp1250": "Zażółć gęślą jaźń, zwrot towaru w ciągu 14 dni",
    "cp1251": "Привет, возврат товара в течение 30 дней",
    "koi8-r": "Привет, возврат товара в течение 30 дней",
    "cp1253": "Πολιτική επιστροφών: τριάντα ημέρες",
    "cp1255": "מדיניות החזרות שלושים יום",
    "cp1256": "سياسة الإرجاع ثلاثون يوما",
    "shift_jis": "返品ポリシー：三十日以内に返品できます",
    "euc_jp": "返品ポリシー：三十日以内に返品できます",
    "gb18030": "退货政策：三十天内可以退货",
    "big5": "退貨政策：三十天內可以退貨",
    "euc_kr": "반품 정책: 30일 이내에 반품할 수 있습니다",
    "iso8859-2": "Zażółć gęślą jaźń, zwrot towaru w ciągu 14 dni",
    "iso8859-8": "מדיניות החזרות שלושים יום",
    "iso2022_jp": "返品ポリシー：三十日以内に返品できます",
    "mac_roman": "Größe: 5 – „groß“, élève à l’école",
    "cp850": "Die Rückgabe größerer Geräte ist möglich",
}
# Without a byte-order mark, and without the zeros that Latin letters have
WIDE = {
    "russian": "Возврат товара в течение тридцати дней. Мы платим.",
    "arabic": "سياسة الإرجاع ثلاثون يوما من التسليم",
    "hebrew": "מדיניות החזרות שלושים יום ממועד המסירה",
    "japanese": "返品ポリシー：三十日以内に返品できます。\nカタカナも。",
    "chinese": "退货政策：三十天内可以退货。\n我们承担邮费。",
    "korean": "반품 정책: 서른 날 안에 반품할 수 있습니다",
    "thai": "คืนสินค้าได้ภายในสามสิบวัน\nหลังการจัดส่ง",
}


def plain(content: bytes) -> Extracted:
    return read_document(content, "text/plain")


@pytest.mark.parametrize(("encoding", "sentence"), SENTENCES.items())
def test_text__in_an_encoding__is_read(encoding, sentence):
    result = plain(sentence.encode(encoding))

    assert [segment.text for segment in result.segments] == [sentence]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("language", WIDE)
def test_text__in_wide_letters_of_any_script__is_read(language, encoding):
    content = WIDE[language].encode(encoding)

    assert detect_type(name="a.txt", content=content).media_type == "text/plain"
    assert [segment.text for segment in plain(content).segments] == [WIDE[language]]


@given(st.binary(min_size=16, max_size=400))
def test_bytes__by_chance__are_no_text_in_wide_letters(content):
    encoding = wide_encoding(content)

    # Short runs of some bytes are text by any rule; what is taken for it decodes without loss
    assert encoding is None or "\ufffd" not in content[:400].decode(encoding, "replace")


def test_quotes_of_windows__around_words__are_not_taken_for_letters_of_a_mac():
    text = "He said, “The name is Bond.”\nSpam – served with beans, — again."

    assert [segment.text for segment in plain(text.encode("cp1252")).segments] == [text]


def test_text__whose_encoding_is_a_guess__says_so():
    assert "cp1251" in plain(SENTENCES["cp1251"].encode("cp1251")).notices[0]
    assert plain(SENTENCES["utf-8"].encode()).notices == ()


@pytest.mark.parametrize("encoding", ["cp1252", "cp1256", "koi8-r"])
def test_page__that_says_it_is_utf8_and_is_not__is_read_by_what_it_is(encoding):
    sentence = SENTENCES[encoding]

    page = f'<meta charset="utf-8"><p>{sentence}</p>'.encode(encoding)

    assert [s.text for s in read_document(page, "text/html").segments] == [sentence]


def test_text__in_damaged_utf8__keeps_the_rest_and_says_so():
    content = ("Größe für Äpfel über Öfen " * 20).encode()[:-3] + "ü".encode()[:1]

    result = plain(content)

    assert "Größe für Äpfel" in result.segments[0].text
    assert "1 characters could not be read as utf-8" in result.notices[0]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a\r\nb\rc\u2028d\x85e", "a\nb\nc\nd\ne"),
        ("e\u0301", "é"),
        ("soft\u00adhyphen", "softhyphen"),
        ("\ufeffmark\ufeff", "mark"),
        ("nul\0 bell\x07 \x1b[0m", "nul bell [0m"),
        ("ef\ufb01cient o\ufb03ce", "efficient office"),
        ("\ufefb \ufe94", "لا ة"),
        ("zero\u200bwidth\u2060joiner\u200d", "zerowidthjoiner"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469"),
        ("left\u202eright\u200e", "leftright"),
        ("tag\U000e0041\U000e007f", "tag"),
        ("a\u00a0b", "a b"),
        ("\uf0b7 item", "• item"),
        ("  indented  \n\n\n\n\nend \n\n", "  indented\n\nend"),
        ("\n  \n x", " x"),
        ("x²  ½ ﾊﾝ", "x²  ½ ﾊﾝ"),
    ],
)
def test_normalising__a_character_that_machines_read__leaves_what_people_see(raw, shown):
    assert normalise(raw) == shown


def test_normalising__a_lone_surrogate__replaces_it():
    assert normalise("a\ud800b") == "a\ufffdb"


@given(st.text(st.characters(categories=None) | st.sampled_from("\r\n\t \u200d\u00ad\u0301ﬁ")))
def test_normalising__any_text_twice__changes_nothing_more(text):
    once = normalise(text)

    assert normalise(once) == once
    assert unicodedata.is_normalized("NFC", once)
    assert not set("\0\r\ufeff\u00ad") & set(once)
    once.encode("utf-8")


def test_json__with_escapes__has_the_letters():
    result = read_document(
        rb'{"a": "caf\u00e9 \ud83d\ude00 \u0022 \\u00e9 \u0000"}', "application/json"
    )

    assert result.segments[0].text == '{"a": "café 😀 \\u0022 \\\\u00e9 \\u0000"}'


def test_csv__of_any_dialect__is_kept_as_it_is():
    assert read_document(b'a;b\r\n1;"x;y"\r\n', "text/csv").segments[0].text == 'a;b\n1;"x;y"'
