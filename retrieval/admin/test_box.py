"""The test box: a question put to a knowledge base by the very code that a tool call runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from registry.admin_base import show_errors
from registry.errors import RegistryError
from retrieval.admin.forms import QUESTION_FIELDS, QuestionForm
from retrieval.models import IndexSnapshot, KnowledgeBase
from retrieval.questions import read_question
from retrieval.trials import try_question

_MOST_SNAPSHOTS = 50
_SOURCES = {
    "call": "this question",
    "knowledgeBase": "the knowledge base's settings",
    "default": "the built-in default",
    "cap": "the cap that holds for everybody",
    "recordedOnly": "recorded only, without effect in this mode",
}
_NAMES = {
    "topK": "Top K",
    "confidenceThreshold": "Confidence threshold (the floor)",
    "similarityThreshold": "Similarity threshold",
    "maxContextLength": "Max context length",
    "rerankEnabled": "Reranking",
    "diversityEnabled": "Diversity",
    "queryTokens": "Tokens of the question that were read",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One of the topK best as an answer shows it. ``fate``: kept, floor (below it), length
    (does not fit), or order (reranking or repetition put others in its place)."""

    rank: int
    fate: str
    passage: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """All candidates, where the floor cuts, and why each setting was what it was."""

    rows: list[Row]
    kept: int
    floor: float
    # The rank before which the floor cuts, None where it cuts nothing off
    cut_before: int | None
    # Name, value, where it came from
    applied: list[tuple[str, Any, str]]
    snapshot: int
    receipt: str


def test_box(
    base: KnowledgeBase, typed: Mapping[str, Any] | None
) -> tuple[QuestionForm, Answer | None]:
    """Return the form and, for a question that was answered, the answer."""
    form = QuestionForm(typed, snapshots=_choices(base))
    if not form.is_valid():
        return form, None
    try:
        found = try_question(
            base=base,
            question=read_question(form.body()),
            snapshot=form.cleaned_data["snapshot"],
        )
    except RegistryError as error:
        show_errors(form, error, QUESTION_FIELDS)
        return form, None
    return form, _answer(found)


def _choices(base: KnowledgeBase) -> list[tuple[int, str]]:
    ready = IndexSnapshot.objects.filter(knowledge_base=base, state="ready").order_by("-number")
    return [
        (
            snapshot.number,
            f"#{snapshot.number}: {snapshot.document_count} documents, "
            f"{snapshot.chunk_count} chunks",
        )
        for snapshot in ready[:_MOST_SNAPSHOTS]
    ]


def _answer(found: Mapping[str, Any]) -> Answer:
    floor = found["applied"]["confidenceThreshold"]["value"]
    results = found["results"]
    rows = [
        Row(rank=rank, fate=_fate(candidate, floor, found.get("dropped")), passage=passage)
        for rank, candidate in enumerate(found["candidates"], start=1)
        for passage in [results[rank - 1] if candidate["kept"] else candidate]
    ]
    return Answer(
        rows=rows,
        kept=len(results),
        floor=floor,
        cut_before=next((row.rank for row in rows if row.fate == "floor"), None),
        applied=[
            (_NAMES.get(name, name), said["value"], _SOURCES.get(said["source"], said["source"]))
            for name, said in found["applied"].items()
        ],
        snapshot=found["snapshot"]["number"],
        receipt=found["receipt"],
    )


def _fate(candidate: Mapping[str, Any], floor: float, dropped: Mapping[str, int] | None) -> str:
    if candidate["kept"]:
        return "kept"
    if candidate["confidence"] < floor:
        return "floor"
    return "length" if dropped and dropped["maxContextLength"] else "order"
