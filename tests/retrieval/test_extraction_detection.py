"""At upload: what is taken, as what, and what is refused with which words."""

from __future__ import annotations

import gzip

import pytest

from registry.errors import Invalid, UnsupportedType
from retrieval.extraction import detect_type, extract
from tests.retrieval import documents

PDF = b"%PDF-1.4\n1 0 obj\n"
HTML = b"\xef\xbb\xbf<!-- saved --><!DOCTYPE html><p>Hi"
WORD = documents.word_xml("<w:p/>")


# How the streams of Word of 97 and of before begin
WORD_97 = b"\xec\xa5\xc1\0"
WORD_95 = b"\xdc\xa5\x68\0"


@pytest.mark.parametrize(
    ("name", "content", "media_type"),
    [
        ("a.txt", b"text", "text/plain"),
        ("A.MD", b"# text", "text/markdown"),
        ("a.md", HTML, "text/markdown"),
        ("a.html", b"no tags", "text/html"),
        ("a.csv", "größe;preis".encode("cp1252"), "text/csv"),
        ("a.json", b"{}", "application/json"),
        ("a.eml", b"Subject: x\n\ny", "message/rfc822"),
        ("a.unknown", b"text", "text/plain"),
        ("Readme", b"text", "text/plain"),
        ("page", HTML, "text/html"),
        ("a.txt", "text".encode("utf-16"), "text/plain"),
        ("a.txt", "text in wide letters".encode("utf-16-le"), "text/plain"),
        ("a.txt", "text".encode("utf-32"), "text/plain"),
        ("a.md", b"About %PDF-1.4 files.", "text/markdown"),
        ("a.txt", b"Returned\0 within thirty\0 days", "text/plain"),
        ("a.log", b"\x1b[31mred\x1b[0m\x07 alert", "text/plain"),
        ("a.pdf", PDF, "application/pdf"),
        ("a.pdf", b"\r\n\r\n" + PDF, "application/pdf"),
        ("a.pdf", b"junk" + PDF + b"%%EOF", "application/pdf"),
        ("a.rtf", rb"{\rtf1 x}", "application/rtf"),
        ("a.docx", WORD, "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("a.epub", documents.book({"a.xhtml": "x"}), "application/epub+zip"),
        ("a.odt", documents.opendocument("text", ""), "application/vnd.oasis.opendocument.text"),
        ("a.doc", documents.ole("WordDocument", head=WORD_97), "application/msword"),
        ("a.doc", documents.ole("WORDDOCUMENT", head=WORD_97), "application/msword"),
        ("a.xls", documents.ole("Workbook"), "application/vnd.ms-excel"),
        ("a.xls", documents.ole("Workbook", below=("WordDocument",)), "application/vnd.ms-excel"),
        ("a.txt", "возврат, тридцать дней".encode("utf-16-le"), "text/plain"),
        ("a.epub", documents.book({"a.xhtml": "x"}, mimetype=""), "application/epub+zip"),
    ],
)
def test_upload__of_a_kind_that_is_read__is_taken_as_that(name, content, media_type):
    detected = detect_type(name=name, content=content)

    assert detected.media_type == media_type
    assert detected.notice is None


@pytest.mark.parametrize(
    ("name", "content", "media_type"),
    [
        ("a.docx", PDF, "application/pdf"),
        ("a.pdf", HTML, "text/html"),
        ("a.pdf", b"Please log in.", "text/plain"),
        ("a.txt", PDF, "application/pdf"),
        ("a.xlsx", WORD, "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("a.doc", rb"{\rtf1 x}", "application/rtf"),
    ],
)
def test_upload__whose_name_says_another_kind__goes_by_content_and_says_so(
    name, content, media_type
):
    detected = detect_type(name=name, content=content)

    assert detected.media_type == media_type
    assert detected.notice is not None
    assert name[1:] in detected.notice


@pytest.mark.parametrize(
    ("name", "expected"),
    [("x", "text/markdown"), ("eu/Release 1.2", "text/markdown"), ("a.txt", "text/plain")],
)
def test_text__written_without_an_extension__is_what_the_caller_says(name, expected):
    detected = detect_type(name=name, content=b"# x", default_text="text/markdown")

    assert detected.media_type == expected


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "a.png",
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
            "PNG picture: text on pictures is read from PDF",
        ),
        ("a.md", b"\xff\xd8\xff\xe0\0\x10JFIF\0", "JPEG"),
        ("a.zip", documents.zipped({"a.txt": "x"}), "ZIP archive"),
        ("a.docx", documents.zipped({"a.txt": "x"}), "ZIP archive"),
        ("a.gz", gzip.compress(b"text", mtime=0), "gzip archive: upload what is in it"),
        ("a.ppt", documents.ole("PowerPoint Document"), "PowerPoint presentation of before 2007"),
        ("a.msg", documents.ole("__properties_version1.0", below=("WordDocument",)), "as EML"),
        ("a.xls", documents.ole("Book"), "Excel workbook of before 1997"),
        ("a.xls", b"\x09\x04\x06\0\0\0\x10\0", "Excel workbook of before 1997"),
        ("a.doc", documents.ole("WordDocument", head=WORD_95), "Word document of before 1997"),
        (
            "a.doc",
            documents.ole("WordDocument", head=WORD_95, size=900),
            "Word document of before 1997",
        ),
        ("a.doc", documents.ole("Contents"), "old Office"),
        ("a.txt", b"a\0b\0c\0\0\0" * 50, "not in a format"),
        ("a.bin", bytes(range(256)), "not in a format"),
        ("a.raw", b"".join(n.to_bytes(2, "little") for n in range(1, 256)) * 9, "not in a format"),
    ],
)
def test_upload__of_another_kind__is_refused_by_name(name, content, words):
    with pytest.raises(UnsupportedType) as refusal:
        detect_type(name=name, content=content)

    assert refusal.value.code == "document.unsupported_type"
    assert refusal.value.status == 415
    assert words in refusal.value.detail
    assert "docx" in refusal.value.errors[0].allowed


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.txt", b"", "document.empty"),
        ("a.docx", WORD[: len(WORD) // 2], "document.unreadable"),
        ("a.docx", b"PK\x03\x04", "document.unreadable"),
        ("a.pdf", bytes(range(256)), "document.unreadable"),
        ("a.doc", bytes.fromhex("d0cf11e0a1b11ae1") + b"\xff" * 600, "document.unreadable"),
        ("a.zip", b"PK\x05\x06" + b"\0" * 6 + b"\xff\xff" + b"\0" * 10, "document.unreadable"),
    ],
)
def test_upload__that_is_empty_or_cannot_be_opened__is_refused(name, content, code):
    with pytest.raises(Invalid) as refusal:
        detect_type(name=name, content=content)

    assert refusal.value.code == code
    assert refusal.value.errors[0].field == "file"
    assert refusal.value.errors[0].value == name


def test_upload__of_a_kind_that_is_taken__is_read_to_its_end():
    content = documents.workbook({"Prices": [["Basic", 5]]})
    detected = detect_type(name="prices.xlsx", content=content)

    assert extract(content, detected.media_type).segments[0].text == "Basic\t5"
