"""The history of a document: every revision, and what its text has that another's has not."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.document_states import document_states
from retrieval.documents import Upload, add_document, replace_document
from retrieval.knowledge_bases import find
from retrieval.models import Document, KnowledgeBase
from retrieval.purging import purge_document
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem
from tests.builders import RETURNS, WARRANTY
from tests.retrieval import documents


@pytest.fixture
def base(db: None) -> KnowledgeBase:
    return builders.base_with(returns_md=RETURNS)


def _address(document: Document) -> str:
    base_id = document.knowledge_base_id
    return f"/api/v1/knowledge-bases/{base_id}/documents/{document.pk}/revisions"


def _replace(base: KnowledgeBase, document: Document, content: bytes) -> None:
    replace_document(
        actor=builders.ACTOR,
        base=base,
        document_id=document.pk,
        upload=Upload(name="", content=content),
    )


def _lines(body: Any) -> list[tuple[str, str]]:
    return [(one["change"], one["text"]) for hunk in body["results"] for one in hunk["lines"]]


def test_revisions__of_a_replaced_document__are_listed_newest_first(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = Document.objects.get()
    builders.replace_text(base, document, WARRANTY)

    body = api.get(_address(document)).json()

    assert [(one["number"], one["text"]) for one in body["results"]] == [
        (2, "pending"),
        (1, "read"),
    ]
    assert body["results"][0]["detail"] == "Revision 2 has not been read."
    first = body["results"][1]
    assert (first["size"], first["mediaType"]) == (len(RETURNS.encode()), "text/markdown")
    page = api.get(_address(document) + "?limit=1").json()
    assert [one["number"] for one in page["results"]] == [2]
    assert page["next"] is not None


def test_diff__of_two_revisions__shows_lines_with_page_and_section(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = Document.objects.get()
    builders.replace_text(
        base, document, RETURNS.replace("five working", "three working") + "\nAsk us.\n"
    )
    builders.build(find(base.pk))

    body = api.get(_address(document) + "/1/diff/2").json()

    changed = [line for line in _lines(body) if line[0] != "same"]
    sentence = "The money is back on your card {} working days after the parcel has reached our "
    assert changed == [
        ("removed", (sentence + "warehouse.").format("five")),
        ("added", (sentence + "warehouse.").format("three")),
        ("added", "Ask us."),
    ]
    assert (body["removed"], body["added"]) == (1, 2)
    assert body["results"][0]["section"] == "Returns by post > Refunds"
    assert (body["from"]["number"], body["to"]["number"]) == (1, 2)
    back = api.get(_address(document) + "/2/diff/1").json()
    assert (back["removed"], back["added"]) == (2, 1)


def test_diff__of_pages__names_the_page(api: CheckedClient, base: KnowledgeBase) -> None:
    first = documents.pages("Alpha on the first page", "Beta on the second page")
    second = documents.pages("Alpha on the first page", "Gamma on the second page")
    paged = add_document(
        actor=builders.ACTOR, base=base, upload=Upload(name="a.pdf", content=first)
    )[0]
    builders.build(find(base.pk))
    _replace(base, paged, second)
    builders.build(find(base.pk))

    [hunk] = api.get(_address(paged) + "/1/diff/2").json()["results"]

    assert hunk["page"] == 2


def test_diff__of_equal_texts__says_what_is_the_same(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = Document.objects.get()
    builders.replace_text(base, document, RETURNS + "\n\n\n")
    builders.replace_text(base, document, RETURNS)
    builders.build(find(base.pk))
    api.post(f"/api/v1/knowledge-bases/{base.pk}/reindex")

    equal = api.get(_address(document) + "/1/diff/3").json()
    # Revision 2 was never read: 3 came before a build
    unread = api.get(_address(document) + "/1/diff/2").json()

    assert (equal["results"], equal["note"]) == ([], "The bytes are the same.")
    assert unread["reason"] == "Revision 2 has not been read."


def test_diff__of_what_was_read_alike__says_that_only_the_bytes_differ(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = Document.objects.get()
    builders.replace_text(base, document, RETURNS + "\n\n\n")
    builders.build(find(base.pk))

    body = api.get(_address(document) + "/1/diff/2").json()

    assert body["results"] == []
    assert body["note"].startswith("The bytes differ and the texts are the same")


def test_diff__of_a_failed_or_purged_revision__says_so(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = Document.objects.get()
    _replace(base, document, b"%PDF-1.4 nothing")
    builders.build(find(base.pk))
    assert document_states([document])[document.pk].status == "failed"

    failed = api.get(_address(document) + "/1/diff/2").json()

    assert failed["reason"].startswith("Revision 2 could not be read: The PDF file is damaged")
    assert (failed["results"], failed["to"]["text"]) == ([], "failed")

    purge_document(
        actor=builders.ACTOR,
        base=base,
        document_id=document.pk,
        reason="asked for",
        access=builders.ACCESS,
    )
    # A purged document is deleted: its pages in the admin still tell
    assert_problem(api.get(_address(document)), 404, "document.not_found")


def test_diff__numbers_that_are_none__are_not_found(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = Document.objects.get()

    for numbers in ("1/diff/2", "0/diff/1"):
        response = api.get(f"{_address(document)}/{numbers}")
        assert_problem(response, 404, "document.revision_not_found")


def test_segments__of_an_earlier_revision__are_there(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = Document.objects.get()
    builders.replace_text(base, document, WARRANTY)
    builders.build(find(base.pk))
    address = _address(document).replace("revisions", "segments")

    first = api.get(address + "?revision=1").json()["results"]
    newest = api.get(address).json()["results"]

    assert "Send the parcel back" in first[0]["text"]
    assert "Lamps are covered" in newest[0]["text"]
    assert_problem(api.get(address + "?revision=9"), 404, "document.revision_not_found")
    assert_problem(api.get(address + "?revision=x"), 422, "invalid")
