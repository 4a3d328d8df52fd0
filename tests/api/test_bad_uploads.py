"""Uploads that are refused: a problem that names field, value and what is allowed; no row written."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from retrieval.models import KnowledgeBase
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written

BASES = "/api/v1/knowledge-bases"


@pytest.fixture
def base(db: None) -> KnowledgeBase:
    """A knowledge base that nobody has built: what is refused is refused before."""
    base = builders.make_base()
    builders.add_text(base, "returns.md", builders.RETURNS)
    return base


def _documents(base: KnowledgeBase) -> str:
    return f"{BASES}/{base.pk}/documents"


def _upload(api: CheckedClient, base: KnowledgeBase, name: str, content: bytes) -> Any:
    return api.post(_documents(base), {"file": SimpleUploadedFile(name, content)})


def test_upload__empty_file__is_refused(api: CheckedClient, base: KnowledgeBase) -> None:
    with nothing_written():
        response = _upload(api, base, "empty.md", b"")

    assert_problem(
        response,
        422,
        "document.empty",
        field="file",
        value="empty.md",
        allowed="at least one byte",
    )


def test_upload__empty_text__is_refused(api: CheckedClient, base: KnowledgeBase) -> None:
    with nothing_written():
        response = api.post(_documents(base), {"name": "empty", "text": ""}, format="json")

    assert_problem(response, 422, "document.empty", field="file", value="empty")


def test_upload__body_of_0_bytes__is_refused(api: CheckedClient, base: KnowledgeBase) -> None:
    with nothing_written():
        response = api.post(_documents(base), b"", content_type="application/json")

    assert_problem(response, 422, "request.required", field="name", value=None)


def test_upload__unsupported_type__names_the_supported_ones(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    png = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
    with nothing_written():
        response = _upload(api, base, "picture.png", png)

    problem = assert_problem(
        response, 415, "document.unsupported_type", field="file", value="picture.png"
    )
    assert {"pdf", "docx", "md", "html"} <= set(problem["errors"][0]["allowed"])


def test_upload__file_over_the_limit__is_refused(
    api: CheckedClient, base: KnowledgeBase, settings: Any
) -> None:
    settings.MAX_UPLOAD_BYTES = 1000
    with nothing_written():
        response = _upload(api, base, "long.md", b"x" * 1001)

    problem = assert_problem(
        response,
        413,
        "document.too_large",
        field="file",
        value=1001,
        allowed={"maximum": 1000},
    )
    assert problem["limit"] == 1000


def test_upload__announced_length_over_the_limit__is_refused_unread(
    api: CheckedClient, base: KnowledgeBase, settings: Any
) -> None:
    settings.MAX_UPLOAD_BYTES = 1000
    with nothing_written():
        response = _upload(api, base, "long.md", b"x" * (2 * 1024 * 1024))

    assert_problem(response, 413, "document.too_large", field="file", allowed={"maximum": 1000})


def test_upload__text_over_the_limit__is_refused(
    api: CheckedClient, base: KnowledgeBase, settings: Any
) -> None:
    settings.MAX_UPLOAD_BYTES = 1000
    with nothing_written():
        response = api.post(_documents(base), {"name": "a", "text": "x" * 1001}, format="json")

    assert_problem(response, 413, "document.too_large", field="file", value=1001)


def test_json__body_over_its_limit__is_refused(
    api: CheckedClient, base: KnowledgeBase, settings: Any
) -> None:
    settings.MAX_JSON_BYTES = 1000
    with nothing_written():
        response = api.post(_documents(base), {"name": "a", "text": "x" * 1001}, format="json")

    assert assert_problem(response, 413, "request.too_large")["limit"] == 1000


@pytest.mark.parametrize("name", ["broken.docx", "broken.pdf", "broken.xlsx"])
def test_upload__container_that_cannot_be_opened__is_refused(
    api: CheckedClient, base: KnowledgeBase, name: str
) -> None:
    with nothing_written():
        response = _upload(api, base, name, b"PK\x03\x04" + bytes(range(200)))

    assert_problem(response, 422, "document.unreadable", field="file", value=name)


def test_upload__name_taken_by_other_bytes__is_refused(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    with nothing_written():
        response = _upload(api, base, "returns.md", b"Something else.")

    problem = assert_problem(response, 409, "document.name_taken", field="name", value="returns.md")
    listed = {item["name"]: item["id"] for item in api.get(_documents(base)).json()["results"]}
    assert problem["document"] == listed["returns.md"]


def test_document__renamed_to_a_taken_name__is_refused(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = builders.add_text(base, "other.md", "Other.")
    with nothing_written():
        response = api.patch(
            f"{_documents(base)}/{document.pk}", {"name": "returns.md"}, format="json"
        )

    assert_problem(response, 409, "document.name_taken", field="name", value="returns.md")
    assert api.get(f"{_documents(base)}/{document.pk}").json()["name"] == "other.md"


@pytest.mark.parametrize(
    "metadata",
    ["[1]", '"text"', "7"],
)
def test_upload__metadata_that_is_no_object__is_refused(
    api: CheckedClient, base: KnowledgeBase, metadata: str
) -> None:
    with nothing_written():
        response = api.post(
            _documents(base),
            {"file": SimpleUploadedFile("new.md", b"New."), "metadata": metadata},
        )

    assert_problem(response, 422, "invalid", field="metadata", allowed="object")


def test_upload__metadata_part_with_nan__is_refused_by_its_path(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    with nothing_written():
        response = api.post(
            _documents(base),
            {"file": SimpleUploadedFile("new.md", b"New."), "metadata": '{"weight": NaN}'},
        )

    assert_problem(response, 400, "json.not_a_number", field="metadata.weight", value="NaN")


def test_upload__without_a_file__is_refused(api: CheckedClient, base: KnowledgeBase) -> None:
    with nothing_written():
        response = api.post(_documents(base), {"name": "new.md"}, format="multipart")

    assert_problem(response, 422, "file.required", field="file", value=None)


def test_upload__unknown_part__is_refused(api: CheckedClient, base: KnowledgeBase) -> None:
    with nothing_written():
        response = api.post(
            _documents(base), {"file": SimpleUploadedFile("new.md", b"New."), "nmae": "x"}
        )

    assert_problem(
        response,
        422,
        "request.unknown_field",
        field="nmae",
        value="x",
        allowed=["file", "name", "metadata"],
    )


def test_upload__two_files__are_refused(api: CheckedClient, base: KnowledgeBase) -> None:
    files = [SimpleUploadedFile("a.md", b"A."), SimpleUploadedFile("b.md", b"B.")]
    with nothing_written():
        response = api.post(_documents(base), {"file": files})

    assert_problem(response, 422, "invalid", field="file", value=2)


@pytest.mark.parametrize("name", ["   ", "a\nb.md", "x" * 501])
def test_upload__name_that_cannot_be_one__is_refused(
    api: CheckedClient, base: KnowledgeBase, name: str
) -> None:
    with nothing_written():
        response = api.post(
            _documents(base), {"file": SimpleUploadedFile("new.md", b"New."), "name": name}
        )

    assert_problem(response, 422, "invalid", field="name")


def test_upload__broken_pdf__is_accepted_and_fails_by_name_while_others_go_on(
    api: CheckedClient,
) -> None:
    base = builders.make_base()
    broken = b"%PDF-1.7\n" + b"1 0 obj << /Broken " * 40

    accepted = _upload(api, base, "broken.pdf", broken)
    builders.add_text(base, "fine.md", builders.RETURNS)
    builders.build(base)

    assert accepted.status_code == 202
    documents = {item["name"]: item for item in api.get(_documents(base)).json()["results"]}
    assert documents["fine.md"]["status"] == "indexed"
    assert documents["broken.pdf"]["status"] == "failed"
    assert documents["broken.pdf"]["error"]["code"].startswith("extraction.")
    assert documents["broken.pdf"]["error"]["message"].endswith(".")
    assert api.get(f"{BASES}/{base.pk}").json()["build"] is None
