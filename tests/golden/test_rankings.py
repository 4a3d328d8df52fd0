"""A snapshot of fixed vectors, asked a fixed question: order, confidences and receipt to the letter.

Belongs to ``retrieval.search.RANKING_RECIPE`` and the receipt's ``schema``.
"""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pytest

from retrieval.digests import chunk_digest
from retrieval.models import Document, EmbeddingModel, IndexSnapshot, QueryEmbedding
from retrieval.questions import Question
from retrieval.search import RANKING_RECIPE, Target, retrieve_again
from retrieval.search_settings import SearchSettings
from retrieval.vectors import Vector
from tests.made_rows import MadeChunk, add_member, begin_snapshot, index_document, seal_snapshot

pytestmark = pytest.mark.django_db

QUERY = "golden?"
# Unit vectors within float32. The question is 0.6, 0.8, 0, 0.
DOCUMENTS: dict[str, list[tuple[str, int | None, str | None, list[float]]]] = {
    "a.md": [
        ("first", 1, "Part > One", [0.6, 0.8, 0.0, 0.0]),
        ("opposite", 2, None, [-0.6, -0.8, 0.0, 0.0]),
        ("across", None, None, [0.0, 0.0, 1.0, 0.0]),
        ("near", None, "Part > Two", [0.8, 0.6, 0.0, 0.0]),
    ],
    # The same texts and vectors in another document: ties to the last bit.
    "b.md": [
        ("first", 1, "Part > One", [0.6, 0.8, 0.0, 0.0]),
        ("near", None, "Part > Two", [0.8, 0.6, 0.0, 0.0]),
        ("halfway", None, None, [0.5, 0.5, 0.5, 0.5]),
    ],
    # The same vector under other texts: only the chunk's digest tells them apart.
    "c.md": [
        ("tie one", None, None, [0.5, 0.5, 0.5, 0.5]),
        ("tie two", None, None, [0.5, 0.5, 0.5, 0.5]),
        ("slightly against", None, None, [-0.1, 0.0, 0.99498743, 0.0]),
    ],
}
MODEL = "sha256:" + "e" * 64
RANKS = [
    ("first", "b.md", 1.0),
    ("first", "a.md", 1.0),
    ("near", "b.md", 0.96),
    ("near", "a.md", 0.96),
    ("tie two", "c.md", 0.7),
    ("halfway", "b.md", 0.7),
    ("tie one", "c.md", 0.7),
    ("across", "a.md", 0.0),
    ("slightly against", "c.md", 0.0),
    ("opposite", "a.md", 0.0),
]
RECEIPT = "sha256:39f2840b48847a5ad288dd09fb963261bfc3f4a03587c49b41a4ed309a84aa83"
DEFAULT_RECEIPT = "sha256:c30bd5d998bbfb778ea9e5a2e16c1565941136fa9a74b993d31171bcf04b59af"
APPLIED_RECEIPT = "sha256:09173eadc098d46451fdb4aebd2542467f1c1a6806725018d8b076944311f9bb"


def _vector(values: list[float]) -> Vector:
    return np.array(values, dtype=np.float32)


@pytest.fixture
def snapshot() -> IndexSnapshot:
    model = EmbeddingModel.objects.create(
        name="golden", dimensions=4, max_tokens=9, fingerprint=MODEL
    )
    made = begin_snapshot("Golden", model, pk=uuid.UUID(int=1))
    for number, (name, chunks) in enumerate(DOCUMENTS.items()):
        document = Document.objects.create(
            # Against the order of the names: ids decide ties, names do not.
            pk=uuid.UUID(int=100 - number),
            knowledge_base=made.knowledge_base,
            name=name,
        )
        indexed = index_document(
            document,
            [
                MadeChunk(
                    text=text,
                    page=page,
                    section=section,
                    digest=chunk_digest(text=text, page=page, section=section),
                    vector=_vector(values),
                )
                for text, page, section, values in chunks
            ],
        )
        add_member(
            made,
            indexed,
            name=name,
            document_id=document.pk,
            revision=3,
            metadata={"z": name, "a": number},
        )
    seal_snapshot(made, "sha256:" + "d" * 64)
    QueryEmbedding.objects.create(
        model=model,
        query_digest=Question(query=QUERY).digest,
        vector=_vector([0.6, 0.8, 0.0, 0.0]),
        provenance="golden",
    )
    return made


def _found(snapshot: IndexSnapshot, question: Question, **settings: Any) -> Any:
    return retrieve_again(
        Target(
            knowledge_base_id=snapshot.knowledge_base_id,
            name="Golden",
            snapshot=snapshot,
            settings=SearchSettings(**settings),
            published=True,
        ),
        question,
    )


def test_ranking_recipe__as_every_manifest_pins_it__is_this() -> None:
    assert RANKING_RECIPE == {
        "score": "cosine-f64-index-order-round6/1",
        "floor": "on-returned-confidence/1",
        "fusion": None,
        "reranker": None,
        "diversity": None,
    }


def test_ranking__of_fixed_vectors__is_this_to_the_letter(snapshot: IndexSnapshot) -> None:
    found = _found(snapshot, Question(query=QUERY, top_k=20, confidence_threshold=0.0))

    ranks = [(one["passage"], one["document"]["name"], one["confidence"]) for one in found.results]
    assert ranks == RANKS
    assert found.receipt == RECEIPT


def test_ranking__by_the_defaults__is_this_to_the_letter(snapshot: IndexSnapshot) -> None:
    found = _found(snapshot, Question(query=QUERY, top_k=9))

    assert len(found.results) == 7
    assert found.below_threshold == {"count": 2, "best": 0.0}
    assert found.receipt == DEFAULT_RECEIPT


def test_ranking__in_applied_mode__is_this_to_the_letter(snapshot: IndexSnapshot) -> None:
    found = _found(
        snapshot,
        Question(query=QUERY),
        settings_mode="applied",
        similarity_threshold=0.96,
        max_context_length=500,
        default_top_k=3,
    )

    assert [one["passage"] for one in found.results] == ["first", "first", "near"]
    assert found.receipt == APPLIED_RECEIPT
