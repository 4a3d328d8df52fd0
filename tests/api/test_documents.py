from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from registry.models import AuditEvent
from retrieval.knowledge_bases import find
from retrieval.models import Document, KnowledgeBase
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem
from tests.builders import RETURNS, WARRANTY


@pytest.fixture
def base(db: None) -> KnowledgeBase:
    return builders.make_base()


def _documents(base: KnowledgeBase) -> str:
    return f"/api/v1/knowledge-bases/{base.pk}/documents"


def _file(name: str, text: str) -> SimpleUploadedFile:
    return SimpleUploadedFile(name, text.encode())


def test_upload__file__is_accepted_and_pending(api: CheckedClient, base: KnowledgeBase) -> None:
    response = api.post(_documents(base), {"file": _file("returns.md", RETURNS)})

    assert response.status_code == 202
    body = response.json()
    assert {key: body[key] for key in body if key not in {"id", "createdAt", "sha256"}} == {
        "name": "returns.md",
        "revision": 1,
        "servedRevision": None,
        "status": "pending",
        "error": None,
        "notices": [],
        "enabled": True,
        "metadata": {},
        "chunking": None,
        "mediaType": "text/markdown",
        "size": len(RETURNS.encode()),
        "pages": None,
        "chunks": 0,
    }
    assert api.get(f"{_documents(base)}/{body['id']}").json() == body


def test_upload__name_with_a_folder_and_metadata__keeps_both_as_they_came(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    response = api.post(
        _documents(base),
        {
            "file": _file("x.md", RETURNS),
            "name": "eu/returns.md",
            "metadata": '{"z": 1, "a": {"tier": "gold"}}',
        },
    )

    assert response.json()["name"] == "eu/returns.md"
    assert list(response.json()["metadata"]) == ["z", "a"]


def test_upload__text_without_an_extension__is_markdown(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    response = api.post(
        _documents(base),
        {"name": "returns", "text": RETURNS, "metadata": {"b": 1, "a": 2}},
        format="json",
    )

    assert response.status_code == 202
    assert response.json()["mediaType"] == "text/markdown"
    assert list(response.json()["metadata"]) == ["b", "a"]


def test_upload__same_name_and_bytes__is_the_document_that_is_there(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    first = api.post(_documents(base), {"file": _file("returns.md", RETURNS)}).json()
    audited = AuditEvent.objects.count()

    second = api.post(_documents(base), {"file": _file("returns.md", RETURNS)})

    assert second.status_code == 200
    assert second.json() == first
    assert AuditEvent.objects.count() == audited


def test_upload__same_bytes_under_another_name__is_a_new_document(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    first = api.post(_documents(base), {"file": _file("a.md", RETURNS)})
    second = api.post(_documents(base), {"file": _file("b.md", RETURNS)})

    assert second.status_code == 202
    assert first.json()["id"] != second.json()["id"]


def test_upload__content_unlike_its_extension__says_so(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    pdf = b"%PDF-1.7\n1 0 obj << >> endobj\n%%EOF"

    response = api.post(_documents(base), {"file": SimpleUploadedFile("notes.md", pdf)})

    assert response.json()["mediaType"] == "application/pdf"
    assert "PDF" in response.json()["notices"][0]


def test_replace__other_bytes__is_a_new_revision_under_the_same_name(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = builders.add_text(base, "returns.md", RETURNS, {"region": "EU"})

    response = api.put(
        f"{_documents(base)}/{document.pk}", {"file": _file("other-name.md", WARRANTY)}
    )

    assert response.status_code == 202
    body = response.json()
    assert (body["name"], body["revision"], body["status"]) == ("returns.md", 2, "pending")
    assert body["metadata"] == {"region": "EU"}


def test_replace__equal_bytes__changes_nothing(api: CheckedClient, base: KnowledgeBase) -> None:
    document = builders.add_text(base, "returns.md", RETURNS)

    response = api.put(f"{_documents(base)}/{document.pk}", {"text": RETURNS}, format="json")

    assert response.status_code == 200
    assert response.json()["revision"] == 1


def test_update__name_metadata_and_enabled__embeds_nothing_and_starts_a_build(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = builders.add_text(base, "returns.md", RETURNS)
    builders.build(base)

    response = api.patch(
        f"{_documents(base)}/{document.pk}",
        {"name": "eu/returns.md", "metadata": {"region": "EU"}, "enabled": False},
        format="json",
    )

    assert response.status_code == 200
    body = response.json()
    assert (body["name"], body["enabled"], body["metadata"]) == (
        "eu/returns.md",
        False,
        {"region": "EU"},
    )
    assert body["revision"] == 1
    build = api.get(f"/api/v1/knowledge-bases/{base.pk}").json()["build"]
    assert build["state"] == "pending"


@pytest.mark.parametrize(
    ("change", "field"),
    [({"metadata": None}, "metadata"), ({"enabled": None}, "enabled"), ({"name": None}, "name")],
)
def test_update__null__is_refused(
    api: CheckedClient, base: KnowledgeBase, change: dict[str, Any], field: str
) -> None:
    document = builders.add_text(base, "returns.md", RETURNS)

    response = api.patch(f"{_documents(base)}/{document.pk}", change, format="json")

    assert_problem(response, 422, response.json()["code"], field=field, value=None)


def test_delete__document__is_gone_and_its_name_free(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = builders.add_text(base, "returns.md", RETURNS)

    response = api.delete(f"{_documents(base)}/{document.pk}")

    assert response.status_code == 204
    assert_problem(api.get(f"{_documents(base)}/{document.pk}"), 404, "document.not_found")
    assert api.get(_documents(base)).json()["results"] == []
    again = api.post(_documents(base), {"file": _file("returns.md", WARRANTY)})
    assert again.status_code == 202


def test_document__of_another_knowledge_base__is_not_found(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = builders.add_text(builders.make_base(), "returns.md", RETURNS)
    address = f"{_documents(base)}/{document.pk}"

    assert_problem(api.get(address), 404, "document.not_found")
    assert_problem(api.get(f"{address}/segments"), 404, "document.not_found")
    assert_problem(api.patch(address, {"name": "x"}, format="json"), 404, "document.not_found")
    assert_problem(api.put(address, {"text": "x"}, format="json"), 404, "document.not_found")
    assert_problem(api.delete(address), 404, "document.not_found")
    assert Document.objects.get(pk=document.pk).name == "returns.md"


def test_segments__before_and_after_reading__are_none_and_then_the_text(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = builders.add_text(base, "returns.md", RETURNS)
    address = f"{_documents(base)}/{document.pk}/segments"
    before = api.get(address)

    builders.build(base)

    assert (before.status_code, before.json()) == (200, {"results": [], "next": None})
    segments = api.get(address).json()["results"]
    assert "within 30 days of delivery" in " ".join(segment["text"] for segment in segments)
    assert any("Refunds" in (segment["section"] or "") for segment in segments)


def test_segments__many__come_in_pages_in_their_order(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    text = "\n\n".join(f"# Part {n}\n\nThis is part {n}." for n in range(5))
    document = builders.add_text(base, "parts.md", text)
    builders.build(base)
    address = f"{_documents(base)}/{document.pk}/segments"

    whole = api.get(address).json()["results"]
    first = api.get(address, {"limit": "2"}).json()
    second = api.get(address, {"limit": "1000", "cursor": first["next"]}).json()

    assert len(whole) >= 5
    assert first["results"] + second["results"] == whole


def test_list__many__comes_in_pages_by_name(api: CheckedClient, base: KnowledgeBase) -> None:
    for name in ("c.md", "a.md", "b.md"):
        builders.add_text(base, name, name)

    first = api.get(_documents(base), {"limit": "2"}).json()
    second = api.get(_documents(base), {"limit": "2", "cursor": first["next"]}).json()

    assert [item["name"] for item in first["results"]] == ["a.md", "b.md"]
    assert [item["name"] for item in second["results"]] == ["c.md"]


@pytest.mark.parametrize("count", [1, 5])
def test_list__however_many__takes_four_queries(
    api: CheckedClient, base: KnowledgeBase, django_assert_num_queries: Any, count: int
) -> None:
    for number in range(count):
        builders.add_text(base, f"{number}.md", f"Number {number}.")
    builders.build(base)

    with django_assert_num_queries(4):  # the key, the base, the page, the states
        response = api.get(_documents(base))

    assert {item["status"] for item in response.json()["results"]} == {"indexed"}
    assert find(base.pk).current_snapshot is not None
