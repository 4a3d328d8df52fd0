"""The retrieval settings of a knowledge base, and whether each acts or is only recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from registry import requests
from registry.errors import Invalid
from retrieval.models import KnowledgeBase

SETTING_COLUMNS = (
    "default_top_k",
    "similarity_threshold",
    "max_context_length",
    "rerank_enabled",
    "diversity_enabled",
    "settings_mode",
)
_MEMBERS = (
    "defaultTopK",
    "similarityThreshold",
    "maxContextLength",
    "rerankEnabled",
    "diversityEnabled",
    "settingsMode",
)
MODES = ("recorded", "applied")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """Ranges: top_k 1…50, threshold 0…1 or None, context 500…16000 characters or None."""

    default_top_k: int = 5
    similarity_threshold: float | None = None
    max_context_length: int | None = None
    rerank_enabled: bool = False
    diversity_enabled: bool = False
    settings_mode: str = "recorded"

    @property
    def applied(self) -> bool:
        """Say whether threshold, context length, reranking and diversity act."""
        return self.settings_mode == "applied"

    def as_json(self) -> dict[str, Any]:
        return dict(
            zip(_MEMBERS, (getattr(self, column) for column in SETTING_COLUMNS), strict=True)
        )

    def pinned_json(self) -> dict[str, Any]:
        """Return the settings as a manifest holds them; diversity only where it is on.

        Manifests are older than that setting, and one without it keeps its digest.
        """
        pinned = self.as_json()
        if not self.diversity_enabled:
            del pinned["diversityEnabled"]
        return pinned

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SearchSettings:
        """Return the settings that a manifest or an evaluation holds."""
        return cls(
            **{
                column: value[member]
                for member, column in zip(_MEMBERS, SETTING_COLUMNS, strict=True)
                if member in value
            }
        )

    def effect(self) -> dict[str, str]:
        """Return for each setting whether it is ``read`` or only ``recorded``."""
        acts = "read" if self.applied else "recorded"
        return {
            "defaultTopK": "read",
            "similarityThreshold": acts,
            "maxContextLength": acts,
            "rerankEnabled": acts,
            "diversityEnabled": acts,
        }


def settings_of(base: KnowledgeBase) -> SearchSettings:
    """Return the settings that ``base`` has now."""
    return SearchSettings(**{column: getattr(base, column) for column in SETTING_COLUMNS})


def read_settings(value: object, before: SearchSettings) -> SearchSettings:
    """Return ``before`` with the members of a request's ``settings`` merged over it.

    Raises Invalid naming ``settings.<member>``, its value and what is allowed.
    """
    if value is None:
        return before
    if not isinstance(value, Mapping):
        raise Invalid.field("settings", value, "must be an object", allowed=list(_MEMBERS))
    requests.refuse_unknown(value, _MEMBERS, prefix="settings.")
    body = {f"settings.{key}": member for key, member in value.items()}
    changes: dict[str, Any] = {}
    if "defaultTopK" in value:
        changes["default_top_k"] = requests.integer(body, "settings.defaultTopK", least=1, most=50)
        if changes["default_top_k"] is None:
            raise Invalid.field(
                "settings.defaultTopK",
                None,
                "must be a number",
                allowed={"minimum": 1, "maximum": 50},
            )
    if "similarityThreshold" in value:
        changes["similarity_threshold"] = requests.number(
            body, "settings.similarityThreshold", least=0, most=1
        )
    if "maxContextLength" in value:
        changes["max_context_length"] = requests.integer(
            body, "settings.maxContextLength", least=500, most=16000
        )
    if "rerankEnabled" in value:
        changes["rerank_enabled"] = requests.boolean(body, "settings.rerankEnabled", default=False)
    if "diversityEnabled" in value:
        changes["diversity_enabled"] = requests.boolean(
            body, "settings.diversityEnabled", default=False
        )
    if "settingsMode" in value:
        changes["settings_mode"] = requests.choice(
            body, "settings.settingsMode", MODES, default="recorded"
        )
    return replace(before, **changes)
