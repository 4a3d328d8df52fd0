"""Builds and failed documents, steered from the admin."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from retrieval.claims import claim_piece
from retrieval.documents import Upload, add_document
from retrieval.indexing import start_build
from retrieval.knowledge_bases import find
from retrieval.models import Document, KnowledgeBase
from retrieval.pieces import work_on
from tests import builders
from tests.admin.conftest import Audited
from tests.admin.pages import address_of, sent_by, text_of
from tests.api.test_document_status import BROKEN_PDF

pytestmark = pytest.mark.django_db

DOCUMENTS = "/admin/retrieval/document/"
SNAPSHOTS = "/admin/retrieval/indexsnapshot/"


def _add_broken(base: KnowledgeBase, name: str = "broken.pdf") -> Document:
    upload = Upload(name=name, content=BROKEN_PDF)
    return add_document(actor=builders.ACTOR, base=base, upload=upload)[0]


@pytest.fixture
def building() -> KnowledgeBase:
    """A base whose second build runs, of three new documents of which one is done."""
    base = builders.base_with()
    for name in ("a.md", "b.md", "c.md"):
        builders.add_text(base, name, f"A new one: {name}.")
    snapshot = start_build(base.pk)
    assert snapshot is not None
    claim = claim_piece(snapshot.pk)
    assert claim is not None
    work_on(claim)
    return base


def test_overview__while_building__says_how_far_and_how_long(
    browser: Client, building: KnowledgeBase
) -> None:
    said = text_of(browser.get(address_of(building, "change")))

    assert "Snapshot 2 is being built: 3 of 5 documents (60.0 %)" in said
    assert "left." in said
    assert "Meanwhile snapshot 1 is searched." in said


def test_pausing__and_resuming__by_the_buttons(
    browser: Client, audited: Audited, building: KnowledgeBase
) -> None:
    shown = browser.get(address_of(building, "change")).content.decode()
    assert address_of(building, "pause") in shown

    with audited("build.paused"):
        browser.post(address_of(building, "pause"))

    paused = browser.get(address_of(building, "change"))
    assert "Building is paused." in text_of(paused)
    assert "left." not in text_of(paused)
    assert address_of(building, "resume") in paused.content.decode()
    assert "paused" in text_of(browser.get("/admin/retrieval/knowledgebase/"))
    with audited("build.resumed"):
        browser.post(address_of(building, "resume"))
    assert "Building is paused." not in text_of(browser.get(address_of(building, "change")))


def test_pausing__nothing_to_build__says_so(browser: Client, audited: Audited) -> None:
    base = builders.base_with("Returns")

    with audited(""):
        answer = browser.post(address_of(base, "pause"), follow=True)

    assert "Returns has no build that is due or running." in text_of(answer)


def test_cancelling__from_the_overview__ends_the_build(
    browser: Client, audited: Audited, building: KnowledgeBase
) -> None:
    cancel = address_of(building.snapshots.get(number=2), "cancel")
    assert cancel in browser.get(address_of(building, "change")).content.decode()

    with audited("snapshot.cancelled"):
        answer = browser.post(cancel, follow=True)

    said = text_of(answer)
    assert "Snapshot 2 cancelled." in said
    assert "No build is running. Snapshot 1 is searched" in said


def test_buttons__for_a_person_who_may_only_look__are_not_there_and_refused(
    client: Client, building: KnowledgeBase
) -> None:
    reader = User.objects.create_user("rita", is_staff=True)
    reader.user_permissions.add(
        *Permission.objects.filter(codename__in=["view_knowledgebase", "view_document"])
    )
    client.force_login(reader)

    shown = client.get(address_of(building, "change")).content.decode()
    answers = [client.post(address_of(building, name)) for name in ("pause", "resume", "reindex")]

    assert address_of(building, "pause") not in shown
    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert not find(building.pk).build_paused


def test_policy__held_back_by_the_form__is_said_on_the_overview(
    browser: Client, audited: Audited
) -> None:
    base = builders.base_with()
    url = address_of(base, "settings")
    with audited("knowledge_base.updated"):
        browser.post(url, sent_by(browser.get(url), "strategy", failure_policy="holdBack"))
    _add_broken(base)
    builders.build(find(base.pk))

    said = text_of(browser.get(address_of(base, "change")))

    assert "Snapshot 2 failed and is not searched. Held back: 1 document failed" in said
    assert "broken.pdf (extraction." in said
    assert "What is searched has not changed." in said
    assert "Snapshot 1 is searched" in said


def test_documents__filtered_by_status__are_those(browser: Client) -> None:
    base = builders.base_with()
    _add_broken(base)
    builders.build(base)

    failed = text_of(browser.get(DOCUMENTS, {"status": "failed"}))
    indexed = text_of(browser.get(DOCUMENTS, {"status": "indexed"}))

    assert "broken.pdf" in failed
    assert "returns.md" not in failed
    assert "returns.md" in indexed
    assert "broken.pdf" not in indexed


def test_retrying__one_document_by_its_button__tries_it_again(
    browser: Client, audited: Audited
) -> None:
    base = builders.base_with()
    broken = _add_broken(base)
    builders.build(base)
    assert "Try again" in browser.get(address_of(broken, "change")).content.decode()

    with audited("document.retried"):
        answer = browser.post(address_of(broken, "retry"), follow=True)

    assert "It is tried again by the build that follows." in text_of(answer)
    assert "pending" in text_of(answer)


def test_retrying__chosen_documents__tries_the_failed_ones_and_names_the_others(
    browser: Client,
) -> None:
    base = builders.base_with()
    broken = [_add_broken(base, name) for name in ("a.pdf", "b.pdf")]
    builders.build(base)
    fine = Document.objects.get(knowledge_base=base, name="returns.md")

    answer = browser.post(
        DOCUMENTS,
        {"action": "retry", "_selected_action": [str(one.pk) for one in (*broken, fine)]},
        follow=True,
    )

    said = text_of(answer)
    assert "Tried again: 2. A build follows." in said
    assert "eturns.md is indexed; only what failed is tried again." in said


def test_chunking__of_a_document_by_its_form__is_its_own(browser: Client, audited: Audited) -> None:
    base = builders.base_with()
    document = Document.objects.get(knowledge_base=base, name="returns.md")
    url = address_of(document, "change")

    with audited("document.updated"):
        browser.post(url, sent_by(browser.get(url), "metadata", strategy="sentence", size="30"))

    document.refresh_from_db()
    assert document.chunking == '{"overlap":3,"size":30,"strategy":"sentence"}'
    with audited(""):
        browser.post(url, sent_by(browser.get(url), "metadata"))
    with audited("document.updated"):
        browser.post(url, sent_by(browser.get(url), "metadata", strategy="", size="", overlap=""))
    document.refresh_from_db()
    assert document.chunking is None


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"strategy": "sentence", "size": "255"}, "size"),
        ({"strategy": "sentence", "size": "0"}, "size"),
        ({"strategy": "sentence", "size": "10", "overlap": "10"}, "overlap"),
        ({"strategy": "", "size": "10"}, "size"),
        ({"strategy": "paragraph"}, "strategy"),
    ],
)
def test_chunking__of_a_document_out_of_range__is_said_at_its_field(
    browser: Client, audited: Audited, typed: dict[str, str], field: str
) -> None:
    base = builders.base_with()
    document = Document.objects.get(knowledge_base=base, name="returns.md")
    url = address_of(document, "change")

    with audited(""):
        answer = browser.post(url, sent_by(browser.get(url), "metadata", **typed))

    assert list(answer.context["adminform"].form.errors) == [field]


@pytest.mark.parametrize("url", [SNAPSHOTS, DOCUMENTS, "/admin/retrieval/knowledgebase/"])
def test_list__more_rows__costs_no_more_queries(browser: Client, url: str) -> None:
    base = builders.base_with()
    browser.get(url)
    with CaptureQueriesContext(connection) as few:
        browser.get(url)
    for number in range(3):
        builders.add_text(base, f"{number}.md", f"Number {number}.")
        builders.build(base)
        builders.add_text(builders.make_base(), "a.md", "A.")

    with CaptureQueriesContext(connection) as many:
        browser.get(url)

    assert len(many) == len(few)
