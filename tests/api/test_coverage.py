"""Sample contexts and the coverage table, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from agents.models import Agent
from registry.models import AuditEvent
from retrieval.models import KnowledgeBase
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written

AGENT = "/api/v1/agents/support"
REGION = {"name": "region", "type": "string", "values": ["EU", "UK", "US"], "required": True}
VIP = {"name": "vip", "type": "boolean"}


@pytest.fixture
def bases(db: None) -> tuple[KnowledgeBase, KnowledgeBase]:
    return builders.base_with("Returns"), builders.base_with("Warranty")


@pytest.fixture
def agent(bases: tuple[KnowledgeBase, KnowledgeBase]) -> Agent:
    """Nothing for the US; “VIP” is shadowed by “EU”; “Never” is accepted though never true."""
    returns, warranty = (str(base.pk) for base in bases)
    agent = builders.make_agent("support")
    builders.edit(
        agent,
        accept_warnings=True,
        contextVariables=[REGION, VIP],
        bindings=[
            {"knowledgeBase": returns, "label": "EU", "expression": "region == 'EU'"},
            {"knowledgeBase": warranty, "label": "UK", "expression": "region == 'UK'"},
            {"knowledgeBase": returns, "label": "VIP", "expression": "region == 'EU' and vip"},
            {"knowledgeBase": warranty, "label": "Never", "expression": "region == 'FR'"},
            {"knowledgeBase": warranty, "label": "Off", "enabled": False},
        ],
        sampleContexts=[
            {"name": "An American", "context": {"region": "US", "name": "Ada"}},
            {"name": "A Briton", "context": {"region": "UK"}},
        ],
    )
    return agent


def _patch(api: CheckedClient, **body: Any) -> Any:
    return api.patch(f"{AGENT}/draft", body, format="json", headers={"If-Match": "*"})


def test_coverage__draft__says_what_applies_where(
    api: CheckedClient, agent: Agent, bases: tuple[KnowledgeBase, KnowledgeBase]
) -> None:
    body = api.get(f"{AGENT}/draft/coverage").json()

    assert (body["agent"], body["version"]) == ("support", "draft")
    assert body["variables"] == [
        {"name": "region", "values": ["EU", "UK", "US"], "leftOut": False},
        {"name": "vip", "values": [True, False], "leftOut": True},
    ]
    assert (body["combinations"], body["tried"], body["complete"]) == (9, 9, True)
    attached = {
        (one["context"]["region"], one["context"].get("vip")): [
            base["name"] for base in one["knowledgeBases"]
        ]
        for one in body["contexts"]
        if one["sample"] is None
    }
    expected = {"EU": ["Returns"], "UK": ["Warranty"], "US": []}
    assert attached == {
        (region, vip): names for region, names in expected.items() for vip in (True, False, None)
    }
    assert [one["applies"] for one in body["bindings"]] == [3, 4, 1, 0, 0]
    assert [one["label"] for one in body["bindings"] if one["neverApplies"]] == ["Never"]
    assert [one["shadowedBy"] for one in body["bindings"]] == [[], [], ["EU"], [], []]
    american = next(one for one in body["contexts"] if one["sample"] == "An American")
    assert american["context"] == {"region": "US", "name": "Ada"}
    assert american["knowledgeBases"] == []
    assert [one["reason"] for one in american["decisions"]] == [
        "FALSE",
        "FALSE",
        "FALSE",
        "FALSE",
        "DISABLED",
    ]
    assert [(one["code"], one["field"]) for one in body["warnings"]] == [
        ("coverage.never_applies", "bindings.3.expression"),
        ("coverage.shadowed", "bindings.2"),
        ("coverage.no_knowledge_base", "bindings"),
    ]
    assert "In 4 of 11 contexts no knowledge base applies" in body["warnings"][2]["message"]


def test_coverage__version__stays_when_the_draft_goes_on(api: CheckedClient, agent: Agent) -> None:
    builders.publish(agent)
    before = api.get(f"{AGENT}/versions/1/coverage").json()
    _patch(api, bindings=[], sampleContexts=[], contextVariables=[])

    assert before["version"] == 1
    assert len(before["contexts"]) == 11
    assert api.get(f"{AGENT}/versions/1/coverage").json() == before
    assert api.get(f"{AGENT}/draft/coverage").json()["warnings"] == []
    assert_problem(api.get(f"{AGENT}/versions/2/coverage"), 404, "version.not_found")


def test_publish__coverage_with_warnings__publishes_and_says_them(
    api: CheckedClient, agent: Agent
) -> None:
    body = api.post(f"{AGENT}/publish", {}, format="json").json()

    assert body["number"] == 1
    codes = [one["code"] for one in body["warnings"]]
    assert codes[-3:] == [
        "coverage.never_applies",
        "coverage.shadowed",
        "coverage.no_knowledge_base",
    ]
    assert "expression.never_true" in codes


def test_publish__draft_that_wants_errors__is_refused_naming_every_warning(
    api: CheckedClient, agent: Agent, bases: tuple[KnowledgeBase, KnowledgeBase]
) -> None:
    _patch(api, coverageErrors=True)

    with nothing_written():
        refused = api.post(f"{AGENT}/publish", {}, format="json")
    _patch(api, bindings=[{"knowledgeBase": str(bases[0].pk)}])
    published = api.post(f"{AGENT}/publish", {}, format="json")

    problem = assert_problem(
        refused, 422, "publish.coverage", field="bindings.3.expression", allowed=None
    )
    assert problem["warnings"] == [
        "coverage.never_applies",
        "coverage.shadowed",
        "coverage.no_knowledge_base",
    ]
    assert published.status_code == 201
    assert published.json()["warnings"] == []


def test_samples__edited__are_in_the_draft_the_audit_log_and_the_next_draft(
    api: CheckedClient, agent: Agent
) -> None:
    samples = [{"name": " A Briton ", "context": {"z": 1, "a": {"b": [1.5, None]}}}]

    answer = _patch(api, sampleContexts=samples)
    builders.publish(agent)

    kept = [{"name": "A Briton", "context": samples[0]["context"]}]
    assert answer.json()["sampleContexts"] == kept
    after = AuditEvent.objects.filter(action="draft.edited").latest("id").after
    assert after is not None
    assert after["sampleContexts"] == kept
    assert api.get(f"{AGENT}/versions/1").json()["sampleContexts"] == kept
    assert api.get(f"{AGENT}/draft").json()["sampleContexts"] == kept


def test_samples__other_ones__give_the_same_digest(api: CheckedClient, agent: Agent) -> None:
    first = builders.publish(agent)
    _patch(api, sampleContexts=[], coverageErrors=True)

    refused = api.post(f"{AGENT}/publish", {}, format="json")
    _patch(api, coverageErrors=False)
    unchanged = api.post(f"{AGENT}/publish", {}, format="json")

    assert_problem(refused, 422, "publish.coverage")
    assert_problem(unchanged, 409, "publish.unchanged")
    assert "An American" not in first.manifest


@pytest.mark.parametrize(
    ("samples", "field"),
    [
        ({}, "sampleContexts"),
        ([7], "sampleContexts.0"),
        ([{"context": {}}], "sampleContexts.0.name"),
        ([{"name": " ", "context": {}}], "sampleContexts.0.name"),
        ([{"name": "x" * 101, "context": {}}], "sampleContexts.0.name"),
        ([{"name": "x"}], "sampleContexts.0.context"),
        ([{"name": "x", "context": []}], "sampleContexts.0.context"),
        ([{"name": "x", "context": {"a": "x" * 65_536}}], "sampleContexts.0.context"),
        ([{"name": "x", "context": {}}] * 2, "sampleContexts.1.name"),
        ([{"name": str(n), "context": {}} for n in range(51)], "sampleContexts"),
    ],
)
def test_samples__wrong__are_refused_by_their_path(
    api: CheckedClient, agent: Agent, samples: Any, field: str
) -> None:
    with nothing_written():
        refused = _patch(api, sampleContexts=samples)

    problem = refused.json()
    assert refused.status_code == 422
    assert problem["errors"][0]["field"] == field
    assert problem["errors"][0]["allowed"] is not None


def test_samples__unknown_member__is_refused(api: CheckedClient, agent: Agent) -> None:
    refused = _patch(api, sampleContexts=[{"name": "x", "context": {}, "expect": []}])

    assert_problem(refused, 422, "request.unknown_field", field="sampleContexts.0.expect")
