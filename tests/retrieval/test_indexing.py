from __future__ import annotations

from typing import Any

import pytest

from retrieval.claims import claim_piece
from retrieval.indexing import start_build
from retrieval.knowledge_bases import find
from retrieval.models import Chunk
from tests import builders
from tests.builders import RETURNS, WARRANTY
from tests.worker import Worker, wait_until

pytestmark = pytest.mark.django_db


def test_build__first_documents__become_the_current_snapshot() -> None:
    base = builders.make_base()
    builders.add_text(base, "returns.md", RETURNS)
    builders.add_text(base, "warranty.md", WARRANTY)

    snapshot = builders.build(base)

    assert snapshot.state == "ready"
    assert snapshot.document_count == 2
    assert find(base.pk).current_snapshot == snapshot
    assert Chunk.objects.filter(vector__isnull=True).count() == 0


def test_build__nothing_changed_in_effect__ends_unchanged() -> None:
    base = builders.base_with()
    builders.rechunk(base, 40)
    builders.rechunk(base, 200, 20)

    snapshot = builders.build(base)

    assert snapshot.state == "unchanged"
    assert find(base.pk).current_snapshot == base.current_snapshot


@pytest.mark.django_db(transaction=True)
def test_build__by_a_real_worker__becomes_current(worker: Worker) -> None:
    base = builders.make_base()
    builders.add_text(base, "returns.md", RETURNS)

    wait_until(lambda: find(base.pk).current_snapshot is not None)

    current = find(base.pk).current_snapshot
    assert current is not None
    assert current.document_count == 1


def test_build__newest_revision_crashes_its_workers__goes_on_serving_the_earlier_one(
    settings: Any,
) -> None:
    base = builders.make_base()
    document = builders.add_text(base, "returns.md", RETURNS)
    builders.build(base)
    builders.replace_text(base, document, WARRANTY)
    lease, settings.BUILD_LEASE_SECONDS = settings.BUILD_LEASE_SECONDS, -1
    snapshot = start_build(base.pk)
    assert snapshot is not None
    for _ in range(settings.BUILD_MAX_ATTEMPTS):
        claim_piece(snapshot.pk)
    settings.BUILD_LEASE_SECONDS = lease

    ended = builders.build(base)

    assert ended.state == "unchanged"
    current = find(base.pk).current_snapshot
    assert current is not None
    member = current.members.get()
    assert (member.name, member.revision_number) == ("returns.md", 1)
    assert document.revisions.get(number=2).extractions.get().error_code == "build.crashed"
