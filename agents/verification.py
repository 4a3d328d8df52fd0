"""Proving that a published version is what was published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.db.models import QuerySet

from agents.configuration import configuration_of
from agents.manifest import build_manifest, pinned_semantics
from agents.models import AgentVersion
from agents.versions import HOLDER_KIND, pinned_targets
from registry.canonical import digest_text
from registry.errors import RegistryError
from retrieval import pins
from retrieval.verification import Difference, VerifiedPart, Verifier


def verify_version(version: AgentVersion, verifier: Verifier) -> Iterator[VerifiedPart]:
    """Yield each part of a published version with whether it holds.

    The manifest is recomputed from the rows, its digest from the manifest, and every pinned
    snapshot down to chunk texts, vectors and document bytes. ``verifier`` carries what several
    versions share, so that it is recomputed once.
    """
    yield VerifiedPart(
        part="digest",
        difference=_compared(
            "the manifest's digest", version.digest, digest_text(version.manifest)
        ),
    )
    yield VerifiedPart(part="manifest", difference=_verify_manifest(version))
    snapshots = pins.pinned_snapshots(holder_kind=HOLDER_KIND, holder_id=version.pk)
    for base_id in sorted(snapshots):
        yield from verifier.snapshot(snapshots[base_id])


def to_verify(versions: QuerySet[AgentVersion]) -> QuerySet[AgentVersion]:
    """Return ``versions`` without what is only read while each is verified: it may be damaged."""
    return versions.defer("parameters", "context_variables", "sample_contexts", "origin")


def chunks_to_verify(versions: Iterable[AgentVersion]) -> int:
    """Return how many chunks the pinned snapshots of ``versions`` have, each version for itself."""
    return sum(
        snapshot.chunk_count
        for version in versions
        for snapshot in pins.pinned_snapshots(
            holder_kind=HOLDER_KIND, holder_id=version.pk
        ).values()
    )


def _verify_manifest(version: AgentVersion) -> Difference | None:
    try:
        rebuilt = _rebuilt(version)
    except (RegistryError, ValueError, LookupError, TypeError) as error:
        return Difference(what="the manifest", expected="readable", found=str(error))
    return _compared("the manifest", version.manifest, rebuilt)


def summary(parts: Iterable[VerifiedPart]) -> dict[str, Any]:
    """Return ``{ok, parts, firstDifference?}`` of what was verified."""
    shown = []
    first: dict[str, Any] | None = None
    for part in parts:
        shown.append(part.as_json())
        if first is None and part.difference is not None:
            first = {"part": part.part, **part.difference.as_json()}
    answer: dict[str, Any] = {"ok": first is None, "parts": shown}
    if first is not None:
        answer["firstDifference"] = first
    return answer


def _rebuilt(version: AgentVersion) -> str:
    """Return the manifest as the rows of version, bindings, tools and pins give it.

    Names and settings of knowledge bases stand in the manifest alone; its digest holds them.
    """
    targets = pinned_targets(version)
    configuration = configuration_of(version)
    if configuration.knowledge_base_ids - set(targets):
        return ""
    semantics = pinned_semantics(version.manifest)
    return build_manifest(configuration, targets, semantics=semantics).text


def _compared(what: str, expected: str, found: str) -> Difference | None:
    if expected == found:
        return None
    return Difference(what=what, expected=_shown(expected), found=_shown(found))


def _shown(text: str) -> str:
    return text if text.startswith("sha256:") else digest_text(text)
