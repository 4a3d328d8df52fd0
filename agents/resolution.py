"""Which knowledge bases apply to a conversation, and why; everything an agent starts with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.expressions import TRUE, context_problems
from agents.recording import kept_context, trace_of
from agents.versions import Binding, Runnable
from registry.access import Access
from registry.canonical import digest_json
from registry.fields import dump_received
from retrieval.traces import record_trace

NO_EXPRESSION = "NO_EXPRESSION"
DISABLED = "DISABLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingDecision:
    """Whether one binding applies, and why."""

    binding: Binding
    applies: bool
    reason: str
    detail: str | None
    read: tuple[str, ...]
    parts: tuple[Any, ...]

    def as_json(self, version: Runnable) -> dict[str, Any]:
        values = self.binding.values
        return {
            "label": values.label,
            "knowledgeBase": version.knowledge_base(values.knowledge_base),
            "expression": values.expression,
            "instruction": values.instruction,
            "applies": self.applies,
            "reason": self.reason,
            "detail": self.detail,
            "parts": [
                {"expression": part.expression, "value": part.value, "reason": part.reason}
                for part in self.parts
            ],
        }


def decide(version: Runnable, context: Mapping[str, Any]) -> list[BindingDecision]:
    """Decide every binding of ``version`` for ``context``; pure and total."""
    return decide_bindings(version.bindings, context)


def decide_bindings(
    bindings: Sequence[Binding], context: Mapping[str, Any]
) -> list[BindingDecision]:
    """Decide ``bindings`` in their order."""
    return [_decide(binding, context) for binding in bindings]


def _decide(binding: Binding, context: Mapping[str, Any]) -> BindingDecision:
    if not binding.values.enabled:
        return _always(binding, applies=False, reason=DISABLED)
    if binding.expression is None:
        return _always(binding, applies=True, reason=NO_EXPRESSION)
    decision = binding.expression.evaluate(context)
    return BindingDecision(
        binding=binding,
        applies=decision.applies and decision.reason == TRUE,
        reason=decision.reason,
        detail=decision.detail,
        read=decision.read,
        parts=decision.parts,
    )


def _always(binding: Binding, *, applies: bool, reason: str) -> BindingDecision:
    return BindingDecision(
        binding=binding, applies=applies, reason=reason, detail=None, read=(), parts=()
    )


def applicable(decisions: list[BindingDecision]) -> list[Binding]:
    """Return the first applying binding of each knowledge base, in order."""
    first: dict[Any, Binding] = {}
    for decision in decisions:
        if decision.applies:
            first.setdefault(decision.binding.values.knowledge_base, decision.binding)
    return list(first.values())


def resolve(
    *,
    version: Runnable,
    context: Mapping[str, Any],
    access: Access,
    known: str | None = None,
    trace: bool = True,
    conversation_id: str = "",
) -> dict[str, Any]:
    """Return all that an agent needs to start a conversation, with the reason of each decision.

    ``known`` is the ``etag`` of an earlier answer: where it still holds the answer is
    ``{"unchanged": true, "etag": …}`` and leaves no trace; nor does ``trace`` False.
    """
    decisions = decide(version, context)
    described = [decision.as_json(version) for decision in decisions]
    answer: dict[str, Any] = {
        "agent": version.slug,
        "version": version.number if version.number is not None else "draft",
        "digest": version.digest or None,
        "prompt": version.configuration.prompt,
        "model": version.configuration.model,
        "parameters": version.configuration.parameters,
        "tools": [tool.as_json() for tool in version.configuration.tools],
        "bindings": described,
        "knowledgeBases": [
            {
                **version.knowledge_base(binding.values.knowledge_base),
                "instruction": binding.values.instruction,
            }
            for binding in applicable(decisions)
        ],
        "contextProblems": context_problems(version.variables, dict(context)),
    }
    # Key order matters to models and not to canonical JSON, so the text itself is digested.
    etag = digest_json({"schema": 1, "kind": "resolution", "answer": dump_received(answer)})
    if known == etag:
        return {"unchanged": True, "etag": etag}
    trace_id = None
    if trace:
        trace_id = record_trace(
            trace_of(
                "resolve",
                version=version,
                access=access,
                conversation_id=conversation_id,
                arguments={"context": kept_context(version, decisions, context)},
                decisions=[_traced(item) for item in described],
            )
        )
    return {**answer, "etag": etag, "traceId": str(trace_id) if trace_id else None}


def _traced(described: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in described.items() if key != "instruction"}
