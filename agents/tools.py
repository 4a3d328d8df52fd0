"""Calling a version's tools, retrieving from what is attached, and describing tools to models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.groups import ask_all
from agents.recording import declared_context, kept_context, trace_of
from agents.resolution import applicable, decide
from agents.versions import Runnable
from registry.access import Access
from registry.errors import Invalid
from retrieval import search
from retrieval.questions import Question
from retrieval.traces import record_trace


def call_tool(
    *,
    version: Runnable,
    name: str,
    question: Question,
    access: Access,
    conversation_id: str = "",
    context: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Call a ``rag`` tool and return its passages; leaves a trace.

    The tool is not gated by expressions; the declared variables of ``context`` are recorded.
    Raises NotFound for an unknown tool, Invalid (``tool.not_callable``) for a ``function``, which
    the agent's own runtime executes, and what ``search.retrieve`` raises.
    """
    tool = version.tool(name)
    if tool.knowledge_base is None:
        raise Invalid.field(
            "tool",
            name,
            "is a function, which the agent's own runtime executes",
            allowed=[one.name for one in version.configuration.tools if one.type == "rag"],
            code="tool.not_callable",
        )
    found = search.retrieve(version.target(tool.knowledge_base), question, asker=access.key_id)
    trace_id = record_trace(
        trace_of(
            "call",
            version=version,
            access=access,
            conversation_id=conversation_id,
            arguments={
                "tool": name,
                **question.arguments(),
                "context": declared_context(version, context or {}),
            },
            groups=[found.trace_group()],
            receipt=found.receipt,
        )
    )
    return {**found.as_json(), "traceId": str(trace_id)}


def retrieve_attached(
    *,
    version: Runnable,
    context: Mapping[str, Any],
    question: Question,
    access: Access,
    conversation_id: str = "",
) -> dict[str, Any]:
    """Ask every knowledge base that applies to ``context`` at once; grouped, in the order of the
    bindings, never merged by confidence.

    A knowledge base that fails is reported in its group and does not lose the others' results; it
    has no receipt then, and neither has the whole.
    """
    decisions = decide(version, context)
    groups = ask_all(version, applicable(decisions), question, asker=access.key_id)
    receipts = [group.receipt for group in groups if group.receipt is not None]
    receipt = search.groups_receipt(receipts) if len(receipts) == len(groups) else None
    trace_id = record_trace(
        trace_of(
            "retrieve",
            version=version,
            access=access,
            conversation_id=conversation_id,
            arguments={
                **question.arguments(),
                "context": kept_context(version, decisions, context),
            },
            decisions=[
                {key: value for key, value in one.as_json(version).items() if key != "instruction"}
                for one in decisions
            ],
            groups=[group.traced for group in groups],
            receipt=receipt or "",
        )
    )
    answers = [group.answer for group in groups]
    return {"groups": answers, "receipt": receipt, "traceId": str(trace_id)}
