"""An agent with everything that an export must carry, and the calls that are compared."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rest_framework.test import APIClient

from agents.exporting import Exported, export_version
from agents.importing import Imported, import_version
from agents.models import Agent, AgentVersion
from agents.verification import summary, verify_version
from registry.access import create_api_key
from retrieval.documents import update_document
from retrieval.knowledge_bases import find, update_knowledge_base
from retrieval.models import Document, KnowledgeBase, Trace
from retrieval.verification import Verifier
from tests import builders

QUESTIONS = (
    "How long do I have to send something back?",
    "When is the money back on my card?",
    "Are batteries covered?",
    "Who pays the postage?",
    "Is damage by water covered?",
)
_numbers = itertools.count(1)
UNICODE = "# Größe\n\nÄrmel: 63 cm. 😀 Das Maß nimmt man „von Naht zu Naht“.\n"


@dataclass(frozen=True, kw_only=True)
class World:
    agent: Agent
    version: AgentVersion
    returns: KnowledgeBase
    warranty: KnowledgeBase

    def document(self, name: str) -> Document:
        return Document.objects.get(name=name)


def make_world() -> World:
    returns = builders.make_base("Returns")
    builders.add_text(returns, "eu/returns.md", "# Old\n\nWithin 14 days.")
    document = Document.objects.get(name="eu/returns.md")
    builders.replace_text(returns, document, builders.RETURNS)
    builders.add_text(returns, "Größen.md", UNICODE, {"z": 1, "a": [1.5, None, "é"], "m": {}})
    builders.add_text(returns, "short.txt", "Ten days.")
    builders.build(returns)
    warranty = builders.make_base(
        "Warranty", settings={"settingsMode": "applied", "maxContextLength": 500, "defaultTopK": 3}
    )
    builders.add_text(warranty, "warranty.md", builders.WARRANTY)
    builders.build(warranty)
    agent = builders.make_agent("support")
    builders.edit(
        agent,
        prompt="Answer from the passages.",
        model="some-model",
        sampleContexts=[{"name": "Paris", "context": {"region": "EU"}}],
        parameters={"temperature": 0, "b": {"y": 1, "x": 2}},
        contextVariables=[{"name": "region", "type": "string", "values": ["EU", "UK"]}],
        bindings=[
            {
                "knowledgeBase": str(returns.pk),
                "expression": "region == 'EU'",
                "label": "EU returns",
                "instruction": "Use for returns.",
            },
            {"knowledgeBase": str(warranty.pk), "enabled": False},
        ],
        tools=[
            builders.rag_tool(returns, "search_returns"),
            builders.rag_tool(warranty, "search_warranty"),
            {
                "type": "function",
                "name": "open_ticket",
                "description": "Opens a ticket.",
                "parameters": {"type": "object", "properties": {"b": {}, "a": {}}},
            },
        ],
    )
    version = builders.publish(agent, notes="The first one.")
    return World(agent=agent, version=version, returns=find(returns.pk), warranty=find(warranty.pk))


def change_everything(world: World) -> None:
    """Let the installation go on, so that an export cannot take what is there now."""
    update_document(
        actor=builders.ACTOR,
        base=world.returns,
        document_id=world.document("eu/returns.md").pk,
        name="renamed.md",
        metadata={"other": True},
    )
    builders.replace_text(world.returns, world.document("renamed.md"), "# New\n\nWithin a year.")
    update_knowledge_base(
        actor=builders.ACTOR,
        knowledge_base_id=world.returns.pk,
        values={"name": "Other", "chunking": {"size": 60}, "settings": {"defaultTopK": 1}},
    )
    builders.build(world.returns)
    builders.edit(world.agent, prompt="Something else.")


def answers(slug: str = "support", number: int = 1) -> list[str]:
    """What the version answers to every call, byte for byte, without what is this moment's."""
    key = create_api_key(actor=builders.ACTOR, name=f"key {next(_numbers)}", scope="admin")
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {key}")
    at = f"/api/v1/agents/{slug}"
    given: list[str] = []

    def ask(path: str, **body: Any) -> None:
        answer = client.post(f"{at}/{path}", {"version": number, **body}, format="json")
        assert answer.status_code == 200, answer.content
        given.append(json.dumps(_comparable(answer.json()), ensure_ascii=False))

    for question in QUESTIONS:
        for tool in ("search_returns", "search_warranty"):
            ask(f"tools/{tool}/call", query=question, confidenceThreshold=0)
            ask(f"tools/{tool}/call", query=question)
        ask("retrieve", context={"region": "EU"}, query=question)
    for region in ("EU", "UK"):
        ask("resolve", context={"region": region})
    return given


def _comparable(answer: Any) -> Any:
    """Numbers of snapshots and versions, the slug and traces are an installation's own."""
    if isinstance(answer, dict):
        own = {"traceId", "agent", "version", "etag"}
        return {
            key: ({"digest": value["digest"]} if key == "snapshot" else _comparable(value))
            for key, value in answer.items()
            if key not in own
        }
    if isinstance(answer, list):
        return [_comparable(one) for one in answer]
    return answer


def export(path: Path, agent: Agent, number: int = 1, **options: Any) -> Exported:
    return export_version(actor=builders.ACTOR, agent=agent, number=number, path=path, **options)


def bring(path: Path, **options: Any) -> Imported:
    return import_version(actor=builders.ACTOR, path=path, **options)


def verified(version: AgentVersion) -> dict[str, Any]:
    return summary(verify_version(AgentVersion.objects.get(pk=version.pk), Verifier()))


def row_counts() -> dict[str, int]:
    """How many rows every table of the project has, traces apart."""
    from django.apps import apps

    return {
        model._meta.db_table: model._default_manager.count()
        for app in ("registry", "retrieval", "agents")
        for model in apps.get_app_config(app).get_models()
        if model is not Trace
    }
