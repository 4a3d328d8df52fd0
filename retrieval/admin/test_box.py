"""The test box: a question put to a knowledge base by the very code that a tool call runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.cache import cache
from redis.exceptions import RedisError

from registry.admin_base import show_errors
from registry.errors import RegistryError
from retrieval.admin.forms import QUESTION_FIELDS, QuestionForm
from retrieval.models import IndexSnapshot, KnowledgeBase
from retrieval.questions import read_question
from retrieval.test_box import try_question

_MOST_SNAPSHOTS = 50
_TOKEN = re.compile(r"[0-9a-f-]{36}")
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
    written: Written


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a model wrote, or why it did not, and what stands out."""

    # The text in parts; a part that cites a passage has its number
    parts: list[tuple[str, int | None]]
    model: str
    notice: str
    diagnosis: list[Mapping[str, str]]


def asked(
    base: KnowledgeBase,
    typed: Mapping[str, Any] | None,
    *,
    answer: bool = False,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> tuple[QuestionForm, Answer | None]:
    """Return the form and, for a question that was answered, the answer.

    With ``answer`` a model answers before this returns, unless ``is_cancelled``.
    """
    form = QuestionForm(typed, snapshots=_choices(base))
    if not form.is_valid():
        return form, None
    try:
        found = try_question(
            base=base,
            question=read_question(form.body()),
            snapshot=form.cleaned_data["snapshot"],
            answer=answer,
            is_cancelled=is_cancelled,
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
        written=_written(found),
    )


def _written(found: Mapping[str, Any]) -> Written:
    answer, notice = found["answer"], found["answerNotice"]
    return Written(
        parts=_linked(answer["text"], answer["citations"]) if answer else [],
        model=answer["model"] if answer else "",
        notice=notice["message"] if notice else "",
        diagnosis=found["diagnosis"],
    )


def _linked(text: str, cited: Sequence[int]) -> list[tuple[str, int | None]]:
    """Return ``text`` in parts, each citation of a passage a part of its own."""
    parts: list[tuple[str, int | None]] = []
    for part in re.split(r"(?<=[\[,;\s])(\d{1,3})(?=[\],;])", text):
        number = int(part) if part.isascii() and part.isdecimal() else None
        parts.append((part, number if number in cited else None))
    return parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellable:
    """One answer that a page waits for, by the token that the page made for it."""

    key: str

    @classmethod
    def of(cls, user_id: object, token: str) -> Cancellable:
        """Name the answer; what is no token names one that nobody can cancel."""
        return cls(key=f"answer-cancelled:{user_id}:{token}" if _TOKEN.fullmatch(token) else "")

    def cancel(self) -> None:
        """End the answer, whichever process waits for it; without Redis its time ends it."""
        if self.key:
            with suppress(RedisError):
                cache.set(self.key, True, settings.ANSWER_TIMEOUT_SECONDS * 2)  # noqa: FBT003

    def is_cancelled(self) -> bool:
        """Say whether the page is no longer interested."""
        if not self.key:
            return False
        with suppress(RedisError):
            return bool(cache.get(self.key))
        return False


def _fate(candidate: Mapping[str, Any], floor: float, dropped: Mapping[str, int] | None) -> str:
    if candidate["kept"]:
        return "kept"
    if candidate["confidence"] < floor:
        return "floor"
    return "length" if dropped and dropped["maxContextLength"] else "order"
