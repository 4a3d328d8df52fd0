"""The rules of retrieval: what a question to one knowledge base returns, and why.

The contract that users rely on stands in docs/retrieval.md. This module is the one place that
implements it; tool calls, ``retrieve`` and the test box all come here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from registry.canonical import digest_json, digest_text
from registry.errors import Conflict, NotFound, Unavailable
from registry.fields import dump_received
from retrieval import diversity, reranking
from retrieval.candidates import Candidate, Ranking, rank, rank_in_database
from retrieval.digests import vector_digest
from retrieval.models import IndexSnapshot, KnowledgeBase
from retrieval.purge_epochs import PurgedSince, count_purged
from retrieval.questions import Question, QuestionVector, vector_again, vector_of
from retrieval.search_settings import SearchSettings, settings_of
from retrieval.vectors import Vector

MOST_RESULTS = 25
DEFAULT_FLOOR = 0.3
APPLIED_DEPTH = 100

Ranker = Callable[[IndexSnapshot, Vector, int], Ranking]

# Pinned in every manifest. Score: see retrieval.scoring. The last three are null unless the
# settings ask for them in mode “applied”.
RANKING_RECIPE: dict[str, Any] = {
    "score": "cosine-f64-index-order-round6/1",
    "floor": "on-returned-confidence/1",
    "fusion": None,
    "reranker": None,
    "diversity": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One knowledge base as it is searched: a snapshot and settings, pinned or current."""

    knowledge_base_id: uuid.UUID
    name: str
    snapshot: IndexSnapshot
    settings: SearchSettings
    recipe: dict[str, Any] = field(default_factory=lambda: dict(RANKING_RECIPE))
    published: bool

    def as_json(self) -> dict[str, Any]:
        return {"id": str(self.knowledge_base_id), "name": self.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """What was found. ``results`` are plain JSON, ready to return.

    ``candidates`` are those behind the results, in their order, then the others of the topK best
    by score. ``dropped`` counts what the rules of mode “applied” left out besides the floor.
    """

    target: Target
    question: Question
    embedded: QuestionVector
    results: list[dict[str, Any]]
    applied: dict[str, Any]
    below_threshold: dict[str, Any]
    dropped: dict[str, int] | None
    purged_documents: int
    receipt: str
    candidates: Sequence[Candidate]

    def as_json(self) -> dict[str, Any]:
        snapshot = self.target.snapshot
        answer: dict[str, Any] = {
            "results": self.results,
            "knowledgeBase": self.target.as_json(),
            "snapshot": {"number": snapshot.number, "digest": snapshot.digest},
            "applied": self.applied,
            "belowThreshold": self.below_threshold,
        }
        if self.purged_documents:
            answer["purged"] = {"documents": self.purged_documents}
        if self.dropped is not None:
            answer["dropped"] = self.dropped
        answer["receipt"] = self.receipt
        return answer

    def trace_group(self) -> dict[str, Any]:
        """Return what a trace keeps: values and digests, no texts."""
        group: dict[str, Any] = {
            "knowledgeBase": self.target.as_json(),
            "snapshot": {
                "number": self.target.snapshot.number,
                "digest": self.target.snapshot.digest,
            },
            "question": {
                "model": self.target.snapshot.model.fingerprint,
                "query": self.question.digest,
                "vector": vector_digest(self.embedded.vector),
            },
            "applied": self.applied,
            "belowThreshold": self.below_threshold,
            "results": [traced_result(result) for result in self.results],
        }
        if self.purged_documents:
            group["purged"] = {"documents": self.purged_documents}
        group["receipt"] = self.receipt
        return group


def retrieve(target: Target, question: Question, *, asker: uuid.UUID | None = None) -> Retrieval:
    """Answer ``question`` from ``target`` by the rules of retrieval.

    ``asker`` is the API key that asks; None, a person or a task, has no limit. Raises Unavailable
    where the model (for a new question) or the pinned reranker is missing, TooMany
    (``questions.limit_reached``), and NotFound where a draft's snapshot was pruned meanwhile.
    """
    _require_known(target.recipe)
    embedded = vector_of(target.snapshot.model, question, keep=target.published, asker=asker)
    return _found(target, question, embedded, rank)


def retrieve_again(target: Target, question: Question) -> Retrieval:
    """Answer as ``retrieve`` does, from the rows alone: no cache is asked and nothing is written."""
    _require_known(target.recipe)
    embedded = vector_again(target.snapshot.model, question)
    return _found(target, question, embedded, rank_in_database, again=True)


def _found(
    target: Target,
    question: Question,
    embedded: QuestionVector,
    ranker: Ranker,
    *,
    again: bool = False,
) -> Retrieval:
    settings = target.settings
    count, count_source = _count(question, settings)
    floor, floor_source = _floor(question, settings)
    depth = max(count, APPLIED_DEPTH) if settings.applied else count
    ranked, purged = _ranked(ranker, target.snapshot, embedded.vector, depth)

    shown = ranked[:count]
    # Best first, so what reaches the floor is the beginning.
    above = sum(candidate.confidence >= floor for candidate in ranked)
    kept = reranking.in_order(
        target.recipe, target.snapshot, question, ranked, wanted=above, again=again
    )
    unrepeated = _unrepeated(kept) if target.recipe["diversity"] else kept
    counted = unrepeated[:count]
    fitting = counted
    if settings.applied and settings.max_context_length is not None:
        fitting = _fitting(counted, settings.max_context_length)
    results = [passage_of(candidate) for candidate in fitting]
    below = [candidate.confidence for candidate in shown if candidate.confidence < floor]
    below_threshold = {"count": len(below), "best": below[0] if below else None}

    acts = "knowledgeBase" if settings.applied else "recordedOnly"
    applied: dict[str, Any] = {
        "topK": {"value": count, "source": count_source},
        "confidenceThreshold": {"value": floor, "source": floor_source},
        "similarityThreshold": {"value": settings.similarity_threshold, "source": acts},
        "maxContextLength": {"value": settings.max_context_length, "source": acts},
        "rerankEnabled": {"value": settings.rerank_enabled, "source": acts},
    }
    # Answers are older than this setting: where it is off they stay as they were.
    if settings.diversity_enabled:
        applied["diversityEnabled"] = {"value": True, "source": acts}
    if embedded.truncated:
        applied["queryTokens"] = {"value": target.snapshot.model.max_tokens, "source": "cap"}
    return Retrieval(
        target=target,
        question=question,
        embedded=embedded,
        results=results,
        applied=applied,
        below_threshold=below_threshold,
        dropped=(
            {
                "nearDuplicates": len(kept) - len(unrepeated),
                "maxContextLength": len(counted) - len(fitting),
            }
            if settings.applied
            else None
        ),
        purged_documents=purged,
        receipt=receipt_of(
            snapshot_digest=target.snapshot.digest,
            query_digest=question.digest,
            applied=applied,
            results=results,
            below_threshold=below_threshold,
            purged_documents=purged,
        ),
        candidates=[*fitting, *_others(shown, fitting)],
    )


def current_target(base: KnowledgeBase) -> Target:
    """Return ``base`` as it is now. Raises Conflict where it has no ready snapshot yet."""
    if base.current_snapshot is None:
        raise Conflict(
            f"{base.name} has no ready snapshot yet.",
            code="knowledge_base.no_snapshot",
            knowledgeBase=str(base.pk),
        )
    settings = settings_of(base)
    return Target(
        knowledge_base_id=base.pk,
        name=base.name,
        snapshot=base.current_snapshot,
        settings=settings,
        recipe=_recipe_for(settings),
        published=False,
    )


def require_reranker(base: KnowledgeBase) -> None:
    """Raise Invalid (``reranker.not_configured``) where ``base`` needs a reranker that is missing."""
    reranking.require_available(settings_of(base))


def _ranked(
    ranker: Ranker, snapshot: IndexSnapshot, query: Vector, depth: int
) -> tuple[list[Candidate], int]:
    """Return the best chunks and how many documents are purged, both of one moment."""
    while True:
        ranking = ranker(snapshot, query, depth)
        if not ranking.candidates and not IndexSnapshot.objects.filter(pk=snapshot.pk).exists():
            # A draft's or the test box's: those of published versions are never pruned.
            raise NotFound(
                f"Snapshot {snapshot.number} was pruned meanwhile; ask again.",
                code="snapshot.not_found",
            )
        if ranking.epoch is None:
            return ranking.candidates, 0
        # Else something was purged between the two looks.
        with suppress(PurgedSince):
            return ranking.candidates, count_purged(snapshot.pk, ranking.epoch)


def count_and_floor(question: Question, settings: SearchSettings) -> tuple[int, float]:
    """Return how many results a question gets at most, and above which confidence."""
    return _count(question, settings)[0], _floor(question, settings)[0]


def _recipe_for(settings: SearchSettings) -> dict[str, Any]:
    recipe = dict(RANKING_RECIPE)
    if settings.applied and settings.rerank_enabled:
        recipe.update(reranking.recipe())
    if settings.applied and settings.diversity_enabled:
        recipe["diversity"] = diversity.RECIPE
    return recipe


def _require_known(recipe: dict[str, Any]) -> None:
    """Raise Unavailable where this software would not rank by ``recipe`` to the letter."""
    known = (
        recipe.keys() == RANKING_RECIPE.keys()
        and all(recipe[key] == RANKING_RECIPE[key] for key in ("score", "floor"))
        and reranking.is_known(recipe)
        and recipe["diversity"] in (None, diversity.RECIPE)
    )
    if not known:
        raise Unavailable(
            "This version was published with another ranking recipe than this software has.",
            code="ranking.recipe_not_available",
            recipe=recipe,
        )


def _unrepeated(ranked: Sequence[Candidate]) -> list[Candidate]:
    repeated = diversity.repeats([candidate.text for candidate in ranked])
    return [one for one, again in zip(ranked, repeated, strict=True) if not again]


def _others(shown: Sequence[Candidate], kept: Sequence[Candidate]) -> list[Candidate]:
    keys = {candidate.rank_key for candidate in kept}
    return [candidate for candidate in shown if candidate.rank_key not in keys]


def _count(question: Question, settings: SearchSettings) -> tuple[int, str]:
    wanted, source = (
        (question.top_k, "call")
        if question.top_k is not None
        else (settings.default_top_k, "knowledgeBase")
    )
    return (wanted, source) if wanted <= MOST_RESULTS else (MOST_RESULTS, "cap")


def _floor(question: Question, settings: SearchSettings) -> tuple[float, str]:
    if question.confidence_threshold is not None:
        return question.confidence_threshold, "call"
    if settings.applied and settings.similarity_threshold is not None:
        return settings.similarity_threshold, "knowledgeBase"
    return DEFAULT_FLOOR, "default"


def _fitting(ranked: Sequence[Candidate], most_characters: int) -> list[Candidate]:
    """Return whole passages in rank order while they fit; the first always, cut if it must be."""
    fitting: list[Candidate] = []
    left = most_characters
    for candidate in ranked:
        if len(candidate.text) > left:
            if not fitting:
                fitting.append(replace(candidate, text=candidate.text[:left], truncated=True))
            break
        fitting.append(candidate)
        left -= len(candidate.text)
    return fitting


def traced_result(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result as a trace keeps it: texts and metadata as digests, blank members left out."""
    traced = {
        "chunk": result["chunk"],
        "document": result["document"],
        "confidence": result["confidence"],
        "passageDigest": digest_text(result["passage"]),
    }
    if result["page"] is not None:
        traced["page"] = result["page"]
    if result["section"] is not None:
        traced["sectionDigest"] = digest_text(result["section"])
    if result["metadata"]:
        traced["metadataDigest"] = digest_text(dump_received(result["metadata"]))
    if result["truncated"]:
        traced["truncated"] = True
    if "rerankScore" in result:
        traced["rerankScore"] = result["rerankScore"]
    return traced


def passage_of(candidate: Candidate) -> dict[str, Any]:
    """Return a candidate as an answer shows it: the passage and what a citation needs."""
    passage: dict[str, Any] = {
        "passage": candidate.text,
        "document": {
            "id": str(candidate.document_id),
            "name": candidate.document_name,
            "revision": candidate.revision,
        },
        "page": candidate.page,
        "section": candidate.section,
        "metadata": candidate.metadata,
        "confidence": candidate.confidence,
        "truncated": candidate.truncated,
        "chunk": candidate.chunk,
    }
    if candidate.rerank_score is not None:
        passage["rerankScore"] = candidate.rerank_score
    return passage


def receipt_of(
    *,
    snapshot_digest: str,
    query_digest: str,
    applied: dict[str, Any],
    results: Sequence[dict[str, Any]],
    below_threshold: dict[str, Any],
    purged_documents: int = 0,
) -> str:
    """Return the receipt of one retrieval: equal receipts, equal results.

    Each result stands in it as returned, its ``passage`` replaced by ``passageDigest``.
    """
    document: dict[str, Any] = {
        "schema": 1,
        "kind": "retrieval",
        "snapshotDigest": snapshot_digest,
        "queryDigest": query_digest,
        "applied": applied,
        "results": [
            {
                **{key: value for key, value in result.items() if key != "passage"},
                "passageDigest": digest_text(result["passage"]),
            }
            for result in results
        ],
        "belowThreshold": below_threshold,
    }
    if purged_documents:
        document["purged"] = {"documents": purged_documents}
    return digest_json(document)


def groups_receipt(receipts: Sequence[str]) -> str:
    """Return the receipt of a retrieval over several knowledge bases, in their order."""
    return digest_json({"schema": 1, "kind": "groups", "groups": list(receipts)})
