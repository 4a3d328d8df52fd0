"""Which knowledge bases apply to a conversation, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.expressions import TRUE, Decision
from agents.versions import Binding, Runnable

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
    return [decide_binding(binding, context) for binding in bindings]


def decide_binding(binding: Binding, context: Mapping[str, Any]) -> BindingDecision:
    """Decide one binding."""
    if not binding.values.enabled:
        return _always(binding, applies=False, reason=DISABLED)
    if binding.expression is None:
        return _always(binding, applies=True, reason=NO_EXPRESSION)
    return decided(binding, binding.expression.evaluate(context))


def decided(binding: Binding, decision: Decision) -> BindingDecision:
    """Return what the decision of its expression means for a binding."""
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


def applicable(decisions: Iterable[BindingDecision]) -> list[Binding]:
    """Return the first applying binding of each knowledge base, in order."""
    first: dict[Any, Binding] = {}
    for decision in decisions:
        if decision.applies:
            first.setdefault(decision.binding.values.knowledge_base, decision.binding)
    return list(first.values())
