"""The decisions of a version for many contexts, each with its JSON.

A decision is a pure function of the values that its expression reads, and these come again where
whole contexts do not: what such values came to is remembered, within a bound for the process.
``agents.resolution.decide`` says the same and remembers nothing.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from agents.expressions import Part, together
from agents.resolution import BindingDecision, decide_binding, decided
from agents.versions import Binding, Runnable
from registry.fields import dump_received

# Decisions that a process remembers, about a kilobyte each; then it begins anew.
MOST_REMEMBERED: Final = 20_000


class Decided(NamedTuple):
    """A decision, its JSON and that one's SHA-256, and what a trace keeps of it."""

    decision: BindingDecision
    text: bytes
    digest: bytes
    traced: dict[str, Any]


_remembered: dict[tuple[Any, ...], Decided] = {}
_tokens = itertools.count()


class Decider:
    """Decides the bindings of one version."""

    def __init__(self, version: Runnable) -> None:
        self._version = version
        self._token = next(_tokens)
        self._heads = [self._head(binding) for binding in version.bindings]
        self._parts: dict[Part, str] = {}
        evaluated = [
            (position, binding)
            for position, binding in enumerate(version.bindings)
            if binding.values.enabled and binding.expression is not None
        ]
        self._evaluated = [(place, *one) for place, one in enumerate(evaluated)]
        self._together = together([one.expression for _, one in evaluated if one.expression])
        # Those that are off, or always apply, are decided for good.
        places = {position for position, _ in evaluated}
        self._always = [
            None if position in places else self._written(position, decide_binding(binding, {}))
            for position, binding in enumerate(version.bindings)
        ]

    def decide(self, context: Mapping[str, Any]) -> Sequence[Decided]:
        """Return the decision of each binding, in their order."""
        answer: list[Any] = list(self._always)
        names = self._together.read(context)
        for place, position, binding in self._evaluated:
            values = self._together.key(place, names)
            if values is None:
                answer[position] = self._written(position, decide_binding(binding, context))
                continue
            key = (self._token, position, values)
            found = _remembered.get(key)
            if found is None:
                decision = decided(binding, self._together.decide(place, names))
                found = self._written(position, decision)
                if len(_remembered) >= MOST_REMEMBERED:
                    _remembered.clear()
                _remembered[key] = found
            answer[position] = found
        return answer

    def _head(self, binding: Binding) -> str:
        values = binding.values
        text = dump_received(
            {
                "label": values.label,
                "knowledgeBase": self._version.knowledge_base(values.knowledge_base),
                "expression": values.expression,
                "instruction": values.instruction,
            }
        )
        return text[:-1]

    def _written(self, position: int, decision: BindingDecision) -> Decided:
        """Return a decision with the JSON of ``BindingDecision.as_json``."""
        parts = ",".join(map(self._part, decision.parts)) if decision.parts else ""
        applies = "true" if decision.applies else "false"
        detail = "null" if decision.detail is None else dump_received(decision.detail)
        text = (
            f'{self._heads[position]},"applies":{applies},"reason":"{decision.reason}",'
            f'"detail":{detail},"parts":[{parts}]}}'
        ).encode()
        traced = decision.as_json(self._version)
        del traced["instruction"]
        return Decided(decision, text, hashlib.sha256(text).digest(), traced)

    def _part(self, part: Part) -> str:
        text = self._parts.get(part)
        if text is None:
            text = self._parts[part] = dump_received(part._asdict())
        return text
