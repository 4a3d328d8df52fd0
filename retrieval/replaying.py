"""Asking a snapshot again what it was asked, and comparing rank by rank with what a trace kept.

Everything is recomputed from the rows: the question's stored vector, the chunks' vectors, texts
and places. No cache is asked and nothing is written.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from registry.errors import RegistryError
from retrieval.models import IndexSnapshot, KnowledgeBase, QueryEmbedding, Trace
from retrieval.purging import purged_documents
from retrieval.questions import Question
from retrieval.search import Retrieval, Target, retrieve_again
from retrieval.search_settings import SearchSettings
from retrieval.verification import Verifier

# Causes. Others are the codes of errors, such as ``model.not_available``.
PURGED = "purged"
SNAPSHOT_GONE = "snapshot.gone"
ROWS_CHANGED = "rows.changed"
QUESTION_VECTOR_CHANGED = "question.vector_changed"
QUESTION_VECTOR_FORGOTTEN = "question.vector_forgotten"
OTHER_SOFTWARE = "software.other"

_RESULT_FIELDS = (
    ("confidence",),
    ("document", "name"),
    ("document", "revision"),
    ("passageDigest",),
    ("page",),
    ("sectionDigest",),
    ("metadataDigest",),
    ("truncated",),
)


TraceReplayer = Callable[[Trace], Mapping[str, Any]]
_replayers: list[TraceReplayer] = []


def register_replayer(replayer: TraceReplayer) -> None:
    """Set the function that replays a whole trace, versions and decisions included.

    It returns ``{identical, partial, purged?, firstDifference?}``. The app above gives it, since
    retrieval knows no agent.
    """
    _replayers[:] = [replayer]


def replayed(trace: Trace) -> Mapping[str, Any]:
    """Replay a trace by the registered function."""
    return _replayers[0](trace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first thing that is not as the trace has it.

    ``field`` is its dotted path in the trace. ``rank`` counts from 1; ``document`` is a name,
    ``chunk`` a digest, ``position`` the chunk's in its document, from 0. ``cause`` is a code,
    None where nothing tells; ``detail`` is a sentence for a person.
    """

    field: str
    expected: Any = None
    found: Any = None
    knowledge_base: str | None = None
    binding: str | None = None
    rank: int | None = None
    document: str | None = None
    chunk: str | None = None
    position: int | None = None
    cause: str | None = None
    detail: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "field": self.field,
            "expected": self.expected,
            "found": self.found,
            "knowledgeBase": self.knowledge_base,
            "binding": self.binding,
            "rank": self.rank,
            "document": self.document,
            "chunk": self.chunk,
            "position": self.position,
            "cause": self.cause,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReplay:
    """One knowledge base asked again; ``receipt`` is None where it could not be asked."""

    difference: Difference | None
    receipt: str | None
    purged_documents: int = 0


def replay_group(traced: Mapping[str, Any], target: Target, question: Question) -> GroupReplay:
    """Ask ``target`` again and compare with one group of a trace."""
    name = target.name
    try:
        again = retrieve_again(target, question)
    except RegistryError as error:
        return GroupReplay(
            difference=Difference(
                field="results", knowledge_base=name, cause=error.code, detail=error.detail
            ),
            receipt=None,
        )
    found = again.trace_group()
    difference = next(_differences(traced, found, name), None)
    if difference is not None:
        difference = _explained(difference, traced, again)
    return GroupReplay(
        difference=difference,
        receipt=again.receipt,
        purged_documents=again.purged_documents,
    )


def target_as_traced(traced: Mapping[str, Any]) -> Target | None:
    """Return what a draft's question was put to, if its snapshot is still there.

    A draft pins nothing, so the settings are read back from what the answer said it applied.
    """
    base = KnowledgeBase.objects.filter(pk=traced["knowledgeBase"]["id"]).first()
    if base is None or "snapshot" not in traced:
        return None
    snapshot = (
        IndexSnapshot.objects.filter(
            knowledge_base=base, state="ready", digest=traced["snapshot"]["digest"]
        )
        .select_related("model")
        .order_by("number")
        .first()
    )
    if snapshot is None:
        return None
    applied = traced["applied"]
    return Target(
        knowledge_base_id=base.pk,
        name=traced["knowledgeBase"]["name"],
        snapshot=snapshot,
        settings=SearchSettings(
            # Where the question said how many, this is not read.
            default_top_k=50 if applied["topK"]["source"] == "cap" else applied["topK"]["value"],
            similarity_threshold=applied["similarityThreshold"]["value"],
            max_context_length=applied["maxContextLength"]["value"],
            rerank_enabled=applied["rerankEnabled"]["value"],
            settings_mode=(
                "recorded" if applied["rerankEnabled"]["source"] == "recordedOnly" else "applied"
            ),
        ),
        published=False,
    )


def snapshot_gone(traced: Mapping[str, Any]) -> Difference:
    """Return the difference of a draft's answer whose snapshot was pruned or deleted."""
    base = traced["knowledgeBase"]["name"]
    number = traced.get("snapshot", {}).get("number")
    return Difference(
        field="snapshot",
        expected=traced.get("snapshot", {}).get("digest"),
        knowledge_base=base,
        cause=SNAPSHOT_GONE,
        detail=f"Snapshot {number} of {base} is gone; a draft keeps none.",
    )


def _differences(
    traced: Mapping[str, Any], found: Mapping[str, Any], base: str
) -> Iterator[Difference]:
    for field in (("snapshot", "digest"), ("question", "query"), ("question", "model")):
        yield from _compared(traced, found, field, base)
    pairs = zip_longest(traced["results"], found["results"])
    for rank, (before, now) in enumerate(pairs, start=1):
        yield from _compared_results(before, now, rank, base)
    for name in ("applied", "belowThreshold", "receipt"):
        yield from _compared(traced, found, (name,), base)


def _compared(
    traced: Mapping[str, Any], found: Mapping[str, Any], field: tuple[str, ...], base: str
) -> Iterator[Difference]:
    if field[0] in traced and _at(traced, field) != _at(found, field):
        yield Difference(
            field=".".join(field),
            expected=_at(traced, field),
            found=_at(found, field),
            knowledge_base=base,
        )


def _compared_results(
    before: Mapping[str, Any] | None, now: Mapping[str, Any] | None, rank: int, base: str
) -> Iterator[Difference]:
    one = before or now or {}
    of = Difference(
        field="results",
        knowledge_base=base,
        rank=rank,
        document=one["document"]["name"],
        chunk=one["chunk"],
    )
    if before is None or now is None or _identity(before) != _identity(now):
        yield replace(of, field="chunk", expected=_shown(before), found=_shown(now))
        return
    for field in _RESULT_FIELDS:
        if "passageDigest" not in before and field[0] not in before:
            continue  # a trace of before that was kept
        if _at(before, field) != _at(now, field):
            yield replace(
                of, field=".".join(field), expected=_at(before, field), found=_at(now, field)
            )


def _identity(result: Mapping[str, Any]) -> tuple[str, str]:
    return result["chunk"], result["document"]["id"]


def _shown(result: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if result is None:
        return None
    return {
        "chunk": result["chunk"],
        "document": result["document"]["name"],
        "confidence": result["confidence"],
    }


def _at(value: Mapping[str, Any], field: tuple[str, ...]) -> Any:
    found: Any = value
    for key in field:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _explained(difference: Difference, traced: Mapping[str, Any], again: Retrieval) -> Difference:
    """Return the difference with its cause, by looking at what it can have come from."""
    found = again.trace_group()
    snapshot = again.target.snapshot
    involved = _involved(difference, traced, found)
    difference = replace(
        difference, position=_position(snapshot, difference.document, difference.chunk)
    )
    sealed = Verifier().differs(snapshot, involved)
    if sealed is not None:
        where = "" if sealed.document is None else f"{sealed.document}: "
        if sealed.chunk is not None:
            where = f"{sealed.document}, chunk {sealed.chunk}: "
        return replace(
            difference,
            cause=ROWS_CHANGED,
            detail=f"{where}{sealed.what} is not what was sealed.",
        )
    vector = _at(traced, ("question", "vector"))
    if vector is not None and vector != found["question"]["vector"]:
        if _is_stored(snapshot, again.question):
            return replace(
                difference,
                cause=QUESTION_VECTOR_CHANGED,
                detail="The question's stored vector is not the one that was used then.",
            )
        return replace(
            difference,
            cause=QUESTION_VECTOR_FORGOTTEN,
            detail="The question's vector was forgotten; computed anew it has other last bits.",
        )
    before = _at(traced, ("purged", "documents")) or 0
    if again.purged_documents > before and _follows_from_purges(traced, found, snapshot):
        count = again.purged_documents - before
        return replace(
            difference,
            cause=PURGED,
            detail=f"Documents purged since: {count}; their passages are missing.",
        )
    return replace(
        difference,
        cause=OTHER_SOFTWARE,
        detail="Rows and vectors are as they were sealed: this software, or the machine, ranks "
        "otherwise than the one that answered.",
    )


def _involved(
    difference: Difference, traced: Mapping[str, Any], found: Mapping[str, Any]
) -> set[uuid.UUID]:
    results = [*traced["results"], *found["results"]]
    if difference.rank is not None:
        results = [
            group["results"][difference.rank - 1]
            for group in (traced, found)
            if len(group["results"]) >= difference.rank
        ]
    return {uuid.UUID(result["document"]["id"]) for result in results}


def _is_stored(snapshot: IndexSnapshot, question: Question) -> bool:
    rows = QueryEmbedding.objects.filter(model=snapshot.model, query_digest=question.digest)
    return rows.exists()


def _position(snapshot: IndexSnapshot, document: str | None, chunk: str | None) -> int | None:
    if document is None or chunk is None:
        return None
    found: int | None = (
        snapshot.members.filter(name=document, indexed_document__chunks__digest=chunk)
        .values_list("indexed_document__chunks__ordinal", flat=True)
        .order_by("indexed_document__chunks__ordinal")
        .first()
    )
    return found


def _follows_from_purges(
    traced: Mapping[str, Any], found: Mapping[str, Any], snapshot: IndexSnapshot
) -> bool:
    """Say whether what is found begins with what was answered, less the purged passages."""
    purged = {str(one) for one in purged_documents(snapshot)}
    left = [result for result in traced["results"] if result["document"]["id"] not in purged]
    return bool(found["results"][: len(left)] == left)
