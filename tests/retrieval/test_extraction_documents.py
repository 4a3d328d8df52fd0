"""Every document of the shared folder gives what its index says, on the page that it says.

62 of its 63 rows hold to the letter; ``EXCEPTIONS`` has the other with its cause (README.md here).
The index is described in the README beside it.
"""

from __future__ import annotations

import csv
import functools
import re
import unicodedata

import pytest

from registry.errors import RegistryError
from retrieval.extraction import Extracted, ExtractionFailed, detect_type, extract
from tests.data import SHARED_DATA, shared_data
from tests.folders import CHECKOUT

# What the index says and a right extraction does not give, with the cause
EXCEPTIONS = {
    "files/slides-notes.pptx": (
        "page 3, not 2: the index counts the parts that hold notes, and the second of these "
        "belongs to the third slide, as its text says too"
    ),
}
REFUSED_AT_UPLOAD = {"document.empty", "document.unreadable", "document.unsupported_type"}
FAILURES = {
    "password": {"extraction.password_required"},
    "damaged": {"extraction.damaged", "document.empty", "document.unreadable"},
    "empty": {"extraction.no_text", "document.empty"},
    "bomb": {"extraction.too_large", "extraction.timed_out", "extraction.damaged"}
    | REFUSED_AT_UPLOAD,
    "recover": {"extraction.damaged", "extraction.no_text", "document.unreadable"},
    "legacy": {"document.unsupported_type"},
}


def rows() -> list[dict[str, str]]:
    index = SHARED_DATA / "docs" / "INDEX.tsv"
    if not index.exists():
        return []
    with index.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def normalised(text: str) -> str:
    text = unicodedata.normalize("NFKC", text)
    text = "".join(c for c in text if unicodedata.category(c) != "Cf")
    return " ".join(text.split()).casefold()


@functools.lru_cache(maxsize=1)
def outcome(file: str) -> Extracted | str:
    path = shared_data("docs", *file.split("/"))
    content = path.read_bytes()
    try:
        detected = detect_type(name=path.name, content=content)
        return extract(content, detected.media_type)
    except (RegistryError, ExtractionFailed) as error:
        return error.code


def places(row: dict[str, str]) -> tuple[int | None, str | None]:
    """Return the page and the section that the index asks for."""
    part = row["page_or_part"]
    if row["format"] == "pptx" and part:
        return int(re.sub(r"\D", "", part)), None
    if row["format"] == "xlsx" and part:
        return None, part
    return (int(part), None) if part.isdecimal() else (None, None)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["file"].rpartition("/")[2])
def test_document__of_the_index__gives_what_the_index_expects(row):
    result = outcome(row["file"])

    if isinstance(result, str):
        assert result in FAILURES.get(row["expect"], set()), result
        return
    assert row["expect"] not in ("password", "damaged", "empty")
    page, section = places(row)
    phrase = normalised(row["phrase"])
    found = [s for s in result.segments if phrase in normalised(s.text)]
    assert found, "the phrase is not in the text"
    if row["file"] in EXCEPTIONS:
        assert f"page {found[0].page}, not {page}" in EXCEPTIONS[row["file"]]
    elif page is not None:
        assert page in {segment.page for segment in found}
        if row["check"] == "ok, only there":
            assert {segment.page for segment in found} == {page}
    if section is not None:
        assert section in {segment.section for segment in found}


def test_index__is_read__has_its_rows():
    shared_data("docs", "INDEX.tsv")

    assert len(rows()) > 60
    assert len(EXCEPTIONS) <= 5


def test_index__its_file_names__stand_nowhere_outside_the_tests():
    names = {row["file"].rpartition("/")[2] for row in rows()} or {shared_data("docs").name}
    words = re.compile(r"(?<![\w.-])(?:" + "|".join(map(re.escape, names)) + r")(?![\w-])")

    for folder in (
        "agents",
        "registry",
        "retrieval",
        "benchmarks",
        "examples",
        "docs",
        "templates",
    ):
        for path in (CHECKOUT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert words.search(path.read_bytes().decode("utf-8", "replace")) is None, path


def test_index__the_number_in_the_readme__is_that_of_the_rows():
    shared_data("docs", "INDEX.tsv")
    number = f"{len(rows()) - len(EXCEPTIONS)} of {len(rows())} rows"

    assert number in (CHECKOUT / "tests" / "retrieval" / "README.md").read_text()
