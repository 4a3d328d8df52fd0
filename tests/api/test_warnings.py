"""Expressions that are valid and hardly meant: refused until somebody says that they are."""

from __future__ import annotations

from typing import Any

import pytest

from agents.drafting import draft_of
from agents.models import Agent
from registry.models import AuditEvent
from retrieval.models import KnowledgeBase
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written

DRAFT = "/api/v1/agents/support/draft"
REGION = {"name": "region", "type": "string", "values": ["EU", "UK"], "required": True}


@pytest.fixture
def base(db: None) -> KnowledgeBase:
    return builders.make_base("Returns")


@pytest.fixture
def agent(db: None) -> Agent:
    return builders.make_agent("support")


def _patch(api: CheckedClient, **body: Any) -> Any:
    return api.patch(DRAFT, body, format="json", headers={"If-Match": "*"})


def _binding(base: KnowledgeBase, expression: str) -> list[dict[str, Any]]:
    return [{"knowledgeBase": str(base.pk), "expression": expression}]


@pytest.mark.parametrize(
    ("expression", "codes", "allowed"),
    [
        (
            "region == 'FR'",
            ["expression.value_never_allowed", "expression.never_true"],
            ["EU", "UK"],
        ),
        ("region in ['EU', 'UK']", ["expression.always_true"], None),
        ("region in ('EU')", ["expression.text_not_list"], None),
        ("region == 5", ["expression.unlike_types", "expression.never_true"], None),
    ],
)
def test_edit__expression_that_is_hardly_meant__is_refused_until_it_is_accepted(
    api: CheckedClient,
    agent: Agent,
    base: KnowledgeBase,
    expression: str,
    codes: list[str],
    allowed: list[str] | None,
) -> None:
    body = {"contextVariables": [REGION], "bindings": _binding(base, expression)}

    with nothing_written():
        refused = _patch(api, **body)
    accepted = _patch(api, **body, acceptWarnings=True)

    problem = assert_problem(
        refused,
        422,
        "draft.warnings_not_accepted",
        field="bindings.0.expression",
        value=expression,
        allowed=allowed,
    )
    assert set(codes) <= set(problem["warnings"])
    assert accepted.status_code == 200
    said = accepted.json()["warnings"]
    assert set(codes) <= {one["code"] for one in said}
    assert {one["field"] for one in said} == {"bindings.0.expression"}
    after = AuditEvent.objects.latest("id").after
    assert after is not None
    assert after["acceptedWarnings"] == [one["message"] for one in said]


def test_edit__value_outside_the_declaration__says_what_is_allowed(
    api: CheckedClient, agent: Agent, base: KnowledgeBase
) -> None:
    refused = _patch(api, contextVariables=[REGION], bindings=_binding(base, "region != 'EUR'"))

    problem = assert_problem(refused, 422, "draft.warnings_not_accepted")
    error = problem["errors"][0]
    assert error["message"] == "`region` is never `EUR`; allowed: EU, UK."
    assert error["message"] in problem["detail"]
    assert error["allowed"] == ["EU", "UK"]


def test_edit__misspelt_name__is_refused_with_what_may_be_meant_whatever_is_accepted(
    api: CheckedClient, agent: Agent, base: KnowledgeBase
) -> None:
    refused = _patch(
        api,
        contextVariables=[REGION],
        bindings=_binding(base, "regoin == 'EU'"),
        acceptWarnings=True,
    )

    problem = assert_problem(
        refused, 422, "expression.unknown_name", field="bindings.0.expression", allowed=["region"]
    )
    assert "`regoin` is not declared; did you mean `region`?" in problem["errors"][0]["message"]


def test_edit__accepted_before__is_not_asked_again_until_it_changes(
    api: CheckedClient, agent: Agent, base: KnowledgeBase
) -> None:
    _patch(
        api,
        contextVariables=[REGION],
        bindings=_binding(base, "region == 'FR'"),
        acceptWarnings=True,
    )

    elsewhere = _patch(api, prompt="Answer.", bindings=_binding(base, "region == 'FR'"))
    changed = _patch(api, bindings=_binding(base, "region == 'DE'"))
    redeclared = _patch(api, contextVariables=[{**REGION, "values": ["EU"]}])

    assert elsewhere.status_code == 200
    assert "acceptedWarnings" not in (AuditEvent.objects.latest("id").after or {})
    assert_problem(changed, 422, "draft.warnings_not_accepted")
    assert_problem(redeclared, 422, "draft.warnings_not_accepted")


def test_edit__nothing_declared__allows_everything_with_a_note(
    api: CheckedClient, agent: Agent, base: KnowledgeBase
) -> None:
    answer = _patch(api, bindings=_binding(base, "regoin == 'EU' and regoin == 'UK'"))

    assert answer.status_code == 200
    notes = {one["code"]: one for one in answer.json()["warnings"]}
    assert notes["expression.not_checked"]["field"] == "contextVariables"
    assert notes["expression.never_true"]["isNote"] is True


def test_edit__accept_warnings_of_another_type__is_refused(
    api: CheckedClient, agent: Agent
) -> None:
    with nothing_written():
        refused = _patch(api, prompt="x", acceptWarnings="yes")

    assert_problem(refused, 422, "invalid", field="acceptWarnings", value="yes")
    assert draft_of(agent).prompt == ""


def test_put__answer_of_the_draft__may_come_back_with_its_warnings(
    api: CheckedClient, agent: Agent, base: KnowledgeBase
) -> None:
    _patch(api, bindings=_binding(base, "region == 'EU'"))
    draft = api.get(DRAFT).json()

    again = api.put(DRAFT, draft, format="json", headers={"If-Match": "*"})

    assert again.json() == draft
