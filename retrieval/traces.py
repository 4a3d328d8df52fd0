"""Keeping and finding the records of resolutions and retrievals."""

from __future__ import annotations

import uuid
from typing import Any

from registry.access import Access
from registry.errors import NotFound
from retrieval.models import Chunk, Trace


def record_trace(trace: Trace) -> uuid.UUID:
    """Write a trace and return its id. Traces hold values only and pin nothing."""
    trace.save(force_insert=True)
    return trace.pk


def find_trace(trace_id: uuid.UUID, access: Access) -> Trace:
    """Return a trace that ``access`` may see: runtime keys see what they made themselves."""
    trace = Trace.objects.filter(pk=trace_id).first()
    if trace is None or not visible(trace, access):
        raise NotFound(f"There is no trace {trace_id}.", code="trace.not_found")
    return trace


def visible(trace: Trace, access: Access) -> bool:
    """Say whether ``access`` may see ``trace``."""
    if access.agents is not None and trace.agent_slug not in access.agents:
        return False
    return access.reaches("editor") or trace.api_key_name == access.actor.label


def described(trace: Trace) -> dict[str, Any]:
    """Return a trace as JSON; texts of passages are joined in while their chunks are there."""
    groups = trace.groups
    digests = {result["chunk"] for group in groups for result in group.get("results", [])}
    texts = dict(
        Chunk.objects.filter(digest__in=digests, text__isnull=False).values_list("digest", "text")
    )
    return {
        "id": str(trace.pk),
        "at": trace.at.isoformat(),
        "kind": trace.kind,
        "apiKey": trace.api_key_name,
        "agent": trace.agent_slug,
        "version": "draft" if trace.version_number is None else trace.version_number,
        "manifestDigest": trace.manifest_digest or None,
        "conversationId": trace.conversation_id or None,
        "arguments": trace.arguments,
        "decisions": trace.decisions,
        "groups": [
            {
                **group,
                "results": [
                    {**result, "passage": texts.get(result["chunk"])}
                    for result in group.get("results", [])
                ],
            }
            for group in groups
        ],
        "receipt": trace.receipt or None,
    }
