from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from agents.aliases import move_alias
from agents.models import Agent
from tests import builders
from tests.traces import kept_traces

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent() -> Agent:
    base = builders.base_with("Returns")
    agent = builders.make_agent("support")
    builders.edit(
        agent,
        bindings=[
            {
                "knowledgeBase": str(base.pk),
                "label": "EU",
                "expression": "region == 'EU' and age > 5",
            }
        ],
    )
    builders.publish(agent)
    move_alias(actor=builders.ACTOR, agent=agent, name="production", number=1)
    builders.edit(agent, bindings=[])
    return agent


def _run(tmp_path: Path, context: str, *words: str) -> str:
    file = tmp_path / "context.json"
    file.write_text(context, encoding="utf-8")
    out = io.StringIO()
    call_command("resolve", "support", *words, "--context", str(file), stdout=out)
    return out.getvalue()


def test_resolve__version_or_alias__says_what_applies_and_why_and_leaves_no_trace(
    agent: Agent, tmp_path: Path
) -> None:
    applies = _run(tmp_path, '{"region": "EU", "age": 6}', "--version", "1")
    unknown = _run(tmp_path, '{"region": "EU"}', "--alias", "production")

    assert "support, version 1" in applies
    assert "applies   EU → Returns: TRUE" in applies
    assert "Attached: Returns" in applies
    assert "does not  EU → Returns: MISSING_VARIABLE" in unknown
    assert "`age` is missing from the context" in unknown
    assert "region == 'EU': TRUE" in unknown
    assert "Attached: none, which is a normal answer" in unknown
    assert kept_traces().count() == 0


def test_resolve__draft_as_json__is_the_answer_of_the_api(agent: Agent, tmp_path: Path) -> None:
    answer = json.loads(_run(tmp_path, "{}", "--draft", "--json"))

    assert (answer["version"], answer["bindings"], answer["traceId"]) == ("draft", [], None)


def test_resolve__context_from_standard_input_with_a_trace__leaves_one(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"region": "EU", "x": 1}')))

    call_command(
        "resolve", "support", "--version", "1", "--context", "-", "--trace", "--json", stdout=out
    )

    trace = kept_traces().get(pk=json.loads(out.getvalue())["traceId"])
    assert trace.arguments == {"context": {"region": "EU"}}


@pytest.mark.parametrize(
    ("words", "context", "sentence"),
    [
        (["--version", "9"], "{}", "support has no version 9."),
        (["--alias", "nope"], "{}", "support has no alias 'nope'."),
        (["--draft"], "[]", "must be a JSON object"),
        (["--draft"], '{"a": 1, "a": 2}', "stands twice"),
        (["--draft", "--version", "1"], "{}", "not allowed with"),
        ([], "{}", "one of the arguments"),
    ],
)
def test_resolve__wrong_input__ends_with_a_sentence(
    agent: Agent, tmp_path: Path, words: list[str], context: str, sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence):
        _run(tmp_path, context, *words)


def test_resolve__file_that_is_not_there__ends_with_a_sentence(agent: Agent) -> None:
    arguments: list[Any] = ["resolve", "support", "--draft", "--context", "/nowhere.json"]

    with pytest.raises(CommandError, match="cannot be read"):
        call_command(*arguments)
