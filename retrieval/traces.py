"""Keeping and finding the records of resolutions and retrievals."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import QuerySet

from registry.access import Access
from registry.errors import NotFound
from retrieval.models import Chunk, Trace
from retrieval.trace_writer import TraceWriter

writer = TraceWriter()


def record_trace(trace: Trace) -> uuid.UUID:
    """Keep a trace and return its id; every process finds it within a second.

    It is written after the answer, in a group, and in no transaction of the caller's. Only where
    more wait to be written than may does the caller write it itself. What it holds must not
    change afterwards.
    """
    if not writer.put(trace):
        trace.save(force_insert=True)
    return trace.pk


def flush_traces() -> bool:
    """Wait until what this process recorded is written; False where the database is away."""
    return writer.flush()


def find_trace(trace_id: uuid.UUID, access: Access) -> Trace:
    """Return a trace that ``access`` may see. Raises NotFound."""
    trace = visible_traces(access).filter(pk=trace_id).first()
    if trace is None:
        raise NotFound(f"There is no trace {trace_id}.", code="trace.not_found")
    return trace


def visible_traces(access: Access) -> QuerySet[Trace]:
    """Return the traces of the agents of ``access``; runtime keys see what they made themselves.

    Those that this process has only just recorded are among them.
    """
    flush_traces()
    traces = Trace.objects.all()
    if access.agents is not None:
        traces = traces.filter(agent_slug__in=access.agents)
    if not access.reaches("editor"):
        traces = traces.filter(api_key_name=access.actor.label)
    return traces


def described(trace: Trace) -> dict[str, Any]:
    """Return a trace as JSON: what it holds, values and digests."""
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
        "contextProblems": trace.context_problems,
        "groups": trace.groups,
        "receipt": trace.receipt or None,
    }


def described_with_texts(trace: Trace) -> dict[str, Any]:
    """Return a trace as JSON, the texts of its passages joined in while their chunks are there."""
    texts = _texts(trace)
    return {
        **described(trace),
        "groups": [
            {
                **group,
                "results": [
                    {**result, "passage": texts.get(result["chunk"])}
                    for result in group.get("results", [])
                ],
            }
            for group in trace.groups
        ],
    }


def _texts(trace: Trace) -> dict[str, str]:
    results = [result for group in trace.groups for result in group.get("results", [])]
    # Through their documents: chunks have no index by digest, and need none for writing.
    chunks = Chunk.objects.filter(
        digest__in={result["chunk"] for result in results},
        indexed_document__extraction__revision__document__in={
            result["document"]["id"] for result in results
        },
        text__isnull=False,
    )
    return {chunk.digest: chunk.text or "" for chunk in chunks.only("digest", "text")}
