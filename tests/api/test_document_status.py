"""Where a document stands, through its whole life, as its reader sees it."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from retrieval.claims import claim_piece
from retrieval.extractor import extraction_of
from retrieval.indexing import start_build
from retrieval.knowledge_bases import update_knowledge_base
from retrieval.models import Document, KnowledgeBase
from retrieval.pieces import work_on
from tests import builders
from tests.api.contract import CheckedClient
from tests.builders import RETURNS

BROKEN_PDF = b"%PDF-1.7\n" + b"1 0 obj << /Broken " * 40


@pytest.fixture
def base(db: None) -> KnowledgeBase:
    return builders.make_base()


def _shown(api: CheckedClient, document: Document) -> dict[str, Any]:
    address = f"/api/v1/knowledge-bases/{document.knowledge_base_id}/documents/{document.pk}"
    body: dict[str, Any] = api.get(address).json()
    return body


def test_status__read_but_not_yet_in_a_snapshot__is_extracted(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = builders.add_text(base, "returns.md", RETURNS)
    snapshot = start_build(base.pk)
    assert snapshot is not None
    claim = claim_piece(snapshot.pk)
    assert claim is not None
    work_on(claim)

    shown = _shown(api, document)

    assert (shown["status"], shown["chunks"], shown["servedRevision"]) == ("extracted", 0, None)


def test_status__in_the_current_snapshot__is_indexed(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = builders.add_text(base, "returns.md", RETURNS)
    builders.build(base)

    shown = _shown(api, document)

    assert (shown["status"], shown["servedRevision"], shown["error"]) == ("indexed", 1, None)
    assert shown["chunks"] >= 1


def test_status__chunking_changed__stays_indexed_while_the_old_chunks_are_served(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = builders.add_text(base, "returns.md", RETURNS)
    builders.build(base)
    builders.rechunk(base, 20)

    assert _shown(api, document)["status"] == "indexed"


def test_status__first_revision_unreadable__is_failed_with_a_sentence(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    response = api.post(
        f"/api/v1/knowledge-bases/{base.pk}/documents",
        {"file": SimpleUploadedFile("broken.pdf", BROKEN_PDF)},
    )
    builders.build(base)

    shown = _shown(api, Document.objects.get(pk=response.json()["id"]))

    assert shown["status"] == "failed"
    assert shown["error"]["code"].startswith("extraction.")
    assert shown["error"]["message"]
    assert (shown["servedRevision"], shown["chunks"], shown["notices"]) == (None, 0, [])


def test_status__newest_revision_unreadable__says_that_the_earlier_one_is_served(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = builders.add_text(base, "manual", RETURNS)
    builders.build(base)
    api.put(
        f"/api/v1/knowledge-bases/{base.pk}/documents/{document.pk}",
        {"file": SimpleUploadedFile("manual", BROKEN_PDF)},
    )

    pending = _shown(api, document)
    builders.build(base)
    failed = _shown(api, document)

    assert (pending["status"], pending["revision"], pending["servedRevision"]) == ("pending", 2, 1)
    assert (failed["status"], failed["revision"], failed["servedRevision"]) == ("failed", 2, 1)
    assert failed["chunks"] >= 1
    assert failed["notices"] == ["Revision 2 could not be read: searches still find revision 1."]


def _crash_over_its_first_document(base: KnowledgeBase, settings: Any) -> None:
    """Claim the first piece as often as workers that die over it would."""
    lease = settings.BUILD_LEASE_SECONDS
    settings.BUILD_LEASE_SECONDS = -1
    snapshot = start_build(base.pk)
    assert snapshot is not None
    first = snapshot.pieces.order_by("pk")[:1].get().pk
    snapshot.pieces.exclude(pk=first).update(leased_until="9999-01-01T00:00:00Z")
    for _ in range(settings.BUILD_MAX_ATTEMPTS):
        claim_piece(snapshot.pk)
    snapshot.pieces.exclude(pk=first).update(leased_until=None)
    settings.BUILD_LEASE_SECONDS = lease
    builders.build(base)


def test_status__worker_stopped_again_and_again__is_failed_by_name(
    api: CheckedClient, base: KnowledgeBase, settings: Any
) -> None:
    document = builders.add_text(base, "returns.md", RETURNS)
    builders.add_text(base, "warranty.md", builders.WARRANTY)
    _crash_over_its_first_document(base, settings)

    shown = _shown(api, document)

    assert shown["status"] == "failed"
    assert shown["error"]["code"] == "build.crashed"
    assert "retry" in shown["error"]["message"]


def test_status__worker_stopped_in_a_build_that_was_held_back__is_failed_by_name(
    api: CheckedClient, base: KnowledgeBase, settings: Any
) -> None:
    """Its text had been read, so that nothing but the build knows."""
    update_knowledge_base(
        actor=builders.ACTOR, knowledge_base_id=base.pk, values={"failurePolicy": "holdBack"}
    )
    builders.add_text(base, "warranty.md", builders.WARRANTY)
    builders.build(base)
    document = builders.add_text(base, "a.md", RETURNS)
    extraction_of(document.revisions.get().pk)
    held_back = builders.add_text(base, "b.md", "Nothing is wrong with this one.")
    _crash_over_its_first_document(base, settings)

    shown = _shown(api, document)

    assert (shown["status"], shown["servedRevision"]) == ("failed", None)
    assert shown["error"]["code"] == "build.crashed"
    assert _shown(api, held_back)["status"] == "extracted"
    listed = api.get(f"/api/v1/knowledge-bases/{base.pk}/documents?status=failed").json()
    assert [one["name"] for one in listed["results"]] == ["a.md"]
    address = f"/api/v1/knowledge-bases/{base.pk}/documents/{document.pk}"
    assert api.post(f"{address}/retry").status_code == 202
    builders.build(base)
    assert _shown(api, document)["status"] == _shown(api, held_back)["status"] == "indexed"


def test_status__reindexed_after_a_crash__is_pending_and_then_indexed(
    api: CheckedClient, base: KnowledgeBase, settings: Any
) -> None:
    document = builders.add_text(base, "returns.md", RETURNS)
    _crash_over_its_first_document(base, settings)

    api.post(f"/api/v1/knowledge-bases/{base.pk}/reindex")
    pending = _shown(api, document)["status"]
    builders.build(base)

    assert pending == "pending"
    assert _shown(api, document)["status"] == "indexed"


def test_status__switched_off__leaves_the_snapshot_and_is_not_failed(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = builders.add_text(base, "returns.md", RETURNS)
    builders.add_text(base, "warranty.md", builders.WARRANTY)
    builders.build(base)
    api.patch(
        f"/api/v1/knowledge-bases/{base.pk}/documents/{document.pk}",
        {"enabled": False},
        format="json",
    )
    builders.build(base)

    shown = _shown(api, document)

    assert (shown["status"], shown["servedRevision"], shown["chunks"]) == ("extracted", None, 0)
