"""100,000 chunks are verified and moved in minutes, a document at a time in memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import transaction

from tests import builders
from tests.transfer.conftest import Elsewhere
from tests.transfer.large import make_large_base
from tests.transfer.world import bring, export

MINUTES = 60
MOST_MEMORY = 400 * 2**20


@contextmanager
def measured(what: str, *, minutes: int) -> Iterator[None]:
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    seconds = time.monotonic() - began
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(f"{what}: {seconds:.0f} s, {memory / 2**20:.0f} MB more")
    assert seconds < minutes * MINUTES
    assert memory < MOST_MEMORY


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.django_db(transaction=True)
def test_index_of_100k_chunks__verified_exported_and_imported__takes_minutes(
    empty_database: str, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    with transaction.atomic():
        base = make_large_base(documents=500, chunks_each=200)
    agent, version = builders.published(base, slug="large")

    told = StringIO()
    with measured("verify", minutes=10):
        call_command("verify", "--all", stdout=told)
    assert "1 versions verified, 0 differ" in told.getvalue()

    with measured("export", minutes=10):
        export(tmp_path / "large.agent", agent)
    assert (tmp_path / "large.agent").stat().st_size > 100_000 * 384 * 4
    with elsewhere(), measured("import", minutes=20):
        assert bring(tmp_path / "large.agent").version.digest == version.digest
