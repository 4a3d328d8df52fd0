"""Bodies and queries that cannot be read, or hold what nobody reads: refused by their place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.models import Agent
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written

BASES = "/api/v1/knowledge-bases"


@pytest.fixture
def agent(db: None) -> Agent:
    """An agent with a published version that needs no knowledge base."""
    agent = builders.make_agent("support")
    builders.edit(agent, prompt="Answer.")
    builders.publish(agent)
    return agent


MALFORMED = [
    (b'{"version": 1, "context": {"a": "x\\u0000y"}}', "json.nul", "context.a", "x\x00y"),
    (b'{"version": 1, "context": {"a": NaN}}', "json.not_a_number", "context.a", "NaN"),
    (b'{"version": 1, "context": {"a": [-Infinity]}}', "json.not_a_number", "context.a.0", None),
    (
        b'{"version": 1, "context": {"a": 9007199254740993}}',
        "json.integer_too_large",
        "context.a",
        "9007199254740993",
    ),
    (b'{"version": 1' + b"0" * 5000 + b"}", "json.integer_too_large", "version", None),
    (b'{"version": 1, "context": {"a": 1e999}}', "json.number_too_large", "context.a", "1e999"),
    (b'{"version": 1, "context": {"a": 1, "a": 2}}', "json.duplicate_key", "context", "a"),
    (b'{"version": 1, "context": {"a": "\\ud800"}}', "json.lone_surrogate", "context.a", None),
    (
        b'{"version": 1, "context": ' + b'{"a":' * 40 + b"1" + b"}" * 41,
        "json.too_deep",
        "(body)",
        None,
    ),
    (b'{"version": 1,', "json.syntax", "(body)", '{"version": 1,'),
    (b'{"version": 1, "context": {"a": "\xff"}}', "json.not_utf8", "(body)", None),
    (b'{"version": 1, "context": {"a": "\x00"}}', "json.syntax", "(body)", None),
]


@pytest.mark.parametrize(("content", "code", "field", "value"), MALFORMED)
def test_json__that_could_mean_two_things__is_refused_by_its_place(
    api: CheckedClient, agent: Agent, content: bytes, code: str, field: str, value: Any
) -> None:
    with nothing_written():
        response = api.post(
            "/api/v1/agents/support/resolve", content, content_type="application/json"
        )

    problem = assert_problem(response, 400, code, field=field)
    if value is not None:
        assert problem["errors"][0]["value"] == value


@pytest.mark.parametrize("content", [b"[]", b'"text"', b"7", b"null", b"true"])
@pytest.mark.parametrize(
    "address",
    [
        "/api/v1/agents",
        "/api/v1/knowledge-bases",
        "/api/v1/agents/support/publish",
        "/api/v1/agents/support/resolve",
        "/api/v1/agents/support/retrieve",
        "/api/v1/agents/support/tools/search/call",
    ],
)
def test_body__that_is_no_object__is_refused(
    api: CheckedClient, agent: Agent, content: bytes, address: str
) -> None:
    with nothing_written():
        response = api.post(address, content, content_type="application/json")

    assert_problem(response, 400, "json.not_an_object", field="(body)", allowed="object")


@pytest.mark.parametrize(
    ("address", "body", "unknown"),
    [
        ("/api/v1/agents", {"slug": "a", "nmae": "A"}, "nmae"),
        ("/api/v1/agents", {"slug": "a", "": "A"}, '""'),
        ("/api/v1/knowledge-bases", {"name": "A", "model": "x"}, "model"),
        (
            "/api/v1/knowledge-bases",
            {"name": "A", "settings": {"topK": 5}},
            "settings.topK",
        ),
        ("/api/v1/agents/support/publish", {"note": "x"}, "note"),
        ("/api/v1/agents/support/versions/1/restore", {"x": 1}, "x"),
        ("/api/v1/agents/support/resolve", {"version": 1, "context": {}, "ctx": {}}, "ctx"),
        ("/api/v1/agents/support/retrieve", {"version": 1, "topk": 3}, "topk"),
        ("/api/v1/agents/support/tools/search/call", {"version": 1, "threshold": 0.5}, "threshold"),
    ],
)
def test_body__unknown_member__is_refused(
    api: CheckedClient, agent: Agent, address: str, body: dict[str, Any], unknown: str
) -> None:
    with nothing_written():
        response = api.post(address, body, format="json", HTTP_IF_MATCH="*")

    assert_problem(response, 422, "request.unknown_field", field=unknown)


@pytest.mark.parametrize("limit", ["0", "1001", "ten", "-1", "9" * 5000, "١"])
def test_list__limit_out_of_range__is_refused(api: CheckedClient, limit: str) -> None:
    response = api.get("/api/v1/agents", {"limit": limit})

    assert_problem(response, 422, "invalid", field="limit", allowed={"minimum": 1, "maximum": 1000})


@pytest.mark.parametrize(
    "cursor", ["x", "é", "bnVsbA", "WzEsMl0", "WyJcdTAwMDAiXQ", "W" * 20_000, "WyJhIiwgImIiXQ"]
)
@pytest.mark.parametrize("address", ["/api/v1/traces", "/api/v1/agents"])
def test_list__cursor_of_another_list__is_refused(
    api: CheckedClient, address: str, cursor: str
) -> None:
    response = api.get(address, {"cursor": cursor})

    assert_problem(
        response, 422, "invalid", field="cursor", allowed="a cursor that this list has given"
    )


def test_list__unknown_parameter__is_refused(api: CheckedClient) -> None:
    response = api.get("/api/v1/agents", {"limti": "5"})

    assert_problem(
        response,
        422,
        "request.unknown_field",
        field="limti",
        value="5",
        allowed=["limit", "cursor"],
    )


def test_traces__parameter_with_nul__is_refused(api: CheckedClient) -> None:
    response = api.get("/api/v1/traces?agent=a%00b")

    assert_problem(response, 400, "json.nul", field="agent")


def test_body__valid_json_with_large_but_exact_integers__is_taken(
    api: CheckedClient, agent: Agent
) -> None:
    body = json.dumps({"version": 1, "context": {"n": 2**53}}).encode()

    response = api.post("/api/v1/agents/support/resolve", body, content_type="application/json")

    assert response.status_code == 200
