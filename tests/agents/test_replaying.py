"""What was answered is answered again from the rows; what is not is named, with its cause."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from agents.answers import resolve
from agents.models import Agent, AgentVersion
from agents.replaying import Replay, Replayer
from agents.tools import call_tool, retrieve_attached
from agents.verification import summary, verify_version
from agents.versions import published, runnable
from retrieval.knowledge_bases import find, update_knowledge_base
from retrieval.models import Chunk, Document, DocumentRevision, KnowledgeBase, Trace
from retrieval.questions import Question
from retrieval.verification import Verifier
from tests import builders
from tests.agents.tampering import tamper
from tests.builders import ACCESS
from tests.database.attacks import commit, purge
from tests.traces import kept_traces

pytestmark = pytest.mark.django_db
QUERY = "How long do I have to send the parcel back?"
_VARIABLES = [
    {"name": "region", "type": "string", "values": ["EU", "UK"], "required": True},
    {"name": "customer.email", "type": "string", "sensitive": True},
    {"name": "vip", "type": "boolean"},
]
_BY_EMAIL = 'customer.email == "ada@example.org" or (vip and not region == "UK")'


@pytest.fixture
def base() -> KnowledgeBase:
    return builders.base_with("Returns")


@pytest.fixture
def support(base: KnowledgeBase) -> Agent:
    """Version 1 binds two bases by region; binding 3 reads a sensitive variable."""
    other = builders.base_with("Warranty UK", warranty_md=builders.WARRANTY)
    agent = builders.make_agent("support")
    builders.edit(
        agent,
        contextVariables=_VARIABLES,
        bindings=[
            {"knowledgeBase": str(base.pk), "expression": 'region == "EU"'},
            {"knowledgeBase": str(other.pk), "label": "Always"},
            {"knowledgeBase": str(base.pk), "label": "Mail", "expression": _BY_EMAIL},
            {"knowledgeBase": str(base.pk), "label": "Off", "enabled": False},
        ],
        tools=[builders.rag_tool(base)],
    )
    builders.publish(agent)
    return agent


def version(agent: Agent, number: int | None = 1) -> AgentVersion:
    return AgentVersion.objects.get(agent=agent, number=number)


def call(agent: Agent, query: str = QUERY, number: int | None = 1, **more: Any) -> uuid.UUID:
    answer = call_tool(
        version=runnable(agent, version(agent, number)),
        name="search",
        question=Question(query=query, **more),
        access=ACCESS,
    )
    return uuid.UUID(answer["traceId"])


def retrieve(agent: Agent, context: Mapping[str, Any], number: int | None = 1) -> uuid.UUID:
    answer = retrieve_attached(
        version=runnable(agent, version(agent, number)),
        context=context,
        question=Question(query=QUERY),
        access=ACCESS,
    )
    return uuid.UUID(answer["traceId"])


def resolved(agent: Agent, context: Mapping[str, Any], number: int | None = 1) -> uuid.UUID:
    answer = resolve(
        version=runnable(agent, version(agent, number)), context=context, access=ACCESS
    )
    return uuid.UUID(answer["traceId"])


def replay(trace_id: uuid.UUID) -> Replay:
    return Replayer().replay(kept_traces().get(pk=trace_id))


def difference(trace_id: uuid.UUID) -> dict[str, Any]:
    replayed = replay(trace_id)
    assert not replayed.identical
    found: dict[str, Any] = replayed.as_json()["firstDifference"]
    return found


def altered(trace_id: uuid.UUID, **values: Any) -> uuid.UUID:
    """Return a copy of a trace in which something else was answered."""
    trace = kept_traces().get(pk=trace_id)
    for name, value in values.items():
        setattr(trace, name, value)
    trace.pk = uuid.uuid4()
    trace.save(force_insert=True)
    return trace.pk


def test_replay__of_everything_that_was_asked__is_identical(support: Agent) -> None:
    made = [
        call(support),
        call(support, top_k=50, confidence_threshold=0.0),
        call(support, "Quantum chromodynamics?", confidence_threshold=0.99),
        retrieve(support, {"region": "EU"}),
        retrieve(support, {}),
        resolved(support, {"region": "UK", "vip": True}),
        resolved(support, {"region": "France"}),
    ]

    assert [replay(one).as_json() for one in made] == [
        {"identical": True, "partial": None} for _ in made
    ]


def test_replay__after_everything_changed__is_identical_for_a_published_version(
    support: Agent, base: KnowledgeBase
) -> None:
    made = [call(support), retrieve(support, {"region": "EU"}), resolved(support, {})]
    document = Document.objects.get(name="returns.md", knowledge_base=base)
    builders.replace_text(base, document, "# Nothing\n\nNothing is taken back any more.")
    update_knowledge_base(
        actor=builders.ACTOR,
        knowledge_base_id=base.pk,
        values={
            "name": "Renamed",
            "chunking": {"strategy": "recursive", "size": 40, "overlap": 0},
            "settings": {"defaultTopK": 1, "similarityThreshold": 0.9, "settingsMode": "applied"},
        },
    )
    builders.build(base)
    builders.edit(support, bindings=[], tools=[])
    builders.publish(support)

    assert all(replay(one).identical for one in made)


def test_replay__asks_the_rows__and_writes_nothing(support: Agent) -> None:
    trace_id = call(support)
    trace = kept_traces().get(pk=trace_id)

    with CaptureQueriesContext(connection) as queries:
        assert Replayer().replay(trace).identical

    asked = [one["sql"].lstrip() for one in queries]
    assert all(one.startswith(("SELECT", "WITH")) for one in asked), asked
    for source in ("retrieval_find_question", "retrieval_chunk", "retrieval_snapshotmember"):
        assert any(source in one for one in asked), source


_RETURNS = (
    "(SELECT i.id FROM retrieval_indexeddocument i "
    "JOIN retrieval_extraction e ON e.id = i.extraction_id "
    "JOIN retrieval_documentrevision r ON r.id = e.revision_id "
    "JOIN retrieval_document d ON d.id = r.document_id WHERE d.name = 'returns.md')"
)


@pytest.mark.parametrize(
    ("table", "assignment", "field", "seen"),
    [
        (
            "retrieval_chunk",
            "vector = (('[' || '0.5,' || substr(vector::text, strpos(vector::text, ',') + 1))"
            f"::vector) WHERE ordinal = 0 AND indexed_document_id = {_RETURNS}",
            "confidence",
            "its vector",
        ),
        (
            "retrieval_chunk",
            "text = replace(text, '30 days', '31 days') WHERE ordinal = 0 "
            f"AND indexed_document_id = {_RETURNS}",
            "passageDigest",
            "its text",
        ),
        (
            "retrieval_snapshotmember",
            "name = 'refunds.md' WHERE name = 'returns.md'",
            "document.name",
            "its digest",
        ),
    ],
)
def test_replay_and_verify__one_row_altered_below_the_triggers__name_document_chunk_and_rank(
    support: Agent, table: str, assignment: str, field: str, seen: str
) -> None:
    trace_id = call(support, confidence_threshold=0.0)
    chunk = kept_traces().get(pk=trace_id).groups[0]["results"][0]
    assert chunk["document"]["name"] == "returns.md"
    ordinal = Chunk.objects.get(digest=chunk["chunk"]).ordinal
    assert ordinal == 0

    tamper(table, assignment)

    found = difference(trace_id)
    assert (found["field"], found["rank"], found["cause"]) == (field, 1, "rows.changed")
    assert (found["document"], found["chunk"]) == ("returns.md", chunk["chunk"])
    assert found["expected"] != found["found"]
    assert found["knowledgeBase"] == "Returns"
    assert seen in found["detail"]
    verified = summary(verify_version(version(support), Verifier()))["firstDifference"]
    assert verified["what"] == seen
    if table == "retrieval_chunk":
        assert found["position"] == ordinal
        assert found["detail"].startswith("returns.md, chunk 0: ")
        assert (verified["document"], verified["chunk"]) == ("returns.md", 0)
    else:
        assert "snapshot" in verified["part"]


def test_replay__a_passage_moved_down_by_its_vector__is_named_at_its_rank(support: Agent) -> None:
    trace_id = call(support, confidence_threshold=0.0)
    first = kept_traces().get(pk=trace_id).groups[0]["results"][0]

    tamper(
        "retrieval_chunk",
        "vector = (SELECT array_agg(-one)::vector FROM unnest(vector::real[]) AS one) "
        f"WHERE ordinal = 0 AND indexed_document_id = {_RETURNS}",
    )

    found = difference(trace_id)
    assert (found["rank"], found["field"]) == (1, "chunk")
    assert found["expected"]["chunk"] == first["chunk"]
    assert found["found"]["chunk"] != first["chunk"]
    assert found["cause"] == "rows.changed"
    assert "returns.md, chunk 0: its vector" in found["detail"]


def test_replay__a_member_taken_out_below_the_triggers__is_named(support: Agent) -> None:
    trace_id = call(support, confidence_threshold=0.0)
    connection.check_constraints()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE retrieval_snapshotmember DISABLE TRIGGER USER")
        cursor.execute("DELETE FROM retrieval_snapshotmember WHERE name = 'returns.md'")
        cursor.execute("ALTER TABLE retrieval_snapshotmember ENABLE TRIGGER USER")

    found = difference(trace_id)

    assert (found["rank"], found["document"]) == (1, "returns.md")
    assert found["cause"] == "rows.changed"


@pytest.mark.parametrize(
    ("table", "assignment"),
    [
        ("agents_agentversion", "parameters = '{' WHERE number = 1"),
        ("agents_agentversion", "manifest = '{' WHERE number = 1"),
        ("retrieval_snapshotmember", "metadata = '{' WHERE name = 'returns.md'"),
    ],
)
def test_replay_and_answer__json_torn_below_the_triggers__say_so(
    support: Agent, api: APIClient, table: str, assignment: str
) -> None:
    trace_id = call(support)
    assert kept_traces().count() == 1

    tamper(table, assignment)
    published.cache_clear()
    told = StringIO()
    with pytest.raises(SystemExit):
        call_command("replay", stdout=told)
    answer = api.post(
        "/api/v1/agents/support/tools/search/call", {"version": 1, "query": QUERY}, format="json"
    )

    found = difference(trace_id)
    assert found["cause"] == "rows.changed"
    assert assignment.split()[0] in found["detail"]
    assert "1 traces replayed: 0 identical, 1 differ" in told.getvalue()
    assert (answer.status_code, answer.json()["code"]) == (500, "rows.changed")


def test_replay__the_questions_stored_vector_altered__is_the_cause(support: Agent) -> None:
    trace_id = call(support)

    tamper(
        "retrieval_queryembedding",
        "vector = (('[' || '0.5,' || substr(vector::text, strpos(vector::text, ',') + 1))::vector)",
    )

    assert difference(trace_id)["cause"] == "question.vector_changed"


@pytest.mark.django_db(transaction=True)
def test_replay__of_a_vector_that_a_cache_still_knows__asks_the_row(support: Agent) -> None:
    trace_id = call(support)
    before = kept_traces().get(pk=trace_id).receipt
    tamper(
        "retrieval_queryembedding",
        "vector = (('[' || '0.5,' || substr(vector::text, strpos(vector::text, ',') + 1))::vector)",
    )

    again = call(support)
    assert kept_traces().get(pk=again).receipt == before, "no cache was asked"
    assert difference(trace_id)["cause"] == "question.vector_changed"


def test_replay__sensitive_variable__is_partial_and_decides_by_kept_truth_values(
    support: Agent,
) -> None:
    contexts: list[dict[str, Any]] = [
        {"region": "EU", "customer": {"email": "ada@example.org"}, "vip": False},
        {"region": "UK", "customer": {"email": "bob@example.org"}, "vip": True},
        {"region": "EU", "customer": {"email": "bob@example.org"}, "vip": True},
        {"region": "EU", "customer": {"email": 5}, "vip": False},
        {"region": "EU", "customer": {"email": "bob@example.org"}},
    ]
    made = [resolved(support, context) for context in contexts]
    made.append(retrieve(support, contexts[0]))

    replays = [replay(one).as_json() for one in made]

    assert replays == [{"identical": True, "partial": "sensitive"} for _ in made]
    decided = [kept_traces().get(pk=one).decisions[2] for one in made]
    assert [one["reason"] for one in decided] == [
        "TRUE",
        "FALSE",
        "TRUE",
        "VALUE_NOT_ALLOWED",
        "MISSING_VARIABLE",
        "TRUE",
    ]
    assert "ada@example.org" not in json.dumps([one["arguments"] for one in _all_traces()])


def test_trace__sensitive_name_in_another_unicode_form__is_kept_as_an_hmac_too(
    base: KnowledgeBase,
) -> None:
    agent = builders.make_agent("support")
    builders.edit(
        agent,
        contextVariables=[
            {"name": "customer", "type": "object"},
            {"name": "customer.émail", "type": "string", "sensitive": True},
        ],
        bindings=[{"knowledgeBase": str(base.pk), "expression": "customer != None"}],
    )
    builders.publish(agent)
    decomposed = {"customer": {"e\u0301mail": "ada@example.org", "tier": "gold"}}

    trace_id = resolved(agent, decomposed)

    kept = kept_traces().get(pk=trace_id).arguments["context"]
    assert "ada@example.org" not in json.dumps(kept)
    assert kept["customer"]["tier"] == "gold"
    assert replay(trace_id).as_json() == {"identical": True, "partial": "sensitive"}


@pytest.mark.parametrize(
    "customer",
    [[{"email": "ada@example.org"}], "ada@example.org", {"contact": ["ada@example.org"]}],
)
def test_trace__no_object_where_a_sensitive_name_leads_through__is_kept_as_an_hmac(
    base: KnowledgeBase, customer: Any
) -> None:
    agent = builders.make_agent("support")
    builders.edit(
        agent,
        contextVariables=[
            {"name": "customer", "type": "object"},
            {"name": "customer.email", "type": "string", "sensitive": True},
            {"name": "customer.contact.email", "type": "string", "sensitive": True},
            {"name": "region", "type": "string"},
        ],
        bindings=[
            {"knowledgeBase": str(base.pk), "expression": "len(customer) > 0"},
            {"knowledgeBase": str(base.pk), "expression": 'region == "EU"'},
        ],
    )
    builders.publish(agent)
    context = {"region": "EU", "customer": customer}

    made = [resolved(agent, context), retrieve(agent, context)]

    for trace_id in made:
        trace = kept_traces().get(pk=trace_id)
        assert "ada@example.org" not in json.dumps([trace.arguments, trace.context_problems])
        assert trace.arguments["context"]["region"] == "EU"
        assert replay(trace_id).as_json() == {"identical": True, "partial": "sensitive"}


def _all_traces() -> list[dict[str, Any]]:
    return [dict(one) for one in kept_traces().values("arguments", "decisions", "groups")]


def test_replay__other_problems_of_the_context_than_the_trace_has__are_found(
    support: Agent,
) -> None:
    trace_id = resolved(support, {"region": "France", "vip": "yes"})
    problems = kept_traces().get(pk=trace_id).context_problems
    assert [one["variable"] for one in problems] == ["region", "vip"]
    other = [{**problems[0], "message": "something else"}, problems[1]]

    for altered_problems, expected, now in (
        ([], None, problems[0]),
        (problems[:1], None, problems[1]),
        (other, other[0], problems[0]),
    ):
        found = difference(altered(trace_id, context_problems=altered_problems))
        assert found["field"] == "contextProblems"
        assert (found["expected"], found["found"]) == (expected, now)
    assert replay(trace_id).as_json() == {"identical": True, "partial": None}


def test_replay__of_a_trace_from_before_problems_were_kept__compares_the_rest(
    support: Agent,
) -> None:
    trace_id = altered(resolved(support, {}), context_problems=None)

    assert replay(trace_id).as_json() == {"identical": True, "partial": None}


@pytest.mark.parametrize(
    ("customer", "reasons"),
    [({"email": 5_550_123}, ["VALUE_NOT_ALLOWED"]), ({"email": "ada@example.org"}, [])],
)
def test_replay__of_a_problem_with_a_sensitive_variable__keeps_no_value_and_is_partial(
    base: KnowledgeBase, customer: dict[str, Any], reasons: list[str]
) -> None:
    agent = builders.make_agent("support")
    builders.edit(
        agent,
        contextVariables=[{"name": "customer.email", "type": "string", "sensitive": True}],
        bindings=[{"knowledgeBase": str(base.pk)}],
    )
    builders.publish(agent)

    trace_id = resolved(agent, {"customer": customer})

    trace = kept_traces().get(pk=trace_id)
    assert [one["reason"] for one in trace.context_problems] == reasons
    assert str(customer["email"]) not in json.dumps([trace.arguments, trace.context_problems])
    assert replay(trace_id).as_json() == {"identical": True, "partial": "sensitive"}


def test_replay__other_part_of_a_sensitive_decision_altered__is_found(support: Agent) -> None:
    trace_id = resolved(
        support, {"region": "EU", "customer": {"email": "bob@example.org"}, "vip": True}
    )
    decisions = kept_traces().get(pk=trace_id).decisions
    decisions[2]["parts"][1]["value"] = False
    decisions[2]["parts"][1]["reason"] = "FALSE"

    found = difference(altered(trace_id, decisions=decisions))

    assert (found["field"], found["binding"]) == ("decisions.parts", "Mail")


def test_replay__sensitive_truth_value_altered__contradicts_the_kept_decision(
    support: Agent,
) -> None:
    trace_id = resolved(
        support, {"region": "EU", "customer": {"email": "ada@example.org"}, "vip": False}
    )
    decisions = kept_traces().get(pk=trace_id).decisions
    decisions[2]["parts"][0] = {**decisions[2]["parts"][0], "value": False, "reason": "FALSE"}

    found = difference(altered(trace_id, decisions=decisions))

    assert (found["field"], found["binding"]) == ("decisions.applies", "Mail")


def test_replay__other_decision_than_the_trace_has__is_found(support: Agent) -> None:
    trace_id = retrieve(support, {"region": "EU"})
    decisions = kept_traces().get(pk=trace_id).decisions
    decisions[0]["reason"] = "FALSE"

    found = difference(altered(trace_id, decisions=decisions))

    assert (found["field"], found["binding"]) == ("decisions.reason", "Returns")
    assert (found["expected"], found["found"]) == ("FALSE", "TRUE")


@pytest.mark.parametrize(
    ("member", "value", "field"),
    [
        ("applied", {"topK": {"value": 7, "source": "call"}}, "applied"),
        ("belowThreshold", {"count": 9, "best": 0.1}, "belowThreshold"),
        ("receipt", "sha256:" + "0" * 64, "receipt"),
        ("snapshot", {"number": 1, "digest": "sha256:" + "0" * 64}, "snapshot.digest"),
    ],
)
def test_replay__other_answer_than_the_trace_has__is_found(
    support: Agent, member: str, value: Any, field: str
) -> None:
    trace_id = call(support)
    groups = kept_traces().get(pk=trace_id).groups
    groups[0][member] = value

    assert difference(altered(trace_id, groups=groups))["field"] == field


def test_replay__other_version_of_that_number__is_found(support: Agent) -> None:
    copied = altered(call(support), manifest_digest="sha256:" + "0" * 64)

    assert difference(copied)["field"] == "manifestDigest"


def test_replay__version_of_another_installation__says_so(support: Agent) -> None:
    copied = altered(call(support), agent_slug="elsewhere")

    assert difference(copied)["cause"] == "version.gone"


@pytest.fixture
def purged(support: Agent) -> tuple[uuid.UUID, uuid.UUID]:
    """A call and a retrieval that had passages of a document that was purged since."""
    made = call(support, confidence_threshold=0.0), retrieve(support, {"region": "EU"})
    commit(*purge(DocumentRevision.objects.filter(document__name="returns.md").latest("id").pk))
    return made


def test_replay__purged_document__says_purged(purged: tuple[uuid.UUID, uuid.UUID]) -> None:
    for trace_id in purged:
        replayed = replay(trace_id)

        assert replayed.only_purged
        assert replayed.as_json()["purged"] == {"documents": 1}
        assert "purged" in replayed.as_json()["firstDifference"]["detail"]


def test_replay__purged_and_altered_too__names_what_was_altered(
    purged: tuple[uuid.UUID, uuid.UUID],
) -> None:
    tamper(
        "retrieval_chunk",
        "text = replace(text, 'two years', 'ten years') WHERE text LIKE '%two years%' AND "
        "indexed_document_id IN (SELECT indexed_document_id FROM retrieval_snapshotmember m JOIN "
        "retrieval_indexsnapshot s ON s.id = m.snapshot_id JOIN retrieval_knowledgebase k "
        "ON k.id = s.knowledge_base_id WHERE k.name = 'Returns')",
    )

    assert difference(purged[0])["cause"] == "rows.changed"


def test_replay__of_a_draft__holds_while_draft_and_snapshot_are_as_they_were(
    support: Agent, base: KnowledgeBase
) -> None:
    builders.edit(support, prompt="A revision that is never published.")
    made = [
        call(support, number=None),
        call(support, number=None, top_k=40),
        retrieve(support, {"region": "EU"}, number=None),
        resolved(support, {"region": "EU"}, number=None),
    ]
    update_knowledge_base(
        actor=builders.ACTOR,
        knowledge_base_id=base.pk,
        values={"name": "Renamed", "settings": {"defaultTopK": 1}},
    )
    builders.replace_text(base, Document.objects.get(name="returns.md"), "# Nothing\n\nNothing.")
    builders.build(base)
    same = [replay(one).as_json() for one in made]

    builders.edit(support, prompt="Another.")
    edited = [replay(one) for one in made]

    assert same == [{"identical": True, "partial": None} for _ in made]
    assert [one.identical for one in edited] == [True, True, True, False]
    assert [one.partial for one in edited] == [None, None, "draftChanged", None]
    assert edited[3].difference is not None
    assert edited[3].difference.cause == "draft.changed"


def test_replay__of_a_draft_that_was_published__decides_by_that_version(support: Agent) -> None:
    builders.edit(support, prompt="New.")
    made = resolved(support, {"region": "EU"}, number=None)
    builders.publish(support)
    builders.edit(support, bindings=[])

    assert replay(made).as_json() == {"identical": True, "partial": None}


def test_replay__of_a_draft_whose_snapshot_is_gone__says_so(
    support: Agent, base: KnowledgeBase
) -> None:
    builders.replace_text(base, Document.objects.get(name="returns.md"), "# New\n\nNew.")
    middle = builders.build(base)
    made = call(support, number=None)
    builders.replace_text(base, Document.objects.get(name="returns.md"), "# Newer\n\nNewer.")
    builders.build(base)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM retrieval_buildpiece WHERE snapshot_id = %s", [middle.pk])
        cursor.execute("DELETE FROM retrieval_indexsnapshot WHERE id = %s", [middle.pk])
        cursor.execute("DELETE FROM retrieval_snapshotmember WHERE snapshot_id = %s", [middle.pk])

    found = difference(made)

    assert found["cause"] == "snapshot.gone"
    assert "a draft keeps none" in found["detail"]


def test_replay__group_that_had_failed__is_partial(support: Agent) -> None:
    builders.edit(support, bindings=[{"knowledgeBase": str(builders.make_base("Empty").pk)}])
    made = retrieve(support, {}, number=None)

    assert replay(made).as_json() == {"identical": True, "partial": "failedGroups"}


def test_replay__command__counts_and_fails_where_a_published_version_differs(
    support: Agent, base: KnowledgeBase
) -> None:
    for number in range(3):
        call(support, f"Question {number}?", confidence_threshold=0.0)
    resolved(support, {"region": "EU", "customer": {"email": "x"}})
    builders.edit(support, prompt="A revision that is never published.")
    draft = resolved(support, {}, number=None)
    builders.edit(support, prompt="Another.")
    kept_traces()
    whole, agents_only, sample, broken = StringIO(), StringIO(), StringIO(), StringIO()

    call_command("replay", stdout=whole)
    call_command("replay", "--agent", "support", "--published", "--since", "1h", stdout=agents_only)
    call_command("replay", "--sample", "2", "--published", stdout=sample)
    tamper(
        "retrieval_chunk",
        "text = replace(text, '30 days', '31 days') "
        f"WHERE ordinal = 0 AND indexed_document_id = {_RETURNS}",
    )
    with pytest.raises(SystemExit) as ended:
        call_command("replay", "--published", stdout=broken)

    assert (
        "5 traces replayed: 4 identical (partial: sensitive 1), 0 differ, 1 of drafts differ"
        in whole.getvalue()
    )
    assert f"{draft} resolve of support draft: decisions" in whole.getvalue()
    assert "4 traces replayed: 4 identical" in agents_only.getvalue()
    assert sample.getvalue().startswith("2 traces replayed: 2 identical")
    assert ended.value.code == 1
    assert "3 differ" in broken.getvalue()
    assert "document returns.md, chunk 0, passageDigest: expected sha256:" in broken.getvalue()


@pytest.mark.parametrize(
    "words",
    [["--agent", "nobody"], ["--version", "7"], ["--since", "yesterday"], ["--sample", "0"]],
)
def test_replay__command_that_asks_for_nothing__says_so(support: Agent, words: list[str]) -> None:
    call(support)
    kept_traces()

    with pytest.raises(CommandError):
        call_command("replay", *words)


def test_trace__of_a_call__keeps_pins_the_vectors_reference_and_no_text(
    support: Agent, base: KnowledgeBase
) -> None:
    builders.add_text(base, "tagged.md", "# Secret section\n\nParcels go back.", {"team": "ops"})
    builders.build(base)
    builders.edit(support, prompt="Again.")
    builders.publish(support)
    snapshot = find(base.pk).current_snapshot
    assert snapshot is not None

    trace_id = call(support, number=2, top_k=20, confidence_threshold=0.0)

    trace = kept_traces().get(pk=trace_id)
    (group,) = trace.groups
    assert group["snapshot"] == {"number": snapshot.number, "digest": snapshot.digest}
    assert group["question"]["model"] == snapshot.model.fingerprint
    assert group["question"]["query"] == Question(query=QUERY).digest
    text = json.dumps([trace.groups, trace.decisions])
    for secret in ("Secret section", "30 days", "Parcels", "ops"):
        assert secret not in text
    (tagged,) = [one for one in group["results"] if one["document"]["name"] == "tagged.md"]
    assert {"passageDigest", "sectionDigest", "metadataDigest"} < set(tagged)
    assert isinstance(trace, Trace)
