"""Asking again what a trace says was asked, and comparing with what it says was answered.

The pinned state is asked, with every cache off. What a published version answered is answered
again, byte for byte; where it is not, the first difference is named with its cause.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from agents.drafting import draft_of
from agents.expressions import TRUE, Decision, Part, context_problems
from agents.models import Agent, AgentVersion
from agents.recording import kept_problems, overlap, protected_keys
from agents.resolution import BindingDecision, applicable, decide
from agents.versions import Runnable, published_from_rows, runnable
from registry.access import Access
from registry.errors import RegistryError
from registry.fields import dump_received
from retrieval import search
from retrieval.models import Trace
from retrieval.questions import Question
from retrieval.replaying import (
    PURGED,
    ROWS_CHANGED,
    Difference,
    GroupReplay,
    replay_group,
    snapshot_gone,
    target_as_traced,
)

# Why less than everything was compared.
SENSITIVE = "sensitive"
DRAFT_CHANGED = "draftChanged"
FAILED_GROUPS = "failedGroups"

VERSION_GONE = "version.gone"
DRAFT_MOVED = "draft.changed"

_DECISION_FIELDS = ("label", "knowledgeBase", "expression", "applies", "reason", "detail", "parts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What asking again came to.

    ``partial`` says why something could not be compared: ``sensitive`` (values that a trace does
    not keep decided; what came of them was taken as kept), ``draftChanged`` (the decisions of a
    draft that has been edited since), ``failedGroups`` (a knowledge base that had failed).
    """

    trace: Trace
    difference: Difference | None = None
    partial: str | None = None
    purged_documents: int = 0

    @property
    def identical(self) -> bool:
        return self.difference is None

    @property
    def only_purged(self) -> bool:
        """Say whether all that differs is what a purge took."""
        return self.difference is not None and self.difference.cause == PURGED

    def as_json(self) -> dict[str, Any]:
        answer: dict[str, Any] = {"identical": self.identical, "partial": self.partial}
        if self.purged_documents:
            answer["purged"] = {"documents": self.purged_documents}
        if self.difference is not None:
            answer["firstDifference"] = self.difference.as_json()
        return answer


class Replayer:
    """Replays traces; what several share is read from the rows once."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, int], Runnable | Difference] = {}

    def replay(self, trace: Trace) -> Replay:
        """Ask again and return what differs; never raises for what a trace holds."""
        if trace.version_number is None:
            return self._of_a_draft(trace)
        version = self._published(trace.agent_slug, trace.version_number)
        if isinstance(version, Difference):
            return Replay(trace=trace, difference=version)
        if version.digest != trace.manifest_digest:
            return Replay(
                trace=trace,
                difference=Difference(
                    field="manifestDigest",
                    expected=trace.manifest_digest,
                    found=version.digest,
                    detail="The version of this number is another one.",
                ),
            )
        difference, decisions, partial = _compared(trace, version)
        if difference is not None:
            return Replay(trace=trace, difference=difference, partial=partial)
        return _groups(trace, version, decisions, partial)

    def _of_a_draft(self, trace: Trace) -> Replay:
        version = _configuration_of_draft(trace)
        partial: str | None = None
        decisions: list[BindingDecision] = []
        if version is None:
            if trace.kind == Trace.Kind.RESOLVE:
                return Replay(
                    trace=trace,
                    difference=Difference(
                        field="decisions",
                        cause=DRAFT_MOVED,
                        detail=f"The draft of {trace.agent_slug} has been edited since revision "
                        f"{trace.draft_revision}, which was never published.",
                    ),
                )
            if trace.kind == Trace.Kind.RETRIEVE:
                partial = DRAFT_CHANGED
        else:
            difference, decisions, partial = _compared(trace, version)
            if difference is not None:
                return Replay(trace=trace, difference=difference, partial=partial)
        return _groups(trace, None, decisions, partial)

    def _published(self, slug: str, number: int) -> Runnable | Difference:
        key = (slug, number)
        if key not in self._versions:
            self._versions[key] = _read_version(slug, number)
        return self._versions[key]


def replay_trace(*, trace: Trace, access: Access) -> Replay:
    """Ask again what ``trace`` says was asked. Raises Forbidden: drafts are for editors."""
    if trace.version_number is None:
        access.require("editor")
    return Replayer().replay(trace)


def replay_for_retrieval(trace: Trace) -> dict[str, Any]:
    """Replay a trace for a page of retrieval's, which knows no agent."""
    return Replayer().replay(trace).as_json()


def _read_version(slug: str, number: int) -> Runnable | Difference:
    rows = AgentVersion.objects.filter(agent__slug=slug, number=number, state="published")
    version_id = rows.values_list("pk", flat=True).first()
    if version_id is None:
        return Difference(
            field="version", cause=VERSION_GONE, detail=f"There is no version {number} of {slug}."
        )
    try:
        return published_from_rows(slug, version_id)
    except RegistryError as error:
        return Difference(field="version", cause=error.code, detail=error.detail)
    except (LookupError, TypeError, ValueError) as error:
        return Difference(field="version", cause=ROWS_CHANGED, detail=f"Its manifest: {error!r}")


def _configuration_of_draft(trace: Trace) -> Runnable | None:
    """Return the draft as it was at the trace's revision, published meanwhile or not."""
    agent = Agent.objects.filter(slug=trace.agent_slug).first()
    if agent is None:
        return None
    draft = draft_of(agent)
    if draft.revision == trace.draft_revision:
        return runnable(agent, draft)
    published = agent.versions.filter(state="published", revision=trace.draft_revision or 0).first()
    if published is None:
        return None
    try:
        return published_from_rows(agent.slug, published.pk)
    except RegistryError:
        return None


def _compared(
    trace: Trace, version: Runnable
) -> tuple[Difference | None, list[BindingDecision], str | None]:
    difference, decisions, partial = _decisions(trace, version)
    if difference is None and trace.context_problems is not None:
        difference, unknown = _problems(trace, version)
        partial = partial or (SENSITIVE if unknown else None)
    return difference, decisions, partial


def _problems(trace: Trace, version: Runnable) -> tuple[Difference | None, bool]:
    """Compare what was said of the context; and say whether some of it cannot be known."""
    context = trace.arguments["context"]
    masked = _masked(version, context)
    unknown = {
        variable.name
        for variable in version.variables
        if any(overlap(variable.keys, keys) for keys in masked)
    }
    again = kept_problems(version, context_problems(version.variables, context))
    expected, found = (
        [one for one in problems if one["variable"] not in unknown]
        for problems in (trace.context_problems, json.loads(dump_received(again)))
    )
    for before, now in zip_longest(expected, found):
        if before != now:
            return Difference(field="contextProblems", expected=before, found=now), bool(unknown)
    return None, bool(unknown)


def _masked(version: Runnable, context: Any) -> list[tuple[str, ...]]:
    """Return the names whose values a trace has as HMAC."""
    return [
        keys
        for variable in version.variables
        if variable.sensitive and (keys := protected_keys(context, variable.keys))
    ]


def _decisions(
    trace: Trace, version: Runnable
) -> tuple[Difference | None, list[BindingDecision], str | None]:
    if trace.kind == Trace.Kind.CALL:
        return None, [], None
    context = trace.arguments["context"]
    kept = trace.decisions
    masked = _masked(version, context)
    decisions = decide(version, context)
    partial = None
    for index, decision in enumerate(decisions):
        expression = decision.binding.expression
        if (
            expression is not None
            and decision.binding.values.enabled
            and index < len(kept)
            and expression.reads_any(masked)
        ):
            partial = SENSITIVE
            again = expression.decide_again(context, masked=masked, kept=_decision(kept[index]))
            decisions[index] = replace(
                decision,
                applies=again.applies and again.reason == TRUE,
                reason=again.reason,
                detail=again.detail,
                parts=again.parts,
            )
    found = [decision.as_json(version) for decision in decisions]
    return next(_decision_differences(trace, kept, found), None), decisions, partial


def _decision_differences(
    trace: Trace, kept: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]
) -> Iterator[Difference]:
    for before, now in zip(kept, found, strict=False):
        for field in _DECISION_FIELDS:
            if field == "knowledgeBase" and trace.version_number is None:
                continue  # its name may be another now, and no draft pins it
            if before.get(field) != now.get(field):
                yield Difference(
                    field=f"decisions.{field}",
                    expected=before.get(field),
                    found=now.get(field),
                    binding=before["label"],
                )
    if len(kept) != len(found):
        yield Difference(field="decisions", expected=len(kept), found=len(found))


def _decision(kept: Mapping[str, Any]) -> Decision:
    return Decision(
        applies=kept["applies"],
        reason=kept["reason"],
        detail=kept["detail"],
        read=(),
        parts=tuple(
            Part(part["expression"], part["value"], part["reason"]) for part in kept["parts"]
        ),
    )


def _groups(
    trace: Trace,
    version: Runnable | None,
    decisions: Sequence[BindingDecision],
    partial: str | None,
) -> Replay:
    """Ask each knowledge base again; ``version`` None is a draft, asked as the trace has it."""
    if trace.kind == Trace.Kind.RESOLVE:
        return Replay(trace=trace, partial=partial)
    question = Question(
        query=trace.arguments["query"],
        top_k=trace.arguments["topK"],
        confidence_threshold=trace.arguments["confidenceThreshold"],
    )
    difference = _other_bases(trace, version, decisions)
    receipts = []
    purged = 0
    for group in trace.groups:
        if difference is not None and difference.cause != PURGED:
            break
        if "error" in group:
            partial = partial or FAILED_GROUPS
            continue
        replayed = _replay_group(group, version, question)
        # What a purge took is said only where nothing else differs.
        difference = replayed.difference or difference
        purged += replayed.purged_documents
        receipts.append(replayed.receipt)
    if difference is None and trace.kind == Trace.Kind.RETRIEVE and trace.receipt:
        receipt = search.groups_receipt([one for one in receipts if one])
        if receipt != trace.receipt:
            difference = Difference(field="receipt", expected=trace.receipt, found=receipt)
    return Replay(trace=trace, difference=difference, partial=partial, purged_documents=purged)


def _replay_group(
    group: Mapping[str, Any], version: Runnable | None, question: Question
) -> GroupReplay:
    base_id = uuid.UUID(group["knowledgeBase"]["id"])
    target = target_as_traced(group) if version is None else version.targets.get(base_id)
    if target is None:
        return GroupReplay(difference=snapshot_gone(group), receipt=None)
    return replay_group(group, target, question)


def _other_bases(
    trace: Trace, version: Runnable | None, decisions: Sequence[BindingDecision]
) -> Difference | None:
    """Return the difference where other knowledge bases would be asked now."""
    if version is None:
        return None
    if trace.kind == Trace.Kind.CALL:
        tool = version.tool(trace.arguments["tool"])
        expected = [str(tool.knowledge_base)]
    else:
        expected = [str(one.values.knowledge_base) for one in applicable(list(decisions))]
    asked = [group["knowledgeBase"]["id"] for group in trace.groups]
    if asked == expected:
        return None
    return Difference(field="groups", expected=asked, found=expected)
