"""Every kind of bad input: a problem that names field, value and what is allowed; no row written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile

from agents.models import Agent
from retrieval.models import KnowledgeBase
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written

BASES = "/api/v1/knowledge-bases"


@pytest.fixture
def base(db: None) -> KnowledgeBase:
    """A knowledge base that nobody has built: what is refused is refused before."""
    base = builders.make_base()
    builders.add_text(base, "returns.md", builders.RETURNS)
    return base


@pytest.fixture
def agent(db: None) -> Agent:
    """An agent with a published version that needs no knowledge base."""
    agent = builders.make_agent("support")
    builders.edit(agent, prompt="Answer.")
    builders.publish(agent)
    return agent


def _documents(base: KnowledgeBase) -> str:
    return f"{BASES}/{base.pk}/documents"


def _upload(api: CheckedClient, base: KnowledgeBase, name: str, content: bytes) -> Any:
    return api.post(_documents(base), {"file": SimpleUploadedFile(name, content)})


def _call(api: CheckedClient, agent: Agent, **body: Any) -> Any:
    body = {"version": 1, "query": "How long is the warranty?", **body}
    return api.post(f"/api/v1/agents/{agent.slug}/tools/search/call", body, format="json")


def _resolve(api: CheckedClient, agent: Agent, **body: Any) -> Any:
    return api.post(f"/api/v1/agents/{agent.slug}/resolve", body, format="json")


def test_upload__empty_file__is_refused(api: CheckedClient, base: KnowledgeBase) -> None:
    with nothing_written():
        response = _upload(api, base, "empty.md", b"")

    assert_problem(
        response,
        422,
        "document.empty",
        field="file",
        value="empty.md",
        allowed="at least one byte",
    )


def test_upload__empty_text__is_refused(api: CheckedClient, base: KnowledgeBase) -> None:
    with nothing_written():
        response = api.post(_documents(base), {"name": "empty", "text": ""}, format="json")

    assert_problem(response, 422, "document.empty", field="file", value="empty")


def test_upload__body_of_0_bytes__is_refused(api: CheckedClient, base: KnowledgeBase) -> None:
    with nothing_written():
        response = api.post(_documents(base), b"", content_type="application/json")

    assert_problem(response, 422, "request.required", field="name", value=None)


def test_upload__unsupported_type__names_the_supported_ones(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    png = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
    with nothing_written():
        response = _upload(api, base, "picture.png", png)

    problem = assert_problem(
        response, 415, "document.unsupported_type", field="file", value="picture.png"
    )
    assert {"pdf", "docx", "md", "html"} <= set(problem["errors"][0]["allowed"])


def test_upload__file_over_the_limit__is_refused(
    api: CheckedClient, base: KnowledgeBase, settings: Any
) -> None:
    settings.MAX_UPLOAD_BYTES = 1000
    with nothing_written():
        response = _upload(api, base, "long.md", b"x" * 1001)

    problem = assert_problem(
        response,
        413,
        "document.too_large",
        field="file",
        value=1001,
        allowed={"maximum": 1000},
    )
    assert problem["limit"] == 1000


def test_upload__announced_length_over_the_limit__is_refused_unread(
    api: CheckedClient, base: KnowledgeBase, settings: Any
) -> None:
    settings.MAX_UPLOAD_BYTES = 1000
    with nothing_written():
        response = _upload(api, base, "long.md", b"x" * (2 * 1024 * 1024))

    assert_problem(response, 413, "document.too_large", field="file", allowed={"maximum": 1000})


def test_upload__text_over_the_limit__is_refused(
    api: CheckedClient, base: KnowledgeBase, settings: Any
) -> None:
    settings.MAX_UPLOAD_BYTES = 1000
    with nothing_written():
        response = api.post(_documents(base), {"name": "a", "text": "x" * 1001}, format="json")

    assert_problem(response, 413, "document.too_large", field="file", value=1001)


def test_json__body_over_its_limit__is_refused(
    api: CheckedClient, base: KnowledgeBase, settings: Any
) -> None:
    settings.MAX_JSON_BYTES = 1000
    with nothing_written():
        response = api.post(_documents(base), {"name": "a", "text": "x" * 1001}, format="json")

    assert assert_problem(response, 413, "request.too_large")["limit"] == 1000


@pytest.mark.parametrize("name", ["broken.docx", "broken.pdf", "broken.xlsx"])
def test_upload__container_that_cannot_be_opened__is_refused(
    api: CheckedClient, base: KnowledgeBase, name: str
) -> None:
    with nothing_written():
        response = _upload(api, base, name, b"PK\x03\x04" + bytes(range(200)))

    assert_problem(response, 422, "document.unreadable", field="file", value=name)


def test_upload__name_taken_by_other_bytes__is_refused(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    with nothing_written():
        response = _upload(api, base, "returns.md", b"Something else.")

    problem = assert_problem(response, 409, "document.name_taken", field="name", value="returns.md")
    listed = {item["name"]: item["id"] for item in api.get(_documents(base)).json()["results"]}
    assert problem["document"] == listed["returns.md"]


def test_document__renamed_to_a_taken_name__is_refused(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    document = builders.add_text(base, "other.md", "Other.")
    with nothing_written():
        response = api.patch(
            f"{_documents(base)}/{document.pk}", {"name": "returns.md"}, format="json"
        )

    assert_problem(response, 409, "document.name_taken", field="name", value="returns.md")
    assert api.get(f"{_documents(base)}/{document.pk}").json()["name"] == "other.md"


@pytest.mark.parametrize(
    "metadata",
    ["[1]", '"text"', "7"],
)
def test_upload__metadata_that_is_no_object__is_refused(
    api: CheckedClient, base: KnowledgeBase, metadata: str
) -> None:
    with nothing_written():
        response = api.post(
            _documents(base),
            {"file": SimpleUploadedFile("new.md", b"New."), "metadata": metadata},
        )

    assert_problem(response, 422, "invalid", field="metadata", allowed="object")


def test_upload__metadata_part_with_nan__is_refused_by_its_path(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    with nothing_written():
        response = api.post(
            _documents(base),
            {"file": SimpleUploadedFile("new.md", b"New."), "metadata": '{"weight": NaN}'},
        )

    assert_problem(response, 400, "json.not_a_number", field="metadata.weight", value="NaN")


def test_upload__without_a_file__is_refused(api: CheckedClient, base: KnowledgeBase) -> None:
    with nothing_written():
        response = api.post(_documents(base), {"name": "new.md"}, format="multipart")

    assert_problem(response, 422, "file.required", field="file", value=None)


def test_upload__unknown_part__is_refused(api: CheckedClient, base: KnowledgeBase) -> None:
    with nothing_written():
        response = api.post(
            _documents(base), {"file": SimpleUploadedFile("new.md", b"New."), "nmae": "x"}
        )

    assert_problem(
        response,
        422,
        "request.unknown_field",
        field="nmae",
        value="x",
        allowed=["file", "name", "metadata"],
    )


def test_upload__two_files__are_refused(api: CheckedClient, base: KnowledgeBase) -> None:
    files = [SimpleUploadedFile("a.md", b"A."), SimpleUploadedFile("b.md", b"B.")]
    with nothing_written():
        response = api.post(_documents(base), {"file": files})

    assert_problem(response, 422, "invalid", field="file", value=2)


@pytest.mark.parametrize("name", ["   ", "a\nb.md", "x" * 501])
def test_upload__name_that_cannot_be_one__is_refused(
    api: CheckedClient, base: KnowledgeBase, name: str
) -> None:
    with nothing_written():
        response = api.post(
            _documents(base), {"file": SimpleUploadedFile("new.md", b"New."), "name": name}
        )

    assert_problem(response, 422, "invalid", field="name")


@pytest.mark.parametrize(
    "address",
    ["6e7c6f4e-6a4e-4d0e-9a53-0d0f0a4f6c55", "not-a-uuid", "a%00b"],
)
def test_knowledge_base__that_is_not_there__is_not_found(api: CheckedClient, address: str) -> None:
    for below in ("", "/documents", "/snapshots", "/snapshots/1"):
        response = api.get(f"{BASES}/{address}{below}")

        assert_problem(response, 404, "knowledge_base.not_found")


def test_binding__to_an_unknown_knowledge_base__is_refused(
    api: CheckedClient, agent: Agent
) -> None:
    unknown = "6e7c6f4e-6a4e-4d0e-9a53-0d0f0a4f6c55"
    with nothing_written():
        response = api.patch(
            "/api/v1/agents/support/draft",
            {"bindings": [{"knowledgeBase": unknown}]},
            format="json",
            HTTP_IF_MATCH="*",
        )

    assert_problem(
        response,
        422,
        "knowledge_base.unknown",
        field="bindings.0.knowledgeBase",
        value=unknown,
        allowed="the id of a knowledge base",
    )


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("region ==", "expression.syntax"),
        ("regoin == 'EU'", "expression.unknown_name"),
        ("   ", "expression.blank"),
    ],
)
def test_binding__wrong_expression__is_refused(
    api: CheckedClient, agent: Agent, base: KnowledgeBase, expression: str, code: str
) -> None:
    with nothing_written():
        response = api.patch(
            "/api/v1/agents/support/draft",
            {
                "contextVariables": [{"name": "region", "type": "string"}],
                "bindings": [{"knowledgeBase": str(base.pk), "expression": expression}],
            },
            format="json",
            HTTP_IF_MATCH="*",
        )

    assert_problem(response, 422, code, field="bindings.0.expression", value=expression)
    if code == "expression.unknown_name":
        assert response.json()["errors"][0]["allowed"] == ["region"]


@pytest.mark.parametrize("top_k", [0, 51, "ten", 2.5, True, -1])
def test_call__top_k_out_of_range__is_refused(api: CheckedClient, agent: Agent, top_k: Any) -> None:
    with nothing_written():
        response = _call(api, agent, topK=top_k)

    assert_problem(
        response,
        422,
        "invalid",
        field="topK",
        value=top_k,
        allowed={"minimum": 1, "maximum": 50},
    )


@pytest.mark.parametrize("floor", [1.5, -0.1, "0.3", True])
def test_call__floor_out_of_range__is_refused(api: CheckedClient, agent: Agent, floor: Any) -> None:
    with nothing_written():
        response = _call(api, agent, confidenceThreshold=floor)

    assert_problem(
        response,
        422,
        "invalid",
        field="confidenceThreshold",
        value=floor,
        allowed={"minimum": 0, "maximum": 1},
    )


@pytest.mark.parametrize("query", [None, "", "  \n", 7, ["a"]])
def test_call__query_that_is_no_text__is_refused(
    api: CheckedClient, agent: Agent, query: Any
) -> None:
    with nothing_written():
        response = _call(api, agent, query=query)

    code = "request.required" if query is None else "invalid"
    assert_problem(response, 422, code, field="query")


def test_publish__no_ready_snapshot__is_refused(api: CheckedClient) -> None:
    base = builders.make_base("Empty")
    agent = builders.make_agent("new")
    builders.edit(agent, tools=[builders.rag_tool(base)])
    with nothing_written():
        response = api.post("/api/v1/agents/new/publish")

    problem = assert_problem(response, 409, "publish.no_snapshot")
    assert problem["knowledgeBase"] == str(base.pk)
    assert "Empty" in problem["detail"]


def test_publish__outdated_snapshot__is_refused_with_figures(api: CheckedClient) -> None:
    base = builders.base_with()
    agent, _ = builders.published(base, slug="support")
    builders.edit(agent, prompt="Another prompt.")
    builders.add_text(base, "new.md", "New.")
    with nothing_written():
        response = api.post("/api/v1/agents/support/publish")

    problem = assert_problem(response, 409, "publish.snapshot_outdated")
    assert problem["knowledgeBases"] == [
        {
            "id": str(base.pk),
            "name": base.name,
            "snapshot": 1,
            "changesNotIndexed": 1,
            "building": False,
        }
    ]


@pytest.mark.parametrize("which", [{}, {"version": 1, "alias": "production"}])
@pytest.mark.parametrize("action", ["resolve", "retrieve", "tools/search/call"])
def test_version__both_or_neither_of_version_and_alias__is_refused(
    api: CheckedClient, agent: Agent, which: dict[str, Any], action: str
) -> None:
    body = {"context": {}, "query": "How long?", **which}
    if action == "resolve":
        del body["query"]
    with nothing_written():
        response = api.post(f"/api/v1/agents/support/{action}", body, format="json")

    problem = assert_problem(
        response,
        422,
        "version.ambiguous",
        field="version",
        value=which.get("version"),
        allowed="exactly one of version and alias",
    )
    assert [error["field"] for error in problem["errors"]] == ["version", "alias"]


@pytest.mark.parametrize("version", [0, -1, "latest", 1.5, True, [1]])
def test_version__that_is_no_number__is_refused(
    api: CheckedClient, agent: Agent, version: Any
) -> None:
    with nothing_written():
        response = _resolve(api, agent, version=version, context={})

    assert_problem(response, 422, "invalid", field="version")


@pytest.mark.parametrize("context", [[], "EU", 7, None, True])
@pytest.mark.parametrize("action", ["resolve", "retrieve"])
def test_context__that_is_no_object__is_refused(
    api: CheckedClient, agent: Agent, context: Any, action: str
) -> None:
    body = {"version": 1, "context": context}
    if action == "retrieve":
        body["query"] = "How long?"
    with nothing_written():
        response = api.post(f"/api/v1/agents/support/{action}", body, format="json")

    problem = assert_problem(response, 422, "invalid", field="context", allowed="object")
    if not isinstance(context, list):
        assert problem["errors"][0]["value"] == context


def test_context__over_its_size__is_refused(api: CheckedClient, agent: Agent) -> None:
    with nothing_written():
        response = _resolve(
            api, agent, version=1, context={"text": "x" * settings.MAX_CONTEXT_BYTES}
        )

    assert_problem(response, 422, "invalid", field="context", value=None)


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


@pytest.mark.parametrize(
    ("settings_", "field", "allowed"),
    [
        ({"defaultTopK": 0}, "settings.defaultTopK", {"minimum": 1, "maximum": 50}),
        ({"defaultTopK": 51}, "settings.defaultTopK", {"minimum": 1, "maximum": 50}),
        ({"defaultTopK": None}, "settings.defaultTopK", {"minimum": 1, "maximum": 50}),
        (
            {"similarityThreshold": 1.5},
            "settings.similarityThreshold",
            {"minimum": 0, "maximum": 1},
        ),
        (
            {"maxContextLength": 499},
            "settings.maxContextLength",
            {"minimum": 500, "maximum": 16000},
        ),
        ({"rerankEnabled": "yes"}, "settings.rerankEnabled", [True, False]),
        ({"settingsMode": "on"}, "settings.settingsMode", ["recorded", "applied"]),
    ],
)
def test_settings__out_of_range__are_refused(
    api: CheckedClient, settings_: dict[str, Any], field: str, allowed: Any
) -> None:
    with nothing_written():
        response = api.post(BASES, {"name": "A", "settings": settings_}, format="json")

    value = next(iter(settings_.values()))
    assert_problem(response, 422, "invalid", field=field, value=value, allowed=allowed)


def test_settings__reranking_applied_without_a_reranker__are_refused(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    wanted = {"rerankEnabled": True, "settingsMode": "applied"}
    with nothing_written():
        made = api.post(BASES, {"name": "A", "settings": wanted}, format="json")
        changed = api.patch(f"{BASES}/{base.pk}", {"settings": wanted}, format="json")

    for response in (made, changed):
        assert_problem(
            response,
            422,
            "reranker.not_configured",
            field="settings.rerankEnabled",
            value=True,
            allowed=[False],
        )


@pytest.mark.parametrize(
    ("chunking", "field"),
    [
        ({"strategy": "magic", "size": 200, "overlap": 20}, "chunking.strategy"),
        ({"strategy": "recursive", "size": 0, "overlap": 0}, "chunking.size"),
        ({"strategy": "recursive", "size": 100_000, "overlap": 0}, "chunking.size"),
        ({"strategy": "recursive", "size": 100, "overlap": 100}, "chunking.overlap"),
    ],
)
def test_chunking__that_cannot_be__is_refused(
    api: CheckedClient, chunking: dict[str, Any], field: str
) -> None:
    with nothing_written():
        response = api.post(BASES, {"name": "A", "chunking": chunking}, format="json")

    assert_problem(
        response, 422, response.json()["code"], field=field, value=chunking[field.split(".")[1]]
    )


def test_knowledge_base__unknown_model__names_the_known_ones(api: CheckedClient) -> None:
    with nothing_written():
        response = api.post(BASES, {"name": "A", "embeddingModel": "magic"}, format="json")

    problem = assert_problem(response, 422, "model.unknown", field="embeddingModel", value="magic")
    assert "all-MiniLM-L6-v2" in problem["errors"][0]["allowed"]


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


def test_upload__broken_pdf__is_accepted_and_fails_by_name_while_others_go_on(
    api: CheckedClient,
) -> None:
    base = builders.make_base()
    broken = b"%PDF-1.7\n" + b"1 0 obj << /Broken " * 40

    accepted = _upload(api, base, "broken.pdf", broken)
    builders.add_text(base, "fine.md", builders.RETURNS)
    builders.build(base)

    assert accepted.status_code == 202
    documents = {item["name"]: item for item in api.get(_documents(base)).json()["results"]}
    assert documents["fine.md"]["status"] == "indexed"
    assert documents["broken.pdf"]["status"] == "failed"
    assert documents["broken.pdf"]["error"]["code"].startswith("extraction.")
    assert documents["broken.pdf"]["error"]["message"].endswith(".")
    assert api.get(f"{BASES}/{base.pk}").json()["build"] is None


def test_body__valid_json_with_large_but_exact_integers__is_taken(
    api: CheckedClient, agent: Agent
) -> None:
    body = json.dumps({"version": 1, "context": {"n": 2**53}}).encode()

    response = api.post("/api/v1/agents/support/resolve", body, content_type="application/json")

    assert response.status_code == 200
