"""Putting questions to one snapshot by one ranking, and scoring what is found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from registry.errors import Conflict
from retrieval import search
from retrieval.candidates import Candidate
from retrieval.measures import DEEPEST, NAMES, Judged, mean, measure
from retrieval.models import Evaluation, EvaluationScore, IndexSnapshot, SnapshotMember
from retrieval.questions import Question
from retrieval.rankings import ranked
from retrieval.search_settings import SearchSettings

# Chunks looked at for the documents that measures look at; more where they are of few documents.
_FIRST_DEPTH = 200
_DEEPER = 4

Json = dict[str, Any]


class Asked:
    """One snapshot, by one ranking, as questions are put to it."""

    def __init__(
        self, evaluation: Evaluation, score: EvaluationScore, snapshot: IndexSnapshot | None
    ) -> None:
        if snapshot is None or snapshot.digest != score.snapshot_digest:
            raise Conflict(
                f"Snapshot {score.snapshot_number} was removed meanwhile.", code="snapshot.pruned"
            )
        base = evaluation.knowledge_base
        self._settings = SearchSettings.from_json(score.settings)
        self._target = search.Target(
            knowledge_base_id=base.pk,
            name=base.name,
            snapshot=snapshot,
            settings=self._settings,
            recipe=score.recipe,
            published=False,
        )
        wanted = [one for question in evaluation.questions for one in question["documents"]]
        members = SnapshotMember.objects.filter(snapshot=snapshot)
        self._ids = {
            str(key)
            for key in members.filter(
                document_id__in={one["document"] for one in wanted}
            ).values_list("document_id", flat=True)
        }
        self._by_name = {
            name: str(key)
            for name, key in members.filter(name__in={one["name"] for one in wanted}).values_list(
                "name", "document_id"
            )
        }

    def outcome(self, question: Json) -> Json:
        """Return what became of a question: the place of each document, what was missing."""
        documents = question["documents"]
        here = self._members(documents)
        pages = {
            key: set(one["pages"])
            for key, one in zip(here, documents, strict=True)
            if key is not None and one["pages"] is not None
        }
        candidates, places = self._ranked(question["query"], pages)
        return {
            "question": question["question"],
            "places": [places.get(key) if key is not None else None for key in here],
            "missing": [one["name"] for one, key in zip(documents, here, strict=True) if not key],
            "best": max((one.confidence for one in candidates), default=None),
            "returned": self._returned(candidates),
        }

    def _members(self, documents: Sequence[Json]) -> list[str | None]:
        """Return by which id the snapshot holds each document: its own, else its name's."""
        here: list[str | None] = []
        for one in documents:
            by_id = one["document"] if one["document"] in self._ids else None
            key = by_id or self._by_name.get(one["name"])
            # A document that came back under its name may itself be named as well.
            here.append(key if key not in here else None)
        return here

    def _ranked(
        self, query: str, pages: dict[str, set[int]]
    ) -> tuple[Sequence[Candidate], dict[str, int]]:
        """Return the best chunks and the place of each document among the best ``DEEPEST``.

        A document of which certain pages are wanted has two places: that of its best chunk on
        them, and that of its best chunk elsewhere, which takes a place like any other document's.
        """
        depth = _FIRST_DEPTH
        while True:
            candidates = ranked(self._target, Question(query=query), depth)
            places: dict[str, int] = {}
            for candidate in candidates:
                key = str(candidate.document_id)
                wanted = pages.get(key)
                if wanted is not None and candidate.page is not None:
                    key = key if candidate.page in wanted else f"{key} elsewhere"
                places.setdefault(key, len(places) + 1)
                if len(places) == DEEPEST:
                    return candidates, places
            if len(candidates) < depth:
                return candidates, places
            depth *= _DEEPER

    def _returned(self, candidates: Sequence[Candidate]) -> int:
        """Return how many passages a call that says nothing else would get."""
        count, floor = search.count_and_floor(Question(query=""), self._settings)
        return min(count, sum(candidate.confidence >= floor for candidate in candidates))


def seal(score: EvaluationScore, questions: Sequence[Json]) -> None:
    """Measure the outcomes of all ``questions`` and seal ``score``, without saving it."""
    judged, unanswerable = [], []
    for question, outcome in zip(questions, score.outcomes, strict=True):
        if question["documents"]:
            judged.append((question, outcome))
        else:
            unanswerable.append(outcome)
    values = measure(
        [
            Judged(
                places=outcome["places"],
                grades=[one["grade"] for one in question["documents"]],
            )
            for question, outcome in judged
        ]
    )
    for (_, outcome), value in zip(judged, values, strict=True):
        outcome["measures"] = value
    score.measures = {
        "questions": len(judged),
        "mean": mean(values) or dict.fromkeys(NAMES),
        "missingDocuments": sum(len(outcome["missing"]) for _, outcome in judged),
        "withoutAnswer": {
            "questions": len(unanswerable),
            "answered": sum(outcome["returned"] > 0 for outcome in unanswerable),
        },
    }
    score.sealed = True
