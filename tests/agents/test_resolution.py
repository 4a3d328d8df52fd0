from __future__ import annotations

import json

import pytest

from agents.answers import resolve
from agents.models import Agent, AgentVersion
from agents.tool_formats import tool_definitions
from agents.tools import call_tool, retrieve_attached
from agents.versions import choose_version, runnable
from registry.errors import Forbidden, Invalid, NotFound
from retrieval.models import KnowledgeBase
from retrieval.questions import Question
from tests import builders
from tests.builders import ACCESS
from tests.traces import kept_traces

pytestmark = pytest.mark.django_db
_REGION = [{"name": "region", "type": "string", "values": ["EU", "UK"], "required": True}]


@pytest.fixture
def bases() -> tuple[KnowledgeBase, KnowledgeBase]:
    eu = builders.base_with("Returns EU", returns_md=builders.RETURNS)
    uk = builders.base_with("Warranty UK", warranty_md=builders.WARRANTY)
    return eu, uk


@pytest.fixture
def support(bases: tuple[KnowledgeBase, KnowledgeBase]) -> tuple[Agent, AgentVersion]:
    eu, uk = bases
    agent = builders.make_agent("support")
    builders.edit(
        agent,
        prompt="Help.",
        model="some-model",
        parameters={"temperature": 0},
        contextVariables=_REGION,
        bindings=[
            {"knowledgeBase": str(eu.pk), "expression": 'region == "EU"', "instruction": "Returns"},
            {"knowledgeBase": str(uk.pk), "expression": 'region == "UK"'},
            {"knowledgeBase": str(uk.pk), "label": "Always"},
            {"knowledgeBase": str(eu.pk), "label": "Off", "enabled": False},
        ],
        tools=[
            builders.rag_tool(eu, "search_eu"),
            {
                "type": "function",
                "name": "open_ticket",
                "description": "Opens a ticket.",
                "parameters": {"type": "object", "properties": {"z": {}, "a": {}}},
            },
        ],
    )
    return agent, builders.publish(agent)


def test_resolve__of_a_context__says_for_each_binding_whether_and_why(
    support: tuple[Agent, AgentVersion],
) -> None:
    agent, version = support

    answer = resolve(version=runnable(agent, version), context={"region": "EU"}, access=ACCESS)

    decisions = [(b["label"], b["applies"], b["reason"]) for b in answer["bindings"]]
    assert decisions == [
        ("Returns EU", True, "TRUE"),
        ("Warranty UK", False, "FALSE"),
        ("Always", True, "NO_EXPRESSION"),
        ("Off", False, "DISABLED"),
    ]
    assert [base["name"] for base in answer["knowledgeBases"]] == ["Returns EU", "Warranty UK"]
    assert answer["prompt"] == "Help."
    assert json.dumps(answer["tools"][1]["parameters"]["properties"]) == '{"z": {}, "a": {}}'
    assert answer["contextProblems"] == []
    assert answer["version"] == 1


def test_resolve__with_a_missing_required_variable__is_an_answer_with_problems(
    support: tuple[Agent, AgentVersion],
) -> None:
    agent, version = support

    answer = resolve(version=runnable(agent, version), context={}, access=ACCESS)

    assert answer["bindings"][0]["reason"] == "MISSING_VARIABLE"
    assert answer["contextProblems"][0]["variable"] == "region"


def test_resolve__with_an_etag_that_holds__is_unchanged_and_leaves_no_trace(
    support: tuple[Agent, AgentVersion],
) -> None:
    agent, version = support
    ready = runnable(agent, version)
    etag = resolve(version=ready, context={"region": "EU"}, access=ACCESS)["etag"]
    traces = kept_traces().count()

    again = resolve(version=ready, context={"region": "EU"}, access=ACCESS, known=etag)
    other = resolve(version=ready, context={"region": "UK"}, access=ACCESS, known=etag)

    assert again == {"unchanged": True, "etag": etag}
    assert other["etag"] != etag
    assert kept_traces().count() == traces + 1


def test_resolve__trace__keeps_the_variables_read_and_not_the_whole_context(
    support: tuple[Agent, AgentVersion],
) -> None:
    agent, version = support
    context = {"region": "EU", "name": "Ada Lovelace"}

    answer = resolve(version=runnable(agent, version), context=context, access=ACCESS)

    trace = kept_traces().get(pk=answer["traceId"])
    assert trace.arguments == {"context": {"region": "EU"}}
    assert "Lovelace" not in json.dumps([trace.arguments, trace.decisions, trace.groups])


def test_resolve__sensitive_variable__is_kept_as_an_hmac_only() -> None:
    base = builders.base_with()
    agent = builders.make_agent()
    builders.edit(
        agent,
        contextVariables=[{"name": "customer.email", "type": "string", "sensitive": True}],
        bindings=[
            {"knowledgeBase": str(base.pk), "expression": 'customer.email == "ada@example.org"'}
        ],
    )
    version = builders.publish(agent)
    context = {"customer": {"email": "ada@example.org"}}

    answer = resolve(version=runnable(agent, version), context=context, access=ACCESS)

    trace = kept_traces().get(pk=answer["traceId"])
    assert answer["bindings"][0]["applies"]
    assert "ada@example.org" not in json.dumps(trace.arguments)
    assert set(trace.arguments["context"]["customer"]["email"]) == {"hmac"}
    assert context == {"customer": {"email": "ada@example.org"}}


def test_call__of_a_rag_tool__searches_its_one_base_whatever_the_context(
    support: tuple[Agent, AgentVersion], bases: tuple[KnowledgeBase, KnowledgeBase]
) -> None:
    agent, version = support

    answer = call_tool(
        version=runnable(agent, version),
        name="search_eu",
        question=Question(query="Who pays the postage?"),
        access=ACCESS,
        context={"region": "UK", "secret": "x"},
        conversation_id="c-1",
    )

    trace = kept_traces().get(pk=answer["traceId"])
    assert answer["knowledgeBase"] == {"id": str(bases[0].pk), "name": "Returns EU"}
    assert answer["results"]
    assert trace.receipt == answer["receipt"]
    assert trace.conversation_id == "c-1"
    assert trace.arguments["context"] == {"region": "UK"}
    assert trace.groups[0]["results"][0]["chunk"] == answer["results"][0]["chunk"]


def test_call__of_an_unknown_tool_or_a_function__is_refused(
    support: tuple[Agent, AgentVersion],
) -> None:
    ready = runnable(*support)
    question = Question(query="x")

    with pytest.raises(NotFound):
        call_tool(version=ready, name="nope", question=question, access=ACCESS)
    with pytest.raises(Invalid) as refused:
        call_tool(version=ready, name="open_ticket", question=question, access=ACCESS)

    assert refused.value.code == "tool.not_callable"
    assert refused.value.errors[0].allowed == ["search_eu"]


def test_retrieve__of_what_applies__is_grouped_with_a_receipt_each(
    support: tuple[Agent, AgentVersion],
) -> None:
    answer = retrieve_attached(
        version=runnable(*support),
        context={"region": "EU"},
        question=Question(query="How long is the lamp covered?"),
        access=ACCESS,
    )

    assert [g["knowledgeBase"]["name"] for g in answer["groups"]] == ["Returns EU", "Warranty UK"]
    assert all(group["receipt"].startswith("sha256:") for group in answer["groups"])
    assert answer["receipt"].startswith("sha256:")


def test_version__named_twice_or_not_at_all__is_refused(
    support: tuple[Agent, AgentVersion],
) -> None:
    agent, _ = support

    for body in ({}, {"version": 1, "alias": "production"}):
        with pytest.raises(Invalid) as refused:
            choose_version(agent, body, ACCESS)
        assert refused.value.code == "version.ambiguous"


def test_version__draft_for_a_runtime_key__is_forbidden(
    support: tuple[Agent, AgentVersion],
) -> None:
    from registry.access import Access

    runtime = Access(actor=builders.ACTOR, scope="runtime")

    with pytest.raises(Forbidden):
        choose_version(support[0], {"version": "draft"}, runtime)


@pytest.mark.parametrize(
    ("form", "schema"),
    [("openai", "parameters"), ("anthropic", "input_schema"), ("mcp", "inputSchema")],
)
def test_tools__as_a_format__tell_the_model_how_confidences_read(
    support: tuple[Agent, AgentVersion], form: str, schema: str
) -> None:
    rag, function = tool_definitions(runnable(*support), form)

    if form == "openai":
        rag, function = rag["function"], function["function"]
    assert "0.82" in rag["description"]
    assert "negation" in rag["description"]
    assert rag[schema]["properties"]["topK"]["maximum"] == 50
    assert json.dumps(function[schema]["properties"]) == '{"z": {}, "a": {}}'
