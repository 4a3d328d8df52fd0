from __future__ import annotations

import io

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.test import Client

from retrieval.documents import delete_document
from retrieval.models import Document, KnowledgeBase, Purge
from tests import builders
from tests.admin.conftest import Audited
from tests.admin.pages import address_of, sent_by, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def base() -> KnowledgeBase:
    return builders.base_with("Returns")


@pytest.fixture
def document(base: KnowledgeBase) -> Document:
    return Document.objects.get(name="returns.md")


def test_purge_page__with_reason_and_confirmation__erases_and_says_so(
    browser: Client, audited: Audited, document: Document
) -> None:
    url = address_of(document, "purge")
    assert url in browser.get(address_of(document, "change")).content.decode()

    with audited("document.purged"):
        answer = browser.post(
            url, sent_by(browser.get(url), "reason", reason="Case 17", sure="on"), follow=True
        )

    said = text_of(answer)
    assert "The contents of returns.md are erased (revisions: 1, passages: 1)." in said
    assert "by ada: Case 17" in said
    assert "1 purged" in said
    assert "Searched nothing of it any more" in said
    assert "segments by" not in said
    assert url not in answer.content.decode()


def test_purge_page__copy_elsewhere__is_pointed_out(
    browser: Client, base: KnowledgeBase, document: Document
) -> None:
    copy = builders.add_text(base, "copy.md", builders.RETURNS)
    answer = browser.post(address_of(document, "purge"), {"reason": "x", "sure": "on"}, follow=True)
    assert f"The same bytes are in copy.md ({copy.pk})" in text_of(answer)


@pytest.mark.parametrize("typed", [{"sure": "on"}, {"reason": "  ", "sure": "on"}, {"reason": "x"}])
def test_purge_page__without_reason_or_confirmation__erases_nothing(
    browser: Client, audited: Audited, document: Document, typed: dict[str, str]
) -> None:
    with audited(""):
        answer = browser.post(address_of(document, "purge"), typed)

    assert answer.status_code == 200
    assert "This field is required." in text_of(answer)
    assert not Purge.objects.exists()


def test_purge_page__for_one_who_may_delete__is_closed(client: Client, document: Document) -> None:
    eve = User.objects.create_user("eve", is_staff=True)
    names = ["view_document", "change_document", "delete_document"]
    eve.user_permissions.set(Permission.objects.filter(codename__in=names))
    client.force_login(eve)

    assert (
        client.post(address_of(document, "purge"), {"reason": "x", "sure": "on"}).status_code == 403
    )
    assert (
        address_of(document, "purge")
        not in client.get(address_of(document, "change")).content.decode()
    )
    assert not Purge.objects.exists()


def _run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("purge", *arguments, stdout=out)
    return out.getvalue()


def test_purge_command__by_name_of_a_deleted_document__erases_it(
    base: KnowledgeBase, document: Document
) -> None:
    delete_document(actor=builders.ACTOR, base=base, document_id=document.pk)

    said = _run("returns.md", "--reason", "Case 17", "--yes")

    assert said.startswith("Purged returns.md: 1 revisions, 1 passages")
    assert Purge.objects.get().actor == "purge"


def test_purge_command__name_of_several__lists_their_ids(
    base: KnowledgeBase, document: Document
) -> None:
    delete_document(actor=builders.ACTOR, base=base, document_id=document.pk)
    living = builders.add_text(base, "returns.md", "New.")

    with pytest.raises(CommandError) as refused:
        _run("returns.md", "--reason", "x", "--yes")

    assert str(document.pk) in str(refused.value)
    assert str(living.pk) in str(refused.value)
    assert _run(str(living.pk), "--reason", "x", "--yes")
    assert Purge.objects.get().revision.document_id == living.pk


def test_purge_command__not_agreed_or_unknown__erases_nothing(
    document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda _: "yes")
    for arguments in (["returns.md", "--reason", "x"], ["nothing.md", "--reason", "x", "--yes"]):
        with pytest.raises(CommandError):
            _run(*arguments)
    assert not Purge.objects.exists()
