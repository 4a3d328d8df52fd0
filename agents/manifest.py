"""The canonical value of a published version, and its digest.

Everything that decides an answer stands in it. What users own (parameters, schemas) stands in it
as a string, so that the order of its keys is pinned too. Number, author, time and notes are
outside: an import keeps the digest.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.configuration import BindingValues, Configuration, ToolValues
from agents.expressions import SEMANTICS
from registry.canonical import canonical_json, digest_text
from registry.errors import Unavailable
from registry.fields import dump_received, load_received
from retrieval.search import Target

SCHEMA = 1
_COLUMN = "agents.AgentVersion.manifest"


@dataclass(frozen=True, slots=True)
class Manifest:
    """``text`` is RFC 8785 JSON; ``digest`` is the SHA-256 of its UTF-8."""

    text: str

    @property
    def digest(self) -> str:
        return digest_text(self.text)


def build_manifest(
    configuration: Configuration,
    targets: Mapping[uuid.UUID, Target],
    *,
    semantics: int = SEMANTICS,
) -> Manifest:
    """Return the manifest of ``configuration`` over the pinned state of its knowledge bases.

    ``semantics`` is another than this software's only where an old manifest is made again.
    """
    return Manifest(
        canonical_json(
            {
                "schema": SCHEMA,
                "prompt": configuration.prompt,
                "model": configuration.model,
                "parameters": dump_received(configuration.parameters),
                "contextVariables": dump_received(configuration.context_variables),
                "bindings": [_binding(binding) for binding in configuration.bindings],
                "tools": [_tool(tool) for tool in configuration.tools],
                "knowledgeBases": [
                    _knowledge_base(targets[knowledge_base])
                    for knowledge_base in sorted(configuration.knowledge_base_ids)
                ],
                "expressionSemantics": semantics,
            }
        )
    )


def pinned_knowledge_bases(manifest: str) -> dict[uuid.UUID, dict[str, Any]]:
    """Return what a manifest says of each knowledge base: name, settings, recipe, snapshot."""
    return {
        uuid.UUID(item["id"]): item for item in load_received(manifest, _COLUMN)["knowledgeBases"]
    }


def pinned_semantics(manifest: str) -> int:
    """Return the version of the expression semantics that a manifest was published under."""
    return int(load_received(manifest, _COLUMN)["expressionSemantics"])


def require_semantics(manifest: str) -> None:
    """Raise Unavailable where expressions would be decided by other rules than at publish."""
    pinned = pinned_semantics(manifest)
    if pinned != SEMANTICS:
        raise Unavailable(
            f"This version was published under version {pinned} of the expression semantics; "
            f"this software has version {SEMANTICS}.",
            code="expression.semantics_not_available",
            pinned=pinned,
            available=SEMANTICS,
        )


def _binding(binding: BindingValues) -> dict[str, Any]:
    return {key: value for key, value in binding.as_json().items() if key != "id"}


def _tool(tool: ToolValues) -> dict[str, Any]:
    described = {key: value for key, value in tool.as_json().items() if key != "id"}
    if tool.type == "function":
        described["parameters"] = dump_received(tool.parameters)
    return described


def _knowledge_base(target: Target) -> dict[str, Any]:
    model = target.snapshot.model
    return {
        "id": str(target.knowledge_base_id),
        "name": target.name,
        "embeddingModel": {"name": model.name, "fingerprint": model.fingerprint},
        "snapshotDigest": target.snapshot.digest,
        "settings": target.settings.pinned_json(),
        "rankingRecipe": target.recipe,
    }
