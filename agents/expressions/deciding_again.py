"""Deciding again where part of the context was kept only as what it came to.

Sensitive values are not kept. The sub-expressions that read one take the truth value that was
kept of them; all else is evaluated anew.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import Any

from agents.expressions.evaluation import Decision, Evaluator, Outcome, decide
from agents.expressions.tree import ERROR, REASONS, Atom, Has, Name, Part, Read, Unknown
from agents.expressions.values import Work

Keys = tuple[str, ...]


def reads_any(names: Sequence[Name], masked: Collection[Keys]) -> bool:
    """Say whether any of ``names`` is, lies in or holds one of the masked names."""
    return any(_overlap(name.keys, keys) for name in names for keys in masked)


def decide_again(
    tree: ast.expr,
    names: Sequence[Name],
    context: object,
    *,
    masked: Collection[Keys],
    kept: Decision,
) -> Decision:
    """Return the decision for a context in which the values of ``masked`` names are gone.

    ``kept`` is what was decided then; its parts are taken where they read a masked name.
    """
    if kept.reason == ERROR:
        # Stopped somewhere in the middle: which part did that is not known.
        return kept
    decision = decide(
        tree,
        names,
        context,
        lambda values, work: _WithKeptParts(values, work, masked, kept.parts),
    )
    return decision._replace(detail=kept.detail) if decision.detail == _KEPT else decision


_KEPT = "as it was kept"


class _WithKeptParts(Evaluator):
    def __init__(
        self,
        names: Sequence[Any],
        work: Work,
        masked: Collection[Keys],
        kept: Sequence[Part],
    ) -> None:
        super().__init__(names, work)
        self.masked = masked
        self.kept = kept

    def _eval_atom(self, node: Atom) -> Outcome:
        below = [one for one in ast.walk(node) if isinstance(one, Read | Has)]
        if not reads_any([one.name for one in below], self.masked):
            return super()._eval_atom(node)
        # Parts come in the order in which they are evaluated: those inside this one first.
        here = len(self.parts)
        count = sum(isinstance(one, Atom) for one in ast.walk(node))
        taken = self.kept[here : here + count]
        if len(taken) < count or taken[-1].expression != node.parts[0].expression:
            # Not the parts of this expression: the difference will show.
            return super()._eval_atom(node)
        self.parts.extend(taken)
        part = taken[-1]
        if part.value is not None:
            return part.value
        return Unknown(REASONS.index(part.reason), node.subject.position, _KEPT)

    nodes = {**Evaluator.nodes, Atom: _eval_atom}


def _overlap(one: Keys, other: Keys) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]
