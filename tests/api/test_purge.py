from __future__ import annotations

import uuid
from typing import Any

import pytest

from registry.models import AuditEvent
from retrieval.models import Document, KnowledgeBase, Purge
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written

QUESTION = {"version": 1, "query": "How many days do I have to send a parcel back?"}
REASON = {"reason": "Case 17: erasure was asked for."}


@pytest.fixture
def base(db: None) -> KnowledgeBase:
    return builders.base_with("Returns")


@pytest.fixture
def document(base: KnowledgeBase) -> Document:
    return Document.objects.get(name="returns.md")


def _address(document: Document) -> str:
    return f"/api/v1/knowledge-bases/{document.knowledge_base_id}/documents/{document.pk}/purge"


def _purge(client: CheckedClient, document: Document, body: Any = REASON, **headers: Any) -> Any:
    return client.post(_address(document), body, format="json", **headers)


def _call(client: CheckedClient) -> Any:
    return client.post("/api/v1/agents/support/tools/search/call", QUESTION, format="json").json()


def test_purge__living_document__erases_deletes_and_says_what(
    api: CheckedClient, base: KnowledgeBase, document: Document
) -> None:
    builders.replace_text(base, document, "# Returns\n\nWithin 40 days.")
    builders.build(base)

    response = _purge(api, document)

    assert response.status_code == 200
    body = response.json()
    assert body.pop("purgedAt")
    assert body == {
        "id": str(document.pk),
        "name": "returns.md",
        "reason": REASON["reason"],
        "purgedBy": "admin 0",
        "revisions": [1, 2],
        "chunks": 2,
        "copies": [],
    }
    gone = api.get(f"/api/v1/knowledge-bases/{base.pk}/documents/{document.pk}")
    assert_problem(gone, 404, "document.not_found")
    event = AuditEvent.objects.get(action="document.purged")
    assert (event.actor, event.object_id) == ("admin 0", str(document.pk))
    assert event.after == {
        "knowledgeBase": str(base.pk),
        "reason": REASON["reason"],
        "revisions": [1, 2],
        "chunks": 2,
    }


def test_purge__of_what_a_version_holds__leaves_the_rest_and_says_so(
    api: CheckedClient, base: KnowledgeBase, document: Document
) -> None:
    builders.published(base, slug="support")
    before = _call(api)
    assert before["results"][0]["document"]["name"] == "returns.md"
    assert "purged" not in before

    _purge(api, document)
    after, again = _call(api), _call(api)

    assert after["purged"] == {"documents": 1}
    rest = [one for one in before["results"] if one["document"]["name"] != "returns.md"]
    assert after["results"] == rest
    assert after["receipt"] == again["receipt"] != before["receipt"]
    kept = api.get(f"/api/v1/traces/{before['traceId']}").json()
    assert kept["groups"][0]["results"][0]["passage"] is None
    verified = api.post("/api/v1/agents/support/versions/1/verify").json()
    assert verified["ok"] is True
    assert [part["part"] for part in verified["parts"] if part.get("purged")] == [
        "document returns.md revision 1"
    ]


def test_purge__next_snapshot__is_without_the_document(
    api: CheckedClient, base: KnowledgeBase, document: Document
) -> None:
    _purge(api, document)
    snapshot = builders.build(base)

    body = api.post(
        f"/api/v1/knowledge-bases/{base.pk}/test", {"query": "Parcels?"}, format="json"
    ).json()

    assert list(snapshot.members.values_list("name", flat=True)) == ["warranty.md"]
    assert "purged" not in body


def test_purge__deleted_document__is_addressed_by_its_id(
    api: CheckedClient, base: KnowledgeBase, document: Document
) -> None:
    api.delete(f"/api/v1/knowledge-bases/{base.pk}/documents/{document.pk}")

    assert _purge(api, document).status_code == 200

    assert Purge.objects.get().revision.document_id == document.pk


def test_purge__again__changes_nothing_and_tells_of_the_first(
    api: CheckedClient, document: Document
) -> None:
    first = _purge(api, document).json()

    with nothing_written():
        again = _purge(api, document, {"reason": "Another."})

    assert (again.status_code, again.json()) == (200, first)


def test_purge__sent_twice_with_one_key__is_answered_twice(
    api: CheckedClient, document: Document
) -> None:
    answers = [_purge(api, document, HTTP_IDEMPOTENCY_KEY="once").json() for _ in range(2)]
    assert answers[0] == answers[1]


def test_purge__same_bytes_elsewhere__names_those_that_the_key_sees(
    client_for: Any, base: KnowledgeBase, document: Document
) -> None:
    other = builders.base_with("Other", copy_md=builders.RETURNS)
    hidden = builders.base_with("Hidden", copy_md=builders.RETURNS)
    again = builders.add_text(base, "again.md", builders.RETURNS)
    limited = client_for("admin", agents=["support"], knowledge_bases=[base.pk, other.pk])

    copies = _purge(limited, document).json()["copies"]

    assert [(copy["name"], copy["knowledgeBase"]) for copy in copies] == [
        ("again.md", str(base.pk)),
        ("copy.md", str(other.pk)),
    ]
    assert copies[0]["id"] == str(again.pk)
    assert _purge(client_for("admin"), hidden.documents.get()).json()["copies"][0]["id"]


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "request.required", "reason"),
        ({"reason": " \n"}, "invalid", "reason"),
        ({"reason": 7}, "invalid", "reason"),
        ({"reason": "x" * 2001}, "invalid", "reason"),
        ({"reason": "x", "force": True}, "request.unknown_field", "force"),
    ],
)
def test_purge__without_a_reason__is_refused(
    api: CheckedClient, document: Document, body: Any, code: str, field: str
) -> None:
    with nothing_written():
        response = _purge(api, document, body)

    assert_problem(response, 422, code, field=field)


def test_purge__of_a_document_elsewhere__is_not_found(
    api: CheckedClient, document: Document
) -> None:
    other = builders.make_base()
    for base_id, document_id in (
        (other.pk, document.pk),
        (document.knowledge_base_id, uuid.uuid4()),
    ):
        address = f"/api/v1/knowledge-bases/{base_id}/documents/{document_id}/purge"
        with nothing_written():
            response = api.post(address, REASON, format="json")
        assert_problem(response, 404, "document.not_found")


def test_purge__publisher_key__is_forbidden(client_for: Any, document: Document) -> None:
    publisher = client_for("publisher")

    with nothing_written():
        response = _purge(publisher, document)

    assert_problem(response, 403, "scope.insufficient")
