"""After a purge a word of the document is in no column of any table, in no cache, in no file."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from rest_framework.test import APIClient

from retrieval.indexing import start_build
from retrieval.models import Document
from tests import builders
from tests.database.attacks import rows, run
from tests.database.threads import Running, other_session
from tests.servers import INSTANCE
from tests.worker import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

WORD = "quillfeather"
TEXT = f"""# The house of {WORD.title()}

Mrs {WORD.title()} lives in the third house. Parcels to {WORD} go back within 30 days.
"""
QUESTION = "Who lives in the third house?"


def tables_with(word: str) -> set[str]:
    """Every table of the database, its own catalogs included, a row of which has ``word``.

    A row as text shows bytes in hexadecimal.
    """
    tables = rows(
        "SELECT schemaname, tablename FROM pg_tables WHERE schemaname <> 'information_schema' "
        "AND has_table_privilege(format('%%I.%%I', schemaname, tablename), 'SELECT') "
        "UNION ALL SELECT 'pg_catalog', 'pg_stats'"
    )
    patterns = [f"%{word}%", f"%{word.encode().hex()}%", f"%{word.title().encode().hex()}%"]
    return {
        table
        for schema, table in tables
        if rows(
            f'SELECT 1 FROM "{schema}"."{table}" AS t WHERE t::text ILIKE ANY(%s) LIMIT 1',
            patterns,
        )
    }


def cached_with(word: str) -> list[bytes]:
    client = redis.Redis.from_url(settings.REDIS_URL)
    found = []
    for key in client.scan_iter():
        kind = client.type(key)
        value = client.get(key) if kind == b"string" else client.dump(key)
        if word.encode() in (key + (value or b"")).lower():
            found.append(key)
    return found


def files_with(word: str) -> set[str]:
    """Every file of the instance that has ``word``, but the write-ahead log."""
    found = set()
    # Other processes use the instance, too: files and folders go while this looks.
    for folder, _, names in os.walk(INSTANCE.data_dir):
        for path in (Path(folder, name) for name in names):
            with suppress(FileNotFoundError):
                if (
                    path.is_file()
                    and "pg_wal" not in path.parts
                    and word.encode() in path.read_bytes().lower()
                ):
                    found.add(str(path.relative_to(INSTANCE.data_dir)))
    return found


@pytest.fixture
def document(transactional_db: None, client_for: Callable[..., APIClient]) -> Document:
    """A document that everything has been done with before it is purged."""
    client = client_for("admin")
    base = builders.base_with("Houses")
    below = f"/api/v1/knowledge-bases/{base.pk}"
    once: dict[str, Any] = {"format": "json", "HTTP_IDEMPOTENCY_KEY": "one"}
    made = client.post(f"{below}/documents", {"name": "house.md", "text": TEXT}, **once).json()
    address = f"{below}/documents/{made['id']}"
    builders.build(base)
    builders.published(base, slug="support")
    call = {"version": 1, "query": QUESTION}
    found = client.post("/api/v1/agents/support/tools/search/call", call, format="json").json()
    assert WORD in found["results"][0]["passage"].lower()
    for asked in (
        client.post("/api/v1/agents/support/retrieve", {**call, "context": {}}, format="json"),
        client.post(f"{below}/test", {"query": QUESTION}, format="json"),
        client.get(f"/api/v1/traces/{found['traceId']}"),
        client.get(f"{address}/segments"),
    ):
        assert WORD in asked.content.decode().lower()
    client.put(address, {"text": TEXT + "More."}, format="json", HTTP_IDEMPOTENCY_KEY="two")
    client.patch(address, {"metadata": {"a": 1}}, format="json", HTTP_IDEMPOTENCY_KEY="three")
    builders.build(base)
    # A third revision, of which a worker knows nothing yet.
    client.put(address, {"text": TEXT + "Most."}, format="json")
    start_build(base.pk)
    run("ANALYZE")
    return Document.objects.get(pk=made["id"])


def purge(client: APIClient, document: Document) -> None:
    address = f"/api/v1/knowledge-bases/{document.knowledge_base_id}/documents/{document.pk}/purge"
    response = client.post(address, {"reason": "Case 17"}, format="json")
    assert response.status_code == 200


def test_word_of_a_document__before_its_purge__is_in_three_tables_alone(
    document: Document,
) -> None:
    """What the search below would find; nor may it be where no purge looks."""
    assert tables_with(WORD) == {
        "retrieval_documentrevision",
        "retrieval_extraction",
        "retrieval_chunk",
    }
    assert cached_with(WORD) == []


def test_word_of_a_document__after_its_purge__is_nowhere(
    document: Document, client_for: Callable[..., APIClient]
) -> None:
    purge(client_for("admin"), document)
    late_worker_refused(document)
    run("ANALYZE")

    assert tables_with(WORD) == set()
    assert cached_with(WORD) == []


def late_worker_refused(document: Document) -> None:
    """What PostgreSQL refuses it must not write into its log."""
    with other_session() as late:
        statement = (
            "INSERT INTO retrieval_extraction (revision_id, recipe, status, error_code, error, "
            "notices, segments, digest, created_at) VALUES "
            f"({document.revisions.get(number=1).pk}, 'late', 'sealed', '', '', '[]', "
            f"'[{{\"text\": \"{WORD}\"}}]', 'sha256:0', now())"
        )
        with pytest.raises(psycopg.errors.RestrictViolation):
            late.execute(statement.encode())


def test_word_of_a_document__once_its_tables_are_written_anew__is_in_no_file(
    document: Document, client_for: Callable[..., APIClient]
) -> None:
    purge(client_for("admin"), document)
    late_worker_refused(document)

    call_command("rewrite_purged")
    checkpoint()

    assert files_with(WORD) == set()


@pytest.mark.parametrize("database", ["postgres", None], ids=["elsewhere", "here"])
def test_rewriting__while_earlier_transactions_run__waits_for_them(
    document: Document, client_for: Callable[..., APIClient], database: str | None
) -> None:
    """What they might be shown is copied, also where they are in another database."""
    dsn = INSTANCE.postgres_dsn("owner", database or connection.settings_dict["NAME"])
    out = StringIO()
    with psycopg.connect(dsn) as earlier:
        if database is None:
            earlier.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            earlier.execute("SELECT 1")
        else:
            earlier.execute("SELECT pg_current_xact_id()")
        purge(client_for("admin"), document)

        rewriting = Running(partial(call_command, "rewrite_purged", stdout=out))
        wait_until(lambda: "waiting" in out.getvalue())
        earlier.commit()
        assert rewriting.end() is None
    checkpoint()

    assert files_with(WORD) == set()


def checkpoint() -> None:
    """Have what is in memory alone written into the files."""
    dsn = INSTANCE.postgres_dsn("superuser", connection.settings_dict["NAME"])
    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute("CHECKPOINT")
