"""Which knowledge bases apply where: the bindings of a configuration over many contexts.

The contexts are made of the values that are declared, or, for a name without listed values, of
what the expressions compare it with; and of the draft's saved samples.
"""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.configuration import Configuration
from agents.expressions import MISSING, Choices, choices_of, usual_value
from agents.remarks import Remark
from agents.resolution import BindingDecision, decide_bindings
from agents.versions import Binding, parsed_bindings
from registry.errors import FieldError, Invalid
from registry.fields import dump_received

# Contexts made of declared values. All combinations while they are not more, else for each
# binding those of the names it reads (MOST_OF_ONE at most), then every pair of values of two names.
MOST_CONTEXTS = 256
MOST_OF_ONE = 64
_MOST_PAIRS = 20_000
_LONGEST_EXAMPLE = 200

NEVER_APPLIES = "coverage.never_applies"
SHADOWED = "coverage.shadowed"
NO_KNOWLEDGE_BASE = "coverage.no_knowledge_base"

_Row = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedContext:
    """One context with what each binding decides; ``name`` is that of a saved sample.

    ``shown`` are the names that differ between the contexts, with their values.
    """

    name: str | None
    context: dict[str, Any]
    shown: Sequence[tuple[str, Any]]
    decisions: Sequence[BindingDecision]
    attached: Sequence[uuid.UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The table, and what it makes one wonder about.

    ``combinations`` is how many there are of the values tried, ``complete`` whether all of them
    were tried and the values stand for everything that is declared.
    """

    bindings: Sequence[Binding]
    names: Mapping[uuid.UUID, str]
    choices: Sequence[Choices]
    contexts: Sequence[TriedContext]
    combinations: int
    complete: bool
    never: Sequence[int]
    shadowed: Mapping[int, Sequence[int]]

    @property
    def tried(self) -> int:
        """How many combinations of values are among the contexts."""
        return sum(one.name is None for one in self.contexts)

    @property
    def without(self) -> list[TriedContext]:
        """The contexts to which no knowledge base is attached."""
        return [one for one in self.contexts if not one.attached]

    def label(self, position: int) -> str:
        return self.bindings[position].values.label

    @property
    def warnings(self) -> list[Remark]:
        tried = _counted(len(self.contexts), "context")
        found = [
            Remark(
                code=NEVER_APPLIES,
                message=f"“{self.label(position)}” applies in none of the {tried} tried.",
                field=f"bindings.{position}.expression",
                value=self.bindings[position].values.expression,
            )
            for position in self.never
        ]
        for position, by in self.shadowed.items():
            earlier = ", ".join(f"“{self.label(one)}”" for one in by)
            base = self.names[self.bindings[position].values.knowledge_base]
            found.append(
                Remark(
                    code=SHADOWED,
                    message=f"“{self.label(position)}” changes nothing: wherever it applies, "
                    f"{earlier} has attached {base} already.",
                    field=f"bindings.{position}",
                    value=self.bindings[position].values.expression,
                )
            )
        if self.bindings and self.without:
            example = self.without[0].name or dump_received(dict(self.without[0].shown))
            found.append(
                Remark(
                    code=NO_KNOWLEDGE_BASE,
                    message=f"In {len(self.without)} of {tried} no knowledge base applies, for "
                    f"example {example[:_LONGEST_EXAMPLE]}.",
                    field="bindings",
                )
            )
        return found

    def as_json(self) -> dict[str, Any]:
        applied = [
            sum(one.decisions[position].applies for one in self.contexts)
            for position in range(len(self.bindings))
        ]
        return {
            "variables": [
                {
                    "name": choice.label,
                    "values": [value for value in choice.values if value is not MISSING],
                    "leftOut": MISSING in choice.values,
                }
                for choice in self.choices
            ],
            "combinations": self.combinations,
            "tried": self.tried,
            "complete": self.complete,
            "bindings": [
                {
                    "id": str(binding.values.id),
                    "label": binding.values.label,
                    "knowledgeBase": self._base(binding.values.knowledge_base),
                    "expression": binding.values.expression,
                    "enabled": binding.values.enabled,
                    "applies": applied[position],
                    "neverApplies": position in self.never,
                    "shadowedBy": [self.label(by) for by in self.shadowed.get(position, ())],
                }
                for position, binding in enumerate(self.bindings)
            ],
            "contexts": [
                {
                    "sample": one.name,
                    "context": one.context,
                    "decisions": [
                        {"applies": decision.applies, "reason": decision.reason}
                        for decision in one.decisions
                    ],
                    "knowledgeBases": [self._base(base) for base in one.attached],
                }
                for one in self.contexts
            ],
            "warnings": [remark.as_json() for remark in self.warnings],
        }

    def _base(self, base_id: uuid.UUID) -> dict[str, str]:
        return {"id": str(base_id), "name": self.names[base_id]}


def coverage_of(configuration: Configuration, names: Mapping[uuid.UUID, str]) -> Coverage:
    """Return the coverage of a configuration; ``names`` are those of its knowledge bases."""
    bindings = parsed_bindings(configuration)
    enabled = [one.expression for one in bindings if one.values.enabled and one.expression]
    choices = choices_of(enabled, configuration.variables)
    combinations = math.prod(len(choice.values) for choice in choices)
    everything = combinations <= MOST_CONTEXTS
    if everything:
        rows = list(itertools.product(*(range(len(choice.values)) for choice in choices)))
    else:
        reads = [set(expression.names) for expression in enabled]
        rows = _some_rows(choices, reads)
    usual = _usual(configuration)
    contexts = [
        _tried(bindings, None, _context(usual, choices, row), _shown(choices, row)) for row in rows
    ]
    contexts += [
        _tried(bindings, sample["name"], sample["context"], tuple(sample["context"].items()))
        for sample in configuration.sample_contexts
    ]
    never, shadowed = _useless(bindings, contexts)
    return Coverage(
        bindings=bindings,
        names=names,
        choices=choices,
        contexts=contexts,
        combinations=combinations,
        complete=everything and all(choice.exact for choice in choices),
        never=never,
        shadowed=shadowed,
    )


def refuse_uncovered(configuration: Configuration, names: Mapping[uuid.UUID, str]) -> None:
    """Raise Invalid (``publish.coverage``) naming every warning of the coverage."""
    warnings = coverage_of(configuration, names).warnings
    if warnings:
        raise Invalid(
            f"The draft is not published while its coverage has warnings: {warnings[0].message}",
            code="publish.coverage",
            errors=[
                FieldError(field=one.field, value=one.value, message=one.message)
                for one in warnings
            ],
            warnings=[one.code for one in warnings],
        )


def _tried(
    bindings: Sequence[Binding],
    name: str | None,
    context: dict[str, Any],
    shown: Sequence[tuple[str, Any]],
) -> TriedContext:
    decisions = decide_bindings(bindings, context)
    attached = dict.fromkeys(
        decision.binding.values.knowledge_base for decision in decisions if decision.applies
    )
    return TriedContext(
        name=name, context=context, shown=shown, decisions=decisions, attached=list(attached)
    )


def _useless(
    bindings: Sequence[Binding], contexts: Sequence[TriedContext]
) -> tuple[list[int], dict[int, list[int]]]:
    """Return the bindings that never apply, and those that never add their knowledge base."""
    never, shadowed = [], {}
    for position, binding in enumerate(bindings):
        if not binding.values.enabled:
            continue
        where = [one for one in contexts if one.decisions[position].applies]
        if not where:
            never.append(position)
            continue
        earlier = [
            before
            for before in range(position)
            if bindings[before].values.knowledge_base == binding.values.knowledge_base
        ]
        firsts = {
            next((before for before in earlier if one.decisions[before].applies), position)
            for one in where
        }
        if position not in firsts:
            shadowed[position] = sorted(firsts)
    return never, shadowed


def _usual(configuration: Configuration) -> dict[str, Any]:
    """Return a context with what is required, so that it has no problems of its own."""
    context: dict[str, Any] = {}
    for variable in configuration.variables:
        if variable.required:
            _put(context, variable.keys, usual_value(variable))
    return context


def _context(usual: Mapping[str, Any], choices: Sequence[Choices], row: _Row) -> dict[str, Any]:
    context = _copied(usual)
    for choice, index in zip(choices, row, strict=True):
        if choice.values[index] is not MISSING:
            _put(context, choice.keys, choice.values[index])
    return context


def _shown(choices: Sequence[Choices], row: _Row) -> list[tuple[str, Any]]:
    return [
        (choice.label, choice.values[index])
        for choice, index in zip(choices, row, strict=True)
        if choice.values[index] is not MISSING
    ]


def _copied(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _copied(member) if isinstance(member, dict) else member
        for key, member in value.items()
    }


def _put(context: dict[str, Any], keys: tuple[str, ...], value: Any) -> None:
    inside = context
    for key in keys[:-1]:
        below = inside.get(key)
        if not isinstance(below, dict):
            below = inside[key] = {}
        inside = below
    inside[keys[-1]] = value


def _some_rows(choices: Sequence[Choices], reads: Sequence[set[str]]) -> list[_Row]:
    """Return rows for choices that have too many combinations to try them all."""
    rows: dict[_Row, None] = {}
    for row in itertools.chain(_rows_of_each(choices, reads), _rows_of_pairs(choices)):
        rows.setdefault(row)
        if len(rows) == MOST_CONTEXTS:
            break
    return list(rows)


def _rows_of_each(choices: Sequence[Choices], reads: Sequence[set[str]]) -> Iterator[_Row]:
    """Yield, for each expression, the combinations of the names it reads, and each value once."""
    for names in reads:
        ranges = [
            range(len(choice.values)) if choice.label in names else range(1) for choice in choices
        ]
        if math.prod(map(len, ranges)) <= MOST_OF_ONE:
            yield from itertools.product(*ranges)
    for index, choice in enumerate(choices):
        for value in range(len(choice.values)):
            yield tuple(value if at == index else 0 for at in range(len(choices)))


def _rows_of_pairs(choices: Sequence[Choices]) -> Iterator[_Row]:
    """Yield rows until every two values of two names have stood together, greedily."""
    sizes = [len(choice.values) for choice in choices]
    if sum(a * b for a, b in itertools.combinations(sizes, 2)) > _MOST_PAIRS:
        return
    left = dict.fromkeys(
        ((i, a), (j, b))
        for i, j in itertools.combinations(range(len(sizes)), 2)
        for a in range(sizes[i])
        for b in range(sizes[j])
    )
    while left:
        row = dict(next(iter(left)))
        for at in range(len(sizes)):
            if at not in row:
                row[at] = max(
                    range(sizes[at]),
                    key=lambda value: sum(
                        _pair(at, value, *other) in left for other in row.items()
                    ),
                )
        for one, other in itertools.combinations(row.items(), 2):
            left.pop(_pair(*one, *other), None)
        yield tuple(row[at] for at in range(len(sizes)))


def _pair(i: int, a: int, j: int, b: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return ((i, a), (j, b)) if i < j else ((j, b), (i, a))


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
