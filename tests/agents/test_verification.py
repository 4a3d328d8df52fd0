"""What was changed below the triggers is found and named."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from rest_framework.test import APIClient

from agents.models import AgentVersion
from agents.verification import summary, verify_version
from retrieval.verification import Verifier
from tests import builders
from tests.agents.tampering import tamper

pytestmark = pytest.mark.django_db


@pytest.fixture
def version() -> AgentVersion:
    base = builders.base_with()
    agent = builders.make_agent("support")
    builders.edit(
        agent,
        prompt="Help.",
        parameters={"a": 1},
        bindings=[{"knowledgeBase": str(base.pk)}],
        tools=[builders.rag_tool(base)],
    )
    return builders.publish(agent)


def _verified(version: AgentVersion) -> dict[str, object]:
    return summary(verify_version(AgentVersion.objects.get(pk=version.pk), Verifier()))


def test_verify__of_an_untouched_version__holds_in_every_part(version: AgentVersion) -> None:
    verified = _verified(version)

    assert verified["ok"]
    assert "firstDifference" not in verified
    assert len(verified["parts"]) == 5  # type: ignore[arg-type]


_RETURNS = (
    "(SELECT e.id FROM retrieval_extraction e JOIN retrieval_documentrevision r "
    "ON r.id = e.revision_id JOIN retrieval_document d ON d.id = r.document_id "
    "WHERE d.name = 'returns.md')"
)
_CHUNK = (
    "WHERE ordinal = 0 AND indexed_document_id = "
    f"(SELECT id FROM retrieval_indexeddocument WHERE extraction_id = {_RETURNS})"
)


@pytest.mark.parametrize(
    ("table", "assignment", "what"),
    [
        ("agents_agentversion", "prompt = 'Helq.' WHERE number = 1", "the manifest"),
        ("agents_agentversion", "parameters = '{\"a\":2}' WHERE number = 1", "the manifest"),
        (
            "agents_agentversion",
            "manifest = replace(manifest, '\"defaultTopK\":5', '\"defaultTopK\":6') "
            "WHERE number = 1",
            "the manifest's digest",
        ),
        ("agents_agentversion", "manifest = '{' WHERE number = 1", "the manifest's digest"),
        (
            "agents_knowledgebinding",
            "enabled = FALSE WHERE version_id IN "
            "(SELECT id FROM agents_agentversion WHERE number = 1)",
            "the manifest",
        ),
        (
            "agents_tool",
            "description = 'x' WHERE version_id IN "
            "(SELECT id FROM agents_agentversion WHERE number = 1)",
            "the manifest",
        ),
        (
            "retrieval_documentrevision",
            "content = set_byte(content, 3, 33) WHERE document_id = "
            "(SELECT id FROM retrieval_document WHERE name = 'returns.md')",
            "the bytes of its revision",
        ),
        (
            "retrieval_extraction",
            f"segments = replace(segments, '30 days', '31 days') WHERE id = {_RETURNS}",
            "the text of its extraction",
        ),
        (
            "retrieval_chunk",
            f"text = replace(text, '30 days', '31 days') {_CHUNK}",
            "its text",
        ),
        ("retrieval_chunk", f"section = 'Other' {_CHUNK}", "its text, page or section"),
        ("retrieval_chunk", f"page = 7 {_CHUNK}", "its text, page or section"),
        ("retrieval_chunk", f"start = start + 1 {_CHUNK}", "its offsets in the extraction"),
        (
            "retrieval_chunk",
            "vector = (('[' || '0.5,' || substr(vector::text, strpos(vector::text, ',') + 1))"
            f"::vector) {_CHUNK}",
            "its vector",
        ),
        (
            "retrieval_snapshotmember",
            "metadata = '{\"a\":1}' WHERE name = 'returns.md'",
            "its digest",
        ),
        ("retrieval_snapshotmember", "name = 'other.md' WHERE name = 'returns.md'", "its digest"),
    ],
)
def test_verify__one_thing_changed_below_the_triggers__is_found_and_named(
    version: AgentVersion,
    table: str,
    assignment: str,
    what: str,
) -> None:
    tamper(table, assignment)

    verified = _verified(version)

    assert not verified["ok"]
    difference = verified["firstDifference"]
    assert isinstance(difference, dict)
    assert difference["what"] == what
    if table == "retrieval_chunk":
        assert (difference["document"], difference["chunk"]) == ("returns.md", 0)


def test_verify__member_taken_out_below_the_triggers__is_found(version: AgentVersion) -> None:
    connection.check_constraints()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE retrieval_snapshotmember DISABLE TRIGGER USER")
        cursor.execute("DELETE FROM retrieval_snapshotmember WHERE name = 'returns.md'")
        cursor.execute("ALTER TABLE retrieval_snapshotmember ENABLE TRIGGER USER")

    verified = _verified(version)

    assert verified["firstDifference"]["what"] == "its digest"  # type: ignore[index]


_TORN = [
    ("agents_agentversion", "parameters = '{' WHERE number = 1", "the manifest"),
    ("agents_agentversion", "context_variables = 'x' WHERE number = 1", "the manifest"),
    ("agents_agentversion", "sample_contexts = '[}' WHERE number = 1", "the manifest"),
    ("retrieval_snapshotmember", "metadata = '{' WHERE name = 'returns.md'", "its metadata"),
    (
        "retrieval_extraction",
        f"segments = overlay(segments placing 'x' from 1) WHERE id = {_RETURNS}",
        "the text of its extraction",
    ),
    (
        "retrieval_extraction",
        f"segments = replace(segments, '\"page\"', '\"pagf\"') WHERE id = {_RETURNS}",
        "the text of its extraction",
    ),
]


@pytest.mark.parametrize(("table", "assignment", "what"), _TORN)
def test_verify__json_torn_below_the_triggers__is_found_and_named(
    version: AgentVersion, api: APIClient, table: str, assignment: str, what: str
) -> None:
    tamper(table, assignment)
    told = StringIO()

    answer = api.post("/api/v1/agents/support/versions/1/verify")
    with pytest.raises(SystemExit):
        call_command("verify", "--all", stdout=told)

    assert answer.status_code == 200
    difference = answer.json()["firstDifference"]
    assert (difference["what"], difference["expected"]) == (what, "readable")
    assert f"{what} differs" in told.getvalue()
    if table != "agents_agentversion":
        assert difference["document"] == "returns.md"
    assert sum(not part["ok"] for part in answer.json()["parts"]) <= 2


def test_verify__command_over_all__names_the_difference_and_fails(
    version: AgentVersion,
) -> None:
    whole = StringIO()
    call_command("verify", "--all", stdout=whole)
    tamper("retrieval_chunk", f"text = replace(text, '30 days', '31 days') {_CHUNK}")
    broken = StringIO()

    with pytest.raises(SystemExit) as ended:
        call_command("verify", "--agent", "support", "--version", "1", stdout=broken)

    with pytest.raises(CommandError):
        call_command("verify", "--agent", "support", "--version", "2")
    assert "1 versions verified, 0 differ" in whole.getvalue()
    assert ended.value.code == 1
    assert "returns.md, chunk 0: its text differs" in broken.getvalue()
