"""Answers are written from pieces and kept: what is written is what was decided, for each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents import answers
from agents.answers import resolve, resolve_as_json
from agents.models import Agent, AgentVersion
from agents.resolution import decide
from agents.tool_formats import FORMATS, tool_definitions
from agents.versions import runnable
from registry.errors import Invalid
from tests import builders
from tests.builders import ACCESS
from tests.traces import kept_traces

pytestmark = pytest.mark.django_db

CONTEXTS: list[dict[str, Any]] = [
    {"region": "EU", "age": 20},
    {"age": 20, "region": "EU"},
    {"region": "EU", "age": 20, "more": "é"},
    {"region": "EU", "age": 7},
    {"region": "EU", "age": "7"},
    {"region": "EU"},
    {"region": "CH", "age": 20},
    {"age": 20},
    {},
]


@pytest.fixture
def support() -> tuple[Agent, AgentVersion]:
    one, two = builders.base_with('Ré"turns'), builders.base_with("Warranty")
    agent = builders.make_agent()
    builders.edit(
        agent,
        prompt='Say "hé".\n',
        parameters={"z": 1.0, "a": 1e-7},
        contextVariables=[
            {"name": "region", "type": "string", "values": ["EU", "UK"], "required": True},
            {"name": "age", "type": "number"},
        ],
        bindings=[
            {"knowledgeBase": str(one.pk), "expression": "region == 'EU' and age > 18"},
            {"knowledgeBase": str(one.pk), "expression": "age > 5", "instruction": "Sécond"},
            {"knowledgeBase": str(two.pk), "label": "Always"},
            {"knowledgeBase": str(two.pk), "label": "Off", "enabled": False},
        ],
        tools=[
            builders.rag_tool(one),
            {
                "type": "function",
                "name": "open_ticket",
                "description": "Opens one.",
                "parameters": {"type": "object", "properties": {"z": {}, "a": {}}},
            },
        ],
    )
    return agent, builders.publish(agent)


@pytest.mark.parametrize("state", ["draft", "published"])
def test_resolve__every_context__is_written_as_it_was_decided(
    support: tuple[Agent, AgentVersion], state: str
) -> None:
    agent, _ = support
    version = runnable(agent, agent.versions.get(state=state))

    for context in [*CONTEXTS, *CONTEXTS]:
        answer = resolve(version=version, context=context, access=ACCESS, trace=False)

        decisions = decide(version, context)
        assert answer["bindings"] == [decision.as_json(version) for decision in decisions]
        applies = [decision.applies for decision in decisions]
        first = "Sécond" if applies == [False, True, True, False] else ""
        attached = [base["instruction"] for base in answer["knowledgeBases"]]
        assert attached == ([first, ""] if any(applies[:2]) else [""])
        assert answer["parameters"] == {"z": 1.0, "a": 1e-7}
        assert answer["traceId"] is None


def test_etag__of_every_answer__is_equal_exactly_where_the_answer_is(
    support: tuple[Agent, AgentVersion],
) -> None:
    agent, first = support
    builders.edit(agent, prompt="Other.")
    versions = [first, builders.publish(agent), agent.versions.get(state="draft")]
    seen: dict[str, str] = {}

    for version in versions:
        for form in (None, *FORMATS):
            for context in CONTEXTS:
                answer = resolve(
                    version=runnable(agent, version),
                    context=context,
                    access=ACCESS,
                    trace=False,
                    form=form,
                )
                etag = answer.pop("etag")
                assert seen.setdefault(json.dumps(answer), etag) == etag

    assert len(set(seen.values())) == len(seen)
    # Contexts that differ in nothing that matters have the same answer.
    assert len(seen) == len(versions) * 4 * 7


def test_etag__of_decisions_that_are_alike_and_other_context_problems__differs() -> None:
    base = builders.base_with()
    agent = builders.make_agent()
    builders.edit(
        agent,
        contextVariables=[
            {"name": "tier", "type": "string", "values": ["gold"], "required": True},
        ],
        bindings=[{"knowledgeBase": str(base.pk)}],
    )
    version = runnable(agent, builders.publish(agent))

    fine, missing = (
        resolve(version=version, context=context, access=ACCESS, trace=False)
        for context in ({"tier": "gold"}, {})
    )

    assert fine["bindings"] == missing["bindings"]
    assert not fine["contextProblems"]
    assert missing["contextProblems"]
    assert fine["etag"] != missing["etag"]


def test_resolve__known_etag_of_another_format__is_answered(
    support: tuple[Agent, AgentVersion],
) -> None:
    version = runnable(*support)
    plain = resolve(version=version, context={}, access=ACCESS, trace=False)

    same = resolve(version=version, context={}, access=ACCESS, known=plain["etag"])
    other = resolve(
        version=version, context={}, access=ACCESS, known=plain["etag"], form="mcp", trace=False
    )

    assert same == {"unchanged": True, "etag": plain["etag"]}
    assert other["tools"] == tool_definitions(version, "mcp")
    assert kept_traces().count() == 0


def test_resolve__unknown_format__is_refused(support: tuple[Agent, AgentVersion]) -> None:
    with pytest.raises(Invalid):
        resolve(version=runnable(*support), context={}, access=ACCESS, form="magic")


def test_resolve__kept_answer__leaves_a_trace_of_each_request(
    support: tuple[Agent, AgentVersion],
) -> None:
    version, context = runnable(*support), {"region": "EU", "age": 20, "name": "Ada"}

    ids = [resolve(version=version, context=context, access=ACCESS)["traceId"] for _ in range(2)]

    traces = kept_traces()
    assert {str(trace.pk) for trace in traces} == set(ids)
    for trace in traces:
        assert trace.arguments == {"context": {"region": "EU", "age": 20}}
        assert [one["reason"] for one in trace.decisions] == [
            "TRUE",
            "TRUE",
            "NO_EXPRESSION",
            "DISABLED",
        ]
        assert all("instruction" not in one for one in trace.decisions)


def test_kept_answers__more_than_fit__give_up_those_used_longest_ago(
    support: tuple[Agent, AgentVersion],
) -> None:
    version = runnable(*support)
    small = answers._Recent(30_000)
    made = {
        n: answers._answer(version, {"region": "EU", "age": n, "text": "x" * 1000}, None)
        for n in range(20)
    }

    for n, answer in made.items():
        small.put(str(n).encode(), answer, answer.size)
        assert small.get(str(n).encode()) is None
        small.put(str(n).encode(), answer, answer.size)
        assert small.get(b"0") is not None

    kept = [n for n in made if small.get(str(n).encode()) is not None]
    assert 0 in kept
    assert 19 in kept
    assert 1 not in kept
    assert 2 < len(kept) < 15


def test_resolve__of_a_context_that_was_kept__is_the_same_bytes(
    support: tuple[Agent, AgentVersion],
) -> None:
    def ask() -> bytes:
        return resolve_as_json(
            version=runnable(*support),
            context={"region": "EU", "age": 1},
            access=ACCESS,
            known=None,
            trace=False,
            conversation_id="",
            form=None,
        )

    assert ask() == ask()
