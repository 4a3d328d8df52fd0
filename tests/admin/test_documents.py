from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from retrieval.documents import update_document
from retrieval.knowledge_bases import find
from retrieval.models import Document, KnowledgeBase
from retrieval.purging import purge_document
from tests import builders
from tests.admin.conftest import Audited
from tests.admin.pages import address_of, sent_by, text_of
from tests.builders import RETURNS, WARRANTY

pytestmark = pytest.mark.django_db

LIST = "/admin/retrieval/document/"


@pytest.fixture
def base() -> KnowledgeBase:
    return builders.base_with()


@pytest.fixture
def document(base: KnowledgeBase) -> Document:
    return Document.objects.get(name="returns.md")


def test_document__saved_as_it_is__changes_nothing(
    browser: Client, audited: Audited, base: KnowledgeBase
) -> None:
    odd = builders.add_text(base, "odd.md", RETURNS, {"z": 1, "a": {"é": [1.5, None, "x\r\ny"]}})
    url = address_of(odd, "change")

    with audited(""):
        answer = browser.post(url, sent_by(browser.get(url), "metadata"))

    assert answer.status_code == 302
    odd.refresh_from_db()
    assert list(odd.metadata) == ["z", "a"]


def test_document__renamed_with_metadata__is_one_change(
    browser: Client, audited: Audited, document: Document
) -> None:
    url = address_of(document, "change")

    with audited("document.updated"):
        browser.post(
            url,
            sent_by(
                browser.get(url), "metadata", name="eu/returns.md", metadata='{"b": 1, "a": 2}'
            ),
        )

    document.refresh_from_db()
    assert (document.name, list(document.metadata)) == ("eu/returns.md", ["b", "a"])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "warranty.md"),
        ("name", "x" * 501),
        ("metadata", "[1]"),
        ("metadata", '{"a": 1, "a": 2}'),
        ("metadata", '{"a": 9007199254740993}'),
    ],
)
def test_document__a_bad_value__is_said_at_its_field(
    browser: Client, audited: Audited, document: Document, field: str, value: str
) -> None:
    url = address_of(document, "change")

    with audited(""):
        answer = browser.post(url, sent_by(browser.get(url), "metadata", **{field: value}))

    assert list(answer.context["adminform"].form.errors) == [field]
    document.refresh_from_db()
    assert (document.name, document.metadata) == ("returns.md", {})


def test_replacing__new_content__makes_the_next_revision(
    browser: Client, audited: Audited, base: KnowledgeBase, document: Document
) -> None:
    with audited("document.replaced"):
        browser.post(
            address_of(document, "replace"),
            {"file": SimpleUploadedFile("other.md", WARRANTY.encode())},
        )

    builders.build(find(base.pk))
    page = browser.get(address_of(document, "change"))
    assert page.context["state"].served_revision == 2
    assert [revision.number for revision in page.context["revisions"]] == [2, 1]
    assert Document.objects.get(pk=document.pk).name == "returns.md"


def test_replacing__an_empty_file__is_refused_at_the_field(
    browser: Client, audited: Audited, document: Document
) -> None:
    with audited(""):
        answer = browser.post(
            address_of(document, "replace"), {"file": SimpleUploadedFile("other.md", b"")}
        )

    assert "empty" in answer.context["adminform"].form.errors["file"][0]


def test_segments__of_each_revision__are_shown_with_their_sections(
    browser: Client, base: KnowledgeBase, document: Document
) -> None:
    builders.replace_text(base, document, WARRANTY)
    builders.build(find(base.pk))

    newest = text_of(browser.get(address_of(document, "segments")))
    first = text_of(browser.get(address_of(document, "segments") + "?revision=1"))

    assert "Lamps are covered for two years" in newest
    assert "Warranty > What is not covered" in newest
    assert "Send the parcel back within 30 days" in first


def test_segments__of_a_text_with_markup__are_shown_as_text(
    browser: Client, base: KnowledgeBase
) -> None:
    document = builders.add_text(base, "evil.txt", "<script>alert(1)</script> and words")
    builders.build(find(base.pk))

    page = browser.get(address_of(document, "segments"))

    assert b"<script>alert" not in page.content
    assert "<script>alert(1)</script> and words" in text_of(page)


def test_switching_off__by_the_action__takes_it_out_of_the_next_snapshot(
    browser: Client, audited: Audited, base: KnowledgeBase, document: Document
) -> None:
    with audited("document.updated"):
        browser.post(LIST, {"action": "switch_off", "_selected_action": [str(document.pk)]})

    snapshot = builders.build(find(base.pk))
    assert list(snapshot.members.values_list("name", flat=True)) == ["warranty.md"]


@pytest.mark.parametrize("action", ["switch_off", "retry"])
@pytest.mark.parametrize("chosen", ["x", "a\x00b", "9" * 5000, ""])
def test_action__on_what_is_no_id__is_refused(
    browser: Client, audited: Audited, document: Document, action: str, chosen: str
) -> None:
    with audited(""):
        answer = browser.post(
            LIST, {"action": action, "_selected_action": [str(document.pk), chosen]}
        )

    assert answer.status_code == 400


def test_deleting__after_the_question__leaves_a_tombstone(
    browser: Client, audited: Audited, document: Document
) -> None:
    asked = browser.get(address_of(document, "delete"))

    with audited("document.deleted"):
        browser.post(address_of(document, "delete"))

    assert "published versions go on answering" in text_of(asked)
    listed = [row.name for row in browser.get(LIST).context["cl"].result_list]
    assert listed == ["warranty.md"]
    deleted = [row.name for row in browser.get(LIST + "?deleted=yes").context["cl"].result_list]
    assert deleted == ["returns.md"]


def test_deleted_document__its_page__cannot_change_it(
    browser: Client, audited: Audited, document: Document
) -> None:
    url = address_of(document, "change")
    typed = sent_by(browser.get(url), "metadata", name="other.md")
    browser.post(address_of(document, "delete"))

    with audited(""):
        answer = browser.post(url, typed, follow=True)

    assert "Deleted" in text_of(browser.get(url))
    assert "There is no document" in text_of(answer)


def test_list__of_one_base__has_its_tabs_and_each_document_its_status(
    browser: Client, base: KnowledgeBase
) -> None:
    builders.add_text(base, "broken.pdf", "%PDF-1.4 nothing")
    builders.build(find(base.pk))
    builders.add_text(base, "new.md", "# New\n")

    page = browser.get(LIST, {"knowledge_base__id__exact": str(base.pk)})

    statuses = {row.name: row.state.status for row in page.context["cl"].result_list}
    assert statuses == {
        "broken.pdf": "failed",
        "new.md": "pending",
        "returns.md": "indexed",
        "warranty.md": "indexed",
    }
    assert [tab["label"] for tab in page.context["tabs"] if tab["current"]] == ["Documents"]
    assert page.context["crumbs"][-1][0] == base.name


def test_missing_document__its_address__leads_to_the_list_with_a_message(browser: Client) -> None:
    url = reverse("admin:retrieval_document_change", args=["00000000-0000-0000-0000-000000000000"])

    answer = browser.get(url, follow=True)

    assert "This document does not exist. Perhaps it was deleted." in text_of(answer)


def test_comparing__two_revisions__marks_the_words_that_changed(
    browser: Client, base: KnowledgeBase, document: Document
) -> None:
    assert "nothing to compare yet" in text_of(browser.get(address_of(document, "compare")))
    builders.replace_text(base, document, RETURNS.replace("five working", "three&working"))
    builders.build(find(base.pk))

    page = browser.get(address_of(document, "compare"))

    html = page.content.decode()
    assert "<mark>five working</mark>" in html
    assert "<mark>three&amp;working</mark>" in html
    assert "Returns by post > Refunds" in text_of(page)
    assert page.context["comparison"].added == 1
    back = browser.get(address_of(document, "compare") + "?from=2&to=1")
    assert (back.context["before"], back.context["after"]) == (2, 1)


def test_comparing__a_revision_that_cannot_be_read_or_is_purged__says_why(
    browser: Client, base: KnowledgeBase, document: Document
) -> None:
    builders.replace_text(base, document, "%PDF-1.4 nothing")
    builders.build(find(base.pk))
    failed = text_of(browser.get(address_of(document, "compare")))

    purge_document(
        actor=builders.ACTOR,
        base=base,
        document_id=document.pk,
        reason="asked for",
        access=builders.ACCESS,
    )
    purged = text_of(browser.get(address_of(document, "compare")))

    assert "Revision 2 could not be read: The PDF file is damaged" in failed
    assert "Revision 1 was purged: its text is gone." in purged


def test_document__changed_by_another_meanwhile__keeps_what_this_page_did_not_change(
    browser: Client, base: KnowledgeBase, document: Document
) -> None:
    url = address_of(document, "change")
    typed = sent_by(browser.get(url), "metadata", enabled=None)
    update_document(
        actor=builders.ACTOR,
        base=base,
        document_id=document.pk,
        name="eu/returns.md",
        metadata={"a": 1},
        chunking={"strategy": "sentence", "size": 40, "overlap": 5},
    )

    answer = browser.post(url, typed)

    assert answer.status_code == 302
    document.refresh_from_db()
    assert (document.name, document.metadata, document.enabled) == (
        "eu/returns.md",
        {"a": 1},
        False,
    )
    assert document.chunking
