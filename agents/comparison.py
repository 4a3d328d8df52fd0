"""What differs between two versions of an agent, the draft among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.versions import Runnable
from registry.fields import dump_received

_WHOLE = (
    "prompt",
    "model",
    "parameters",
    "contextVariables",
    "sampleContexts",
    "coverageErrors",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One member that differs; None stands for "not there".

    ``path`` names it: ``prompt``, ``bindings.<id>.expression``, ``tools.<id>`` for a whole tool
    that came or went, ``knowledgeBases.<id>.snapshotDigest``.
    """

    path: str
    before: Any
    after: Any

    def as_json(self) -> dict[str, Any]:
        return {"path": self.path, "before": self.before, "after": self.after}


def compare(before: Runnable, after: Runnable) -> list[Change]:
    """Return the changes from one version to another, in the order of their members.

    A draft's knowledge bases are compared as they are now, a published version's as pinned.
    """
    old, new = before.configuration.as_json(), after.configuration.as_json()
    changes = list(_members("", _only(old, _WHOLE), _only(new, _WHOLE)))
    for name in ("bindings", "tools"):
        changes += _items(name, _by_id(old[name]), _by_id(new[name]))
    changes += _items("knowledgeBases", _knowledge_bases(before), _knowledge_bases(after))
    return changes


def _only(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: values[name] for name in names}


def _by_id(items: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        item["id"]: {**item, "position": position} for position, item in enumerate(items, start=1)
    }


def _knowledge_bases(version: Runnable) -> dict[str, dict[str, Any]]:
    described: dict[str, dict[str, Any]] = {}
    for base_id, name in version.names.items():
        target = version.targets.get(base_id)
        described[str(base_id)] = {
            "name": name,
            "snapshotDigest": target.snapshot.digest if target else None,
            "settings": target.settings.as_json() if target else None,
        }
    return described


def _items(
    name: str, old: Mapping[str, dict[str, Any]], new: Mapping[str, dict[str, Any]]
) -> Iterator[Change]:
    for key in [*old, *(key for key in new if key not in old)]:
        if key in old and key in new:
            yield from _members(f"{name}.{key}.", old[key], new[key])
        else:
            yield Change(path=f"{name}.{key}", before=old.get(key), after=new.get(key))


def _members(prefix: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for name in [*old, *(name for name in new if name not in old)]:
        before, after = old.get(name), new.get(name)
        if dump_received(before) != dump_received(after):
            yield Change(path=prefix + name, before=before, after=after)
