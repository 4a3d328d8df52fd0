"""The recipe names everything that decides a text: it changes when a text may."""

from __future__ import annotations

import pytest

from registry.canonical import digest_json
from registry.errors import Unavailable
from retrieval.extraction import RECIPE, Ocr, detect_type, recipe
from retrieval.extraction.reading import read_document
from retrieval.extraction.recipe import REVISION
from tests.retrieval import documents

# Made anew, with REVISION raised, whenever a reader gives another text than before; a library's
# new version is in the recipe by itself
REVISION_OF_DIGESTS = 7
DIGESTS = {
    "a.md": "sha256:0bd5c0020034d002f6e3659c5c59a7150a644629446aa485363d222d13306d53",
    "a.html": "sha256:d78c0d2043e9431b29fa09476da6cd1acddc13c7f261008bdcce8792caa29aa1",
    "a.txt": "sha256:17e7134ceedb363f6cd5e8ecc1c36ccebf464afd56a5b84be643918fd783d08e",
    "a.json": "sha256:06386d83824050fa6b461bd2c59521ef67a0b7487d3cb054b7e40f61434284d2",
    "a.eml": "sha256:f1b50deb47e7e13b5919822597a7d19ca5546fa76d0a184efabc649b6871fd03",
    "a.rtf": "sha256:ee2075a665843fc3d78a1225c84749e90ea21dcb7f6ae120d37f65c43fcf9dcb",
    "a.docx": "sha256:bb7762601dd6c5bc4d65b30f5108d7e57f7becb42c27c8c57ccdbc871df507d8",
    "a.pptx": "sha256:85018c0e4708a5d7f7260fc57d5039af48dbba8d6c2659dd7c620308121e2636",
    "a.xlsx": "sha256:30e57ec65a0723a98974ac5e90744470ae17a6ac7239bba56313bc0dd51db5f6",
    "a.epub": "sha256:5f449773e3f1920f04fa10a84bd465ac4da139020ce3fb8f9696d71c39577664",
    "a.odt": "sha256:ee2075a665843fc3d78a1225c84749e90ea21dcb7f6ae120d37f65c43fcf9dcb",
    "a.pdf": "sha256:7042ef5b424fe8dfa87780ac717463422272221faf6fad0e6e8cb7fa5daecc70",
}

SAMPLES = {
    "a.md": (
        b"---\ntitle: Returns\n---\n\nFree.{.x}\n\n## How {#how}\n\n1. Box *it*\n   - well\n\n"
        b"| a | b |\n|---|---|\n| 1 | 2 |\n\n```sh\nmake\n```\n\n<table><tr><td>x<td>y</table>\n"
    ),
    "a.html": (
        b"<title>T</title><nav>menu</nav><p>One<br>two <b>three</b></p><ol><li>a<li>b</ol><h2>H</h2>"
        b"<table><tr><th>x<th>y<tr><td>1<td>2</table><pre>p\nq</pre>"
    ),
    "a.txt": "ﬁne\u00ad \u200bGröße\r\n\r\n\r\n\r\nend ".encode("cp1252", "ignore"),
    "a.json": rb'["caf\u00e9"]',
    "a.eml": b"Subject: S\nFrom: a@example.org\n\nBody\n",
    "a.rtf": rb"{\rtf1\ansi{\pard\outlinelevel0 Head\par}{\pard Text\par}}",
    "a.docx": documents.word_xml(
        '<w:p><w:pPr><w:outlineLvl w:val="0"/></w:pPr><w:r><w:t>Head</w:t></w:r></w:p>'
        "<w:p><w:r><w:t>Text</w:t><w:tab/></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>x</w:t>"
        "</w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>y</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    ),
    "a.pptx": documents.presentation([("Title", "Body", "Notes"), ("", "Second", "")]),
    "a.xlsx": documents.workbook({"Sheet": [["a", 1], ["b", 2.5]]}),
    "a.epub": documents.book({"b.xhtml": "<h1>One</h1><p>x</p>", "a.xhtml": "<p>y</p>"}),
    "a.odt": documents.opendocument("text", "<text:h>Head</text:h><text:p>Text</text:p>"),
    "a.pdf": documents.raw_pdf(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Contents 4 0 R"
        b"/Resources<</Font<</F 5 0 R>>>>>>",
        documents.pdf_stream(
            b"BT /F 20 Tf 20 250 Td (Head) Tj /F 10 Tf 0 -20 Td (One line that is long and) Tj"
            b" 0 -12 Td (goes on.) Tj 0 -30 Td (Next paragraph of the page, so that there is) Tj"
            b" 0 -12 Td (enough of it.) Tj ET"
        ),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ),
}


def digest_of(name: str) -> str:
    content = SAMPLES[name]
    result = read_document(content, detect_type(name=name, content=content).media_type)
    return digest_json([[s.page, s.section, s.text] for s in result.segments])


@pytest.mark.parametrize("name", SAMPLES)
def test_text__of_a_sample__is_that_of_this_revision(name):
    assert REVISION == REVISION_OF_DIGESTS
    assert digest_of(name) == DIGESTS[name], (
        "a reader gives another text: raise REVISION in recipe.py and renew these digests"
    )


def test_recipe__without_ocr__names_libraries_revision_and_none():
    assert recipe() == RECIPE
    assert f"/{REVISION}/ocr:none" in RECIPE
    assert "kreuzberg-4." in RECIPE
    assert len(RECIPE) <= 200


def test_recipe__with_ocr__names_the_languages_and_their_data(tmp_path):
    data = tmp_path / "eng.traineddata"
    data.write_bytes(b"first")
    first = recipe(Ocr(languages="eng", data_folder=str(tmp_path)))
    other = tmp_path / "other"
    other.mkdir()
    (other / "eng.traineddata").write_bytes(b"second")

    assert "ocr:tesseract:eng:" in first
    assert first != recipe(Ocr(languages="eng", data_folder=str(other)))


def test_recipe__of_an_ocr_without_its_data__says_which_file_is_missing(tmp_path):
    with pytest.raises(Unavailable) as refusal:
        recipe(Ocr(languages="deu", data_folder=str(tmp_path)))

    assert refusal.value.code == "ocr.not_available"
    assert "deu.traineddata" in refusal.value.detail
