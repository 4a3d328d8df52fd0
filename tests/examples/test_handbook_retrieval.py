"""The handbook's questions find their documents with the bundled model and the real chunker."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from retrieval.chunking import Chunking, Piece, chunk
from retrieval.encoders import DEFAULT_MODEL, Encoder, Vector, encoder_for
from tests.examples import handbook


@cache
def encoder() -> Encoder:
    return encoder_for(DEFAULT_MODEL)


@cache
def indexed(key: str) -> tuple[list[tuple[str, Piece]], Vector]:
    """A knowledge base's chunks, each with its document's name, and their vectors."""
    base = next(base for base in handbook.manifest()["knowledgeBases"] if base["key"] == key)
    chunking = Chunking.from_json(base["chunking"], encoder().max_tokens)
    pieces = [
        (name, piece)
        for name, segments in handbook.documents().items()
        if name.startswith(f"{base['folder']}/")
        for piece in chunk(segments, chunking, encoder())
    ]
    return pieces, encoder().encode_passages([piece.text for _, piece in pieces])


def ranked(question: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and texts of the chunks of the question's knowledge base, the closest first."""
    pieces, vectors = indexed(question["document"].split("/")[0])
    scores = vectors @ encoder().encode_query(question["question"])
    return [(pieces[at][0], pieces[at][1].text) for at in np.argsort(-scores)]


@pytest.mark.parametrize("question", handbook.questions(), ids=lambda question: question["id"])
def test_question__searched_in_its_knowledge_base__finds_its_document_among_three(
    question: dict[str, Any],
) -> None:
    names = list(dict.fromkeys(name for name, _ in ranked(question)))
    assert question["document"] in names[:3]


def test_questions__searched_with_five_results__nearly_always_find_the_passage() -> None:
    missed = [
        question["id"]
        for question in handbook.questions()
        if not any(
            name == question["document"] and question["phrase"] in handbook.flat(text)
            for name, text in ranked(question)[:5]
        )
    ]
    assert len(missed) <= len(handbook.questions()) / 10, missed
