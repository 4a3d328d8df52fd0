"""A version that was published by other rules is refused by name, never answered another way."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from agents import expressions, manifest
from agents.models import Agent, AgentVersion
from agents.verification import summary, verify_version
from retrieval import search
from retrieval.verification import Verifier
from tests import builders
from tests.api.problems import assert_problem
from tests.traces import kept_traces

pytestmark = pytest.mark.django_db
AT = "/api/v1/agents/support"


@pytest.fixture
def other_ranking() -> Iterator[Agent]:
    """Version 1 was published by software with another ranking recipe; version 2 by this one."""
    yield from _published_by(search, "RANKING_RECIPE", {**search.RANKING_RECIPE, "score": "old/0"})


@pytest.fixture
def other_semantics() -> Iterator[Agent]:
    """Version 1 was published by software with other expression semantics; version 2 by this."""
    yield from _published_by(manifest, "SEMANTICS", 0)


def _published_by(module: Any, name: str, value: Any) -> Iterator[Agent]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, name, value)
        if name == "SEMANTICS":
            # The default of an argument was bound when the module was loaded.
            patched.setattr(manifest.build_manifest, "__kwdefaults__", {"semantics": value})
        base = builders.base_with("Returns")
        agent, _ = builders.published(base, slug="support")
    builders.edit(agent, prompt="Newer.")
    builders.publish(agent)
    yield agent


def _ask(api: Any, version: int) -> list[Any]:
    question = {"version": version, "query": "How long is the lamp covered?"}
    return [
        api.post(f"{AT}/tools/search/call", question, format="json"),
        api.post(f"{AT}/retrieve", {**question, "context": {}}, format="json"),
        api.post(f"{AT}/resolve", {"version": version, "context": {}}, format="json"),
    ]


def test_version__of_another_ranking_recipe__refuses_to_search_and_still_resolves(
    api: Any, other_ranking: Agent
) -> None:
    called, retrieved, resolved = _ask(api, 1)

    assert_problem(called, 503, "ranking.recipe_not_available")
    assert called.json()["recipe"]["score"] == "old/0"
    (group,) = retrieved.json()["groups"]
    assert group["error"]["code"] == "ranking.recipe_not_available"
    assert retrieved.json()["receipt"] is None
    assert resolved.status_code == 200
    assert {one.status_code for one in _ask(api, 2)} == {200}


def test_version__of_other_expression_semantics__refuses_whatever_is_asked(
    api: Any, other_semantics: Agent
) -> None:
    for refused in _ask(api, 1):
        assert_problem(refused, 503, "expression.semantics_not_available")
        assert (refused.json()["pinned"], refused.json()["available"]) == (0, expressions.SEMANTICS)
    assert {one.status_code for one in _ask(api, 2)} == {200}


def test_version__of_other_software__is_still_shown_and_verified(
    api: Any, other_semantics: Agent
) -> None:
    version = AgentVersion.objects.get(agent=other_semantics, number=1)

    assert api.get(f"{AT}/versions/1").json()["digest"] == version.digest
    assert summary(verify_version(version, Verifier()))["ok"]


@pytest.mark.parametrize(
    ("fixture", "code"),
    [
        ("other_ranking", "ranking.recipe_not_available"),
        ("other_semantics", "expression.semantics_not_available"),
    ],
)
def test_replay__of_another_recipe_than_this_softwares__names_it(
    api: Any, request: pytest.FixtureRequest, fixture: str, code: str
) -> None:
    request.getfixturevalue(fixture)
    answered = _ask(api, 2)[0].json()

    replayed = api.post(f"/api/v1/traces/{_as_of_version_1(answered)}/replay").json()

    assert not replayed["identical"]
    assert replayed["firstDifference"]["cause"] == code


def _as_of_version_1(answer: Any) -> str:
    """Return the trace that version 1 would have left when its software was still here."""
    trace = kept_traces().get(pk=answer["traceId"])
    version = AgentVersion.objects.get(agent__slug="support", number=1)
    trace.pk = uuid.uuid4()
    trace.version_number, trace.manifest_digest = 1, version.digest
    trace.save(force_insert=True)
    return str(trace.pk)
