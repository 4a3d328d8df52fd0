"""Many files in one request: each has its own outcome, and nothing is lost for another's sake."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from registry.models import AuditEvent
from retrieval.knowledge_bases import find
from retrieval.models import Document, DocumentRevision, KnowledgeBase
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written
from tests.builders import RETURNS, WARRANTY

PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0"


@pytest.fixture
def base(db: None) -> KnowledgeBase:
    return builders.make_base()


def _file(name: str, content: str | bytes) -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content.encode() if isinstance(content, str) else content)


def _ingest(
    api: CheckedClient, base: KnowledgeBase, *files: tuple[str, str | bytes], **parts: Any
) -> Any:
    return api.post(
        f"/api/v1/knowledge-bases/{base.pk}/documents/ingest",
        {"file": [_file(*file) for file in files], **parts},
    )


def _outcomes(response: Any) -> dict[str, str]:
    assert response.status_code == 200, response.content
    return {one["name"]: one["outcome"] for one in response.json()["results"]}


def _names(base: KnowledgeBase) -> list[str]:
    living = Document.objects.filter(knowledge_base=base, deleted_at__isnull=True)
    return list(living.order_by("name").values_list("name", flat=True))


def test_ingest__many_files__have_an_outcome_each_and_one_bad_one_stops_no_other(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    builders.add_text(base, "same.md", RETURNS)
    builders.add_text(base, "changed.md", RETURNS)

    response = _ingest(
        api,
        base,
        ("same.md", RETURNS),
        ("changed.md", WARRANTY),
        ("picture.png", PICTURE),
        ("empty.md", b""),
        ("new.md", WARRANTY),
    )

    assert _outcomes(response) == {
        "same.md": "unchanged",
        "changed.md": "replaced",
        "picture.png": "failed",
        "empty.md": "failed",
        "new.md": "created",
    }
    body = response.json()
    assert body["counts"] == {
        "created": 1,
        "updated": 0,
        "replaced": 1,
        "unchanged": 1,
        "failed": 2,
        "deleted": 0,
    }
    problems = {one["name"]: one["problem"] for one in body["results"] if one["problem"]}
    assert problems["picture.png"]["code"] == "document.unsupported_type"
    assert problems["empty.md"]["code"] == "document.empty"
    shown = {one["name"]: one["document"] for one in body["results"]}
    assert shown["changed.md"]["revision"] == 2
    assert shown["picture.png"] is None
    assert _names(base) == ["changed.md", "new.md", "same.md"]


def test_ingest__repeated__writes_nothing(api: CheckedClient, base: KnowledgeBase) -> None:
    files = (("a.md", RETURNS), ("b.md", WARRANTY))
    _ingest(api, base, *files)

    with nothing_written():
        again = _ingest(api, base, *files)

    assert set(_outcomes(again).values()) == {"unchanged"}


def test_ingest__names_with_folders__are_kept(api: CheckedClient, base: KnowledgeBase) -> None:
    boundary = "limit"
    paths = ["eu/refunds.md", "uk/refunds.md", "/etc/passwd.md", "..\\up.md", "C:\\docs\\c.md"]
    body = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{path}"\r\n\r\n'
        f"Text of {number}.\r\n"
        for number, path in enumerate(paths)
    )

    response = api.post(
        f"/api/v1/knowledge-bases/{base.pk}/documents/ingest",
        data=f"{body}--{boundary}--\r\n".encode(),
        content_type=f"multipart/form-data; boundary={boundary}",
    )

    assert list(_outcomes(response)) == [
        "eu/refunds.md",
        "uk/refunds.md",
        "passwd.md",
        "up.md",
        "c.md",
    ]


def test_ingest__names_folder_and_metadata__are_those_of_the_request(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    response = _ingest(
        api,
        base,
        ("a.md", RETURNS),
        ("b.md", WARRANTY),
        name=["eu/x.md", "eu/y.md"],
        folder="/help/",
        metadata='{"z": 1, "a": 2}',
    )

    assert list(_outcomes(response)) == ["help/eu/x.md", "help/eu/y.md"]
    assert [list(one.metadata) for one in Document.objects.all()] == [["z", "a"]] * 2


def test_ingest__metadata_of_known_bytes__updates_without_a_revision(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    _ingest(api, base, ("a.md", RETURNS), metadata='{"a": 1, "b": 2}')

    kept = _ingest(api, base, ("a.md", RETURNS))
    same = _ingest(api, base, ("a.md", RETURNS), metadata='{"a": 1, "b": 2}')
    other = _ingest(api, base, ("a.md", RETURNS), metadata='{"b": 2, "a": 1}')

    outcomes = [next(iter(_outcomes(one).values())) for one in (kept, same, other)]
    assert outcomes == ["unchanged", "unchanged", "updated"]
    assert DocumentRevision.objects.count() == 1
    assert list(Document.objects.get().metadata) == ["b", "a"]


def test_ingest__without_replace__fails_where_a_name_is_taken(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    builders.add_text(base, "a.md", RETURNS)

    response = _ingest(api, base, ("a.md", WARRANTY), ("b.md", WARRANTY), replace="false")

    assert _outcomes(response) == {"a.md": "failed", "b.md": "created"}
    assert response.json()["results"][0]["problem"]["code"] == "document.name_taken"


def test_ingest__a_name_twice__keeps_the_first(api: CheckedClient, base: KnowledgeBase) -> None:
    # The second is the same name in another form of Unicode.
    response = _ingest(api, base, ("caf\u00e9.md", RETURNS), ("cafe\u0301.md", WARRANTY))

    results = response.json()["results"]
    assert [one["outcome"] for one in results] == ["created", "failed"]
    assert results[1]["problem"]["code"] == "document.name_repeated"
    assert DocumentRevision.objects.count() == 1


def test_ingest__delete_missing__makes_the_base_what_was_sent(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    _ingest(api, base, ("a.md", RETURNS), ("b.md", WARRANTY), ("bad.md", "Was read."))

    response = _ingest(api, base, ("a.md", RETURNS), ("bad.md", b""), deleteMissing="true")

    # A file that fails is there all the same: its document stays
    assert [one["name"] for one in response.json()["deleted"]] == ["b.md"]
    assert _names(base) == ["a.md", "bad.md"]
    assert AuditEvent.objects.filter(action="document.deleted").count() == 1


def test_ingest__delete_missing_in_a_folder__leaves_what_is_outside(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    for name in ("eu/a.md", "eu/b.md", "europe.md", "uk/a.md"):
        builders.add_text(base, name, f"Text of {name}.")

    _ingest(api, base, ("a.md", RETURNS), folder="eu", deleteMissing="true")

    assert _names(base) == ["eu/a.md", "europe.md", "uk/a.md"]


def test_ingest__with_an_idempotency_key__answers_once(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    address = f"/api/v1/knowledge-bases/{base.pk}/documents/ingest"
    answers = [
        api.post(address, {"file": [_file("a.md", RETURNS)]}, HTTP_IDEMPOTENCY_KEY="once").json()
        for _ in range(2)
    ]

    assert answers[0] == answers[1]
    assert answers[0]["counts"]["created"] == 1


def test_ingest__then_built__finds_every_document(api: CheckedClient, base: KnowledgeBase) -> None:
    _ingest(api, base, ("a.md", RETURNS), ("b.md", WARRANTY))

    assert builders.build(find(base.pk)).document_count == 2


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ({"file": []}, "file"),
        ({"file": "text"}, "file"),
        ({"name": ["a.md"]}, "name"),
        ({"replace": "yes"}, "replace"),
        ({"deleteMissing": "1"}, "deleteMissing"),
        ({"metadata": "[1]"}, "metadata"),
        ({"metadata": ["{}", "{}"]}, "metadata"),
        ({"folder": _file("a", "x")}, "folder"),
        ({"name": [_file("a", "x"), _file("b", "x")]}, "name"),
        ({"other": "x"}, "other"),
    ],
)
def test_ingest__bad_part__is_named_and_nothing_written(
    api: CheckedClient, base: KnowledgeBase, parts: Any, field: str
) -> None:
    files = [_file("a.md", RETURNS), _file("b.md", WARRANTY)]

    with nothing_written():
        response = api.post(
            f"/api/v1/knowledge-bases/{base.pk}/documents/ingest", {"file": files, **parts}
        )

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == field


def test_ingest__over_a_limit__is_refused_by_name(
    api: CheckedClient, base: KnowledgeBase, settings: Any
) -> None:
    settings.DATA_UPLOAD_MAX_NUMBER_FILES = 2
    many = _ingest(api, base, *((f"{n}.md", "x") for n in range(3)))
    assert_problem(many, 422, "ingest.too_many_files")

    settings.MAX_UPLOAD_BYTES = 20
    one_large = _ingest(api, base, ("large.md", "x" * 21), ("small.md", "x"))
    assert _outcomes(one_large) == {"large.md": "failed", "small.md": "created"}

    settings.MAX_INGEST_BYTES = 10
    whole = _ingest(api, base, ("a.md", b"x" * (1024 * 1024 + 20)))
    assert_problem(whole, 413, "document.too_large")


def test_ingest__as_json__is_refused(api: CheckedClient, base: KnowledgeBase) -> None:
    response = api.post(
        f"/api/v1/knowledge-bases/{base.pk}/documents/ingest",
        json.dumps({"file": "x"}),
        content_type="application/json",
    )

    assert response.status_code == 415
