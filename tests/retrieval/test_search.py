"""The rules of retrieval, each by what a caller sees."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import rfc8785
from pytest_django.fixtures import Settings

from registry.errors import Invalid, Unavailable
from retrieval.knowledge_bases import find, update_knowledge_base
from retrieval.models import EmbeddingModel, KnowledgeBase, QueryEmbedding
from retrieval.questions import Question, read_question
from retrieval.search import Retrieval, current_target, retrieve
from tests import builders

pytestmark = pytest.mark.django_db

_LAMPS = "\n\n".join(
    f"## Lamp {number}\n\nThe lamp number {number} gives light for {number} hours when charged."
    for number in range(1, 41)
)


def _base(**settings: Any) -> KnowledgeBase:
    base = builders.base_with(lamps_md=_LAMPS, returns_md=builders.RETURNS)
    if settings:
        update_knowledge_base(
            actor=builders.ACTOR, knowledge_base_id=base.pk, values={"settings": settings}
        )
    return find(base.pk)


@pytest.fixture
def lamps() -> KnowledgeBase:
    """Forty small sections cut small enough to give more than 25 chunks."""
    base = builders.make_base(chunking={"strategy": "recursive", "size": 24, "overlap": 0})
    builders.add_text(base, "lamps.md", _LAMPS)
    builders.build(base)
    return find(base.pk)


def _ask(
    base: KnowledgeBase, query: str = "How long does the lamp shine?", **more: Any
) -> Retrieval:
    base = find(base.pk)
    return retrieve(current_target(base), Question(query=query, **more))


def _settings(base: KnowledgeBase, **settings: Any) -> None:
    update_knowledge_base(
        actor=builders.ACTOR, knowledge_base_id=base.pk, values={"settings": settings}
    )


def test_count__not_said__is_the_knowledge_bases_default(lamps: KnowledgeBase) -> None:
    _settings(lamps, defaultTopK=7)

    found = _ask(lamps, confidence_threshold=0)

    assert len(found.results) == 7
    assert found.applied["topK"] == {"value": 7, "source": "knowledgeBase"}


def test_count__said__wins_over_the_default(lamps: KnowledgeBase) -> None:
    found = _ask(lamps, top_k=3, confidence_threshold=0)

    assert len(found.results) == 3
    assert found.applied["topK"] == {"value": 3, "source": "call"}


@pytest.mark.parametrize("how", ["call", "default"])
def test_count__over_25__is_capped_and_says_so(lamps: KnowledgeBase, how: str) -> None:
    if how == "default":
        _settings(lamps, defaultTopK=40)

    found = _ask(lamps, confidence_threshold=0, top_k=40 if how == "call" else None)

    assert len(found.results) == 25
    assert found.applied["topK"] == {"value": 25, "source": "cap"}


def test_floor__not_said__is_three_tenths(lamps: KnowledgeBase) -> None:
    found = _ask(lamps, "The European Parliament votes on fisheries.")

    assert found.applied["confidenceThreshold"] == {"value": 0.3, "source": "default"}
    assert all(result["confidence"] >= 0.3 for result in found.results)
    assert len(found.results) + found.below_threshold["count"] == 5
    assert found.below_threshold["best"] < 0.3


def test_floor__zero__returns_something_whatever_is_asked(lamps: KnowledgeBase) -> None:
    found = _ask(lamps, "xyzzy", confidence_threshold=0)

    assert len(found.results) == 5
    assert found.applied["confidenceThreshold"] == {"value": 0, "source": "call"}
    assert found.below_threshold == {"count": 0, "best": None}


def test_floor__exactly_a_returned_confidence__keeps_that_passage(lamps: KnowledgeBase) -> None:
    best = _ask(lamps, confidence_threshold=0).results[0]["confidence"]

    found = _ask(lamps, confidence_threshold=best)

    assert found.results[0]["confidence"] == best
    assert not _ask(lamps, confidence_threshold=best + 0.000001).results


def test_settings__recorded__change_nothing_but_the_count(lamps: KnowledgeBase) -> None:
    plain = _ask(lamps)
    _settings(lamps, similarityThreshold=0.99, maxContextLength=500, rerankEnabled=True)

    found = _ask(lamps)

    assert found.results == plain.results
    assert found.applied["similarityThreshold"] == {"value": 0.99, "source": "recordedOnly"}
    assert found.applied["maxContextLength"] == {"value": 500, "source": "recordedOnly"}
    assert found.applied["rerankEnabled"] == {"value": True, "source": "recordedOnly"}


def test_settings__applied__the_threshold_is_the_floor_unless_the_call_says_one(
    lamps: KnowledgeBase,
) -> None:
    _settings(lamps, similarityThreshold=0.99, settingsMode="applied")

    assert _ask(lamps).results == []
    assert _ask(lamps).applied["confidenceThreshold"] == {"value": 0.99, "source": "knowledgeBase"}
    assert len(_ask(lamps, confidence_threshold=0).results) == 5


def test_settings__applied__context_length_keeps_whole_passages_in_rank_order() -> None:
    base = _base(maxContextLength=500, settingsMode="applied", defaultTopK=20)
    everything = [c.text for c in _ask(base, confidence_threshold=0).candidates]

    found = _ask(base, confidence_threshold=0)

    texts = [result["passage"] for result in found.results]
    assert sum(map(len, texts)) <= 500
    if len(everything[0]) <= 500:
        assert texts == everything[: len(texts)]
        assert not any(result["truncated"] for result in found.results)
        assert sum(map(len, everything[: len(texts) + 1])) > 500
    else:
        assert texts == [everything[0][:500]]
        assert found.results[0]["truncated"]


def test_settings__applied_with_a_reranker_that_is_missing__are_refused_where_they_are_set(
    lamps: KnowledgeBase, settings: Settings
) -> None:
    settings.RERANK_MODEL = "no-such-reranker"

    with pytest.raises(Invalid) as refused:
        _settings(lamps, rerankEnabled=True, settingsMode="applied")

    assert refused.value.code == "reranker.not_configured"
    assert not find(lamps.pk).rerank_enabled


def test_result__of_a_passage__carries_what_a_citation_needs() -> None:
    base = builders.make_base()
    builders.add_text(base, "returns.md", builders.RETURNS, metadata={"b": 1, "a": {"z": [1.5]}})
    builders.build(base)

    result = _ask(base, "Who pays the postage?").results[0]

    assert result["document"]["name"] == "returns.md"
    assert result["document"]["revision"] == 1
    assert result["section"].startswith("Returns by post")
    assert result["page"] is None
    assert json.dumps(result["metadata"]) == '{"b": 1, "a": {"z": [1.5]}}'
    assert 0 <= result["confidence"] <= 1
    assert result["chunk"].startswith("sha256:")
    assert "postage" in result["passage"]


def test_receipt__recomputed_from_the_answer__is_the_same(lamps: KnowledgeBase) -> None:
    query = "How long does lamp 7 give light? ☀"
    answer = _ask(lamps, query).as_json()

    def sha256(data: bytes) -> str:
        return "sha256:" + hashlib.sha256(data).hexdigest()

    value = {
        "schema": 1,
        "kind": "retrieval",
        "snapshotDigest": answer["snapshot"]["digest"],
        "queryDigest": sha256(query.encode()),
        "applied": answer["applied"],
        "results": [
            {
                **{key: item for key, item in result.items() if key != "passage"},
                "passageDigest": sha256(result["passage"].encode()),
            }
            for result in answer["results"]
        ],
        "belowThreshold": answer["belowThreshold"],
    }
    assert answer["receipt"] == sha256(rfc8785.dumps(value))


def test_question__asked_again__uses_the_stored_vector_and_writes_nothing(
    lamps: KnowledgeBase,
) -> None:
    first = _ask(lamps)
    stored = QueryEmbedding.objects.get()

    second = _ask(lamps)

    assert second.as_json() == first.as_json()
    assert QueryEmbedding.objects.get().pk == stored.pk


def test_question__whose_stored_vector_is_another__is_ranked_by_the_stored_one(
    lamps: KnowledgeBase,
) -> None:
    query = "How long does lamp 7 give light?"
    plain = _ask(lamps, query)
    other = _ask(lamps, "Who pays the postage of a parcel?")
    vector = QueryEmbedding.objects.order_by("pk").last()
    assert vector is not None
    question = Question(query="Never asked before?")
    QueryEmbedding.objects.create(
        model=EmbeddingModel.objects.get(),
        query_digest=question.digest,
        vector=vector.vector,
        provenance="another machine",
    )

    found = _ask(lamps, question.query)

    assert [r["chunk"] for r in found.results] == [r["chunk"] for r in other.results]
    assert found.results != plain.results


def test_question__to_a_model_that_is_not_installed__is_refused_by_name_unless_known(
    lamps: KnowledgeBase, settings: Any
) -> None:
    known = _ask(lamps)
    target = current_target(find(lamps.pk))
    target.snapshot.model.fingerprint = "sha256:" + "0" * 64

    assert (
        retrieve(target, Question(query="How long does the lamp shine?")).results == known.results
    )
    with pytest.raises(Unavailable) as refused:
        retrieve(target, Question(query="A new question?"))

    assert refused.value.code == "model.not_available"
    assert "all-MiniLM-L6-v2" in refused.value.detail


def test_question__longer_than_the_model_reads__is_cut_and_says_so(lamps: KnowledgeBase) -> None:
    found = _ask(lamps, "lamp " * 600)

    assert found.applied["queryTokens"]["source"] == "cap"
    assert "queryTokens" not in _ask(lamps).applied


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "query"),
        ({"query": ""}, "query"),
        ({"query": "   "}, "query"),
        ({"query": 7}, "query"),
        ({"query": "x" * 32_001}, "query"),
        ({"query": "x", "topK": 0}, "topK"),
        ({"query": "x", "topK": 51}, "topK"),
        ({"query": "x", "topK": "ten"}, "topK"),
        ({"query": "x", "topK": True}, "topK"),
        ({"query": "x", "topK": 2.5}, "topK"),
        ({"query": "x", "confidenceThreshold": 1.5}, "confidenceThreshold"),
        ({"query": "x", "confidenceThreshold": -0.1}, "confidenceThreshold"),
        ({"query": "x", "confidenceThreshold": "high"}, "confidenceThreshold"),
        ({"query": "x", "confidenceThreshold": float("nan")}, "confidenceThreshold"),
    ],
)
def test_question__out_of_range__names_the_field_the_value_and_what_is_allowed(
    body: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        read_question(body)

    error = refused.value.errors[0]
    assert error.field == field
    if field != "query":
        assert set(error.allowed) == {"minimum", "maximum"}


def test_question__with_nulls__counts_as_not_said() -> None:
    question = read_question({"query": "x", "topK": None, "confidenceThreshold": None})

    assert question == Question(query="x")


def test_snapshot__without_chunks__returns_nothing_and_says_why() -> None:
    base = builders.base_with(returns_md=builders.RETURNS)
    from retrieval.documents import delete_document

    for document in base.documents.all():
        delete_document(actor=builders.ACTOR, base=base, document_id=document.pk)
    builders.build(base)

    found = _ask(base, confidence_threshold=0)

    assert found.results == []
    assert found.below_threshold == {"count": 0, "best": None}
