from __future__ import annotations

from typing import Any

import pytest

from agents.models import Agent
from registry.models import AuditEvent
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written

DRAFT = "/api/v1/agents/support/draft"


@pytest.fixture
def agent(db: None) -> Agent:
    return builders.make_agent("support")


def test_draft__of_a_new_agent__is_empty_at_revision_1(api: CheckedClient, agent: Agent) -> None:
    response = api.get(DRAFT)

    assert response["ETag"] == '"1"'
    assert response.json() == {
        "agent": "support",
        "revision": 1,
        "basedOn": None,
        "prompt": "",
        "model": "",
        "parameters": {},
        "contextVariables": [],
        "bindings": [],
        "tools": [],
        "sampleContexts": [],
        "coverageErrors": False,
        "warnings": [],
    }


def test_put__whole_draft__is_there_as_it_came(api: CheckedClient, agent: Agent) -> None:
    base = builders.make_base("Returns")
    sent = {
        "prompt": "Answer from the passages.",
        "model": "some-model",
        "parameters": {"temperature": 0, "stop": ["x"], "a": {"z": 1, "b": 2}},
        "contextVariables": [
            {"name": "region", "type": "string", "values": ["EU", "UK"], "required": True}
        ],
        "bindings": [
            {"knowledgeBase": str(base.pk), "expression": "region == 'EU'", "label": "EU returns"},
            {"knowledgeBase": str(base.pk)},
        ],
        "tools": [
            builders.rag_tool(base),
            {
                "type": "function",
                "name": "open_ticket",
                "description": "Open a ticket.",
                "parameters": {"type": "object", "properties": {"z": {}, "a": {}}},
            },
        ],
    }

    response = api.put(DRAFT, sent, format="json", HTTP_IF_MATCH='"1"')

    assert (response.status_code, response["ETag"]) == (200, '"2"')
    body = response.json()
    assert body["revision"] == 2
    for name in ("prompt", "model", "parameters", "contextVariables"):
        assert body[name] == sent[name]
    assert list(body["parameters"]["a"]) == ["z", "b"]
    assert list(body["tools"][1]["parameters"]["properties"]) == ["z", "a"]
    first, second = body["bindings"]
    assert (first["expression"], first["label"], first["enabled"]) == (
        "region == 'EU'",
        "EU returns",
        True,
    )
    assert (second["expression"], second["label"], second["enabled"]) == (None, "Returns", True)
    assert body["tools"][0]["knowledgeBase"] == str(base.pk)
    assert api.get(DRAFT).json() == body


def test_put__what_came_back__changes_nothing(api: CheckedClient, agent: Agent) -> None:
    base = builders.make_base()
    builders.edit(
        agent, bindings=[{"knowledgeBase": str(base.pk)}], tools=[builders.rag_tool(base)]
    )
    body = api.get(DRAFT).json()
    audited = AuditEvent.objects.count()

    response = api.put(DRAFT, body, format="json", HTTP_IF_MATCH='"2"')

    assert response.json() == body
    assert AuditEvent.objects.count() == audited


def test_put__without_a_member__empties_it(api: CheckedClient, agent: Agent) -> None:
    builders.edit(agent, prompt="Answer.", model="some-model")

    body = api.put(DRAFT, {"prompt": "New."}, format="json", HTTP_IF_MATCH="*").json()

    assert (body["prompt"], body["model"]) == ("New.", "")


def test_patch__one_member__keeps_the_others(api: CheckedClient, agent: Agent) -> None:
    builders.edit(agent, prompt="Answer.", model="some-model")

    body = api.patch(DRAFT, {"prompt": "New."}, format="json", HTTP_IF_MATCH='"2"').json()

    assert (body["prompt"], body["model"], body["revision"]) == ("New.", "some-model", 3)


def test_patch__array_with_a_known_id__keeps_that_id(api: CheckedClient, agent: Agent) -> None:
    base = builders.make_base()
    builders.edit(agent, bindings=[{"knowledgeBase": str(base.pk), "label": "A"}])
    binding = api.get(DRAFT).json()["bindings"][0]

    body = api.patch(
        DRAFT,
        {"bindings": [{"knowledgeBase": str(base.pk)}, {**binding, "label": "B"}]},
        format="json",
        HTTP_IF_MATCH="*",
    ).json()

    assert [item["label"] for item in body["bindings"]] == [base.name, "B"]
    assert body["bindings"][1]["id"] == binding["id"] != body["bindings"][0]["id"]


@pytest.mark.parametrize("method", ["put", "patch"])
def test_edit__without_if_match__is_refused_with_428(
    api: CheckedClient, agent: Agent, method: str
) -> None:
    with nothing_written():
        response = getattr(api, method)(DRAFT, {"prompt": "x"}, format="json")

    assert assert_problem(response, 428, "draft.revision_required")["revision"] == 1
    assert api.get(DRAFT).json()["revision"] == 1


@pytest.mark.parametrize("method", ["put", "patch"])
def test_edit__from_a_stale_revision__is_refused_with_412(
    api: CheckedClient, agent: Agent, method: str
) -> None:
    builders.edit(agent, prompt="Newer.")

    with nothing_written():
        response = getattr(api, method)(DRAFT, {"prompt": "x"}, format="json", HTTP_IF_MATCH='"1"')

    problem = assert_problem(
        response, 412, "draft.stale_revision", field="If-Match", value="1", allowed=["2", "*"]
    )
    assert problem["revision"] == 2
    assert api.get(DRAFT).json()["prompt"] == "Newer."


@pytest.mark.parametrize("header", ["1", 'W/"1"', '"1", "2"', "", '"1'])
def test_edit__if_match_of_another_form__is_refused_with_400(
    api: CheckedClient, agent: Agent, header: str
) -> None:
    with nothing_written():
        response = api.patch(DRAFT, {"prompt": "x"}, format="json", HTTP_IF_MATCH=header)

    assert_problem(
        response,
        400,
        "request.if_match",
        field="If-Match",
        value=header,
        allowed=['"<revision>"', "*"],
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": 7}, "prompt"),
        ({"parameters": []}, "parameters"),
        ({"bindings": {}}, "bindings"),
        ({"bindings": [7]}, "bindings.0"),
        ({"bindings": [{"knowledgeBase": "x"}]}, "bindings.0.knowledgeBase"),
        ({"tools": [{"type": "magic", "name": "a"}]}, "tools.0.type"),
        ({"tools": [{"type": "function", "name": "1a", "parameters": {}}]}, "tools.0.name"),
        ({"tools": [{"type": "function", "name": "a"}]}, "tools.0.parameters"),
    ],
)
def test_edit__wrong_member__is_refused_by_its_path(
    api: CheckedClient, agent: Agent, change: dict[str, Any], field: str
) -> None:
    with nothing_written():
        response = api.patch(DRAFT, change, format="json", HTTP_IF_MATCH="*")

    assert_problem(response, 422, response.json()["code"], field=field)
    assert api.get(DRAFT).json()["revision"] == 1


def test_edit__several_wrong_expressions__names_them_all(api: CheckedClient, agent: Agent) -> None:
    base = builders.make_base()
    bindings = [
        {"knowledgeBase": str(base.pk), "expression": expression}
        for expression in ("a ==", "a == 1", "open('x')")
    ]

    response = api.patch(DRAFT, {"bindings": bindings}, format="json", HTTP_IF_MATCH="*")

    assert response.status_code == 422
    assert [error["field"] for error in response.json()["errors"]] == [
        "bindings.0.expression",
        "bindings.2.expression",
    ]
