from __future__ import annotations

from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.utils import timezone

from registry.models import AuditEvent, IdempotencyRecord
from retrieval.models import Document
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem

AGENTS = "/api/v1/agents"


def _create(api: CheckedClient, key: str, slug: str = "support") -> Any:
    return api.post(AGENTS, {"slug": slug}, format="json", HTTP_IDEMPOTENCY_KEY=key)


def test_write__repeated_with_its_key__answers_the_same_and_does_nothing(
    api: CheckedClient,
) -> None:
    first = _create(api, "k-1")
    audited = AuditEvent.objects.count()

    second = _create(api, "k-1")

    assert (first.status_code, second.status_code) == (201, 201)
    assert second.content == first.content
    assert AuditEvent.objects.count() == audited


def test_write__key_of_another_request__is_a_conflict(api: CheckedClient) -> None:
    _create(api, "k-1")

    other_body = _create(api, "k-1", slug="sales")
    other_address = api.patch(
        f"{AGENTS}/support", {"name": "x"}, format="json", HTTP_IDEMPOTENCY_KEY="k-1"
    )

    assert_problem(other_body, 409, "idempotency.key_reused")
    assert_problem(other_address, 409, "idempotency.key_reused")
    assert api.get(f"{AGENTS}/sales").status_code == 404


def test_write__same_key_of_another_api_key__is_another_request(
    api: CheckedClient, client_for: Any
) -> None:
    _create(api, "k-1")

    response = _create(client_for("admin"), "k-1", slug="sales")

    assert response.status_code == 201


def test_write__that_was_refused__may_be_tried_again(api: CheckedClient) -> None:
    agent = builders.make_agent("support")

    def edit(revision: str) -> Any:
        return api.patch(
            f"{AGENTS}/support/draft",
            {"prompt": "x"},
            format="json",
            HTTP_IDEMPOTENCY_KEY="k-1",
            HTTP_IF_MATCH=revision,
        )

    refused, taken, repeated = edit('"9"'), edit('"1"'), edit('"1"')

    assert_problem(refused, 412, "draft.stale_revision")
    assert (taken.status_code, repeated.status_code) == (200, 200)
    assert (taken["ETag"], repeated["ETag"]) == ('"2"', '"2"')
    assert agent.versions.get().revision == 2


def test_delete__repeated_with_its_key__is_gone_once(api: CheckedClient) -> None:
    base = builders.make_base()
    address = f"/api/v1/knowledge-bases/{base.pk}"

    first = api.delete(address, HTTP_IDEMPOTENCY_KEY="k-1")
    second = api.delete(address, HTTP_IDEMPOTENCY_KEY="k-1")

    assert (first.status_code, second.status_code) == (204, 204)
    assert (first.content, second.content) == (b"", b"")


def test_upload__same_key_with_another_file__is_a_conflict(api: CheckedClient) -> None:
    base = builders.make_base()
    address = f"/api/v1/knowledge-bases/{base.pk}/documents"

    def upload(text: bytes) -> Any:
        file = SimpleUploadedFile("a.md", text)
        return api.post(address, {"file": file}, HTTP_IDEMPOTENCY_KEY="k-1")

    first, again, other = upload(b"One."), upload(b"One."), upload(b"Two.")

    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json() == first.json()
    assert_problem(other, 409, "idempotency.key_reused")
    assert Document.objects.count() == 1


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_write__key_of_a_wrong_length__is_refused(api: CheckedClient, key: str) -> None:
    response = _create(api, key)

    assert_problem(response, 422, "invalid", field="Idempotency-Key", value=_shown(key))


def _shown(key: str) -> str:
    return key if len(key) <= 200 else key[:199] + "…"


def test_write__key_older_than_a_day__is_free_again(api: CheckedClient) -> None:
    _create(api, "k-1")
    old = timezone.now() - timedelta(hours=25)
    IdempotencyRecord.objects.update(created_at=old)

    response = _create(api, "k-1", slug="sales")

    assert response.status_code == 201
    assert IdempotencyRecord.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_write__twins_at_the_same_time__are_done_once(client_for: Any) -> None:
    api = client_for("admin")
    answers: list[Any] = []

    def send() -> None:
        try:
            answers.append(_create(api, "k-1"))
        finally:
            connection.close()

    twins = [Thread(target=send) for _ in range(6)]
    for twin in twins:
        twin.start()
    for twin in twins:
        twin.join()

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert AuditEvent.objects.filter(action="agent.created").count() == 1
