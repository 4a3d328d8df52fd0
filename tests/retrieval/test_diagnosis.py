"""Each rule on a case built for it, with the real model; and cases in which none may speak."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from retrieval.diagnosis import (
    FLAT,
    LOW,
    Situation,
    closeness,
    declines,
    diagnose,
    sentences_of,
    unsupported,
)
from retrieval.encoders import DEFAULT_MODEL, encoder_for
from retrieval.knowledge_bases import find
from retrieval.questions import Question
from retrieval.test_box import try_question
from tests import builders

COVERED = "How long are lamps covered?"
PASSAGES = [
    "# Warranty\n\nLamps are covered for two years from the day of purchase, batteries for six "
    "months. Damage by water is not covered unless the lamp is marked as waterproof.",
    "# Returns by post\n\nSend the parcel back within 30 days of delivery. We pay the postage "
    "inside the European Union.",
]


def codes(situation: Situation) -> list[str]:
    return [finding["code"] for finding in diagnose(situation)]


def situation(**changes: Any) -> Situation:
    """Nothing is wrong with this one."""
    return replace(
        Situation(
            question=COVERED,
            candidates=[0.72, 0.41, 0.3, 0.28, 0.2],
            background=0.0,
            passages=PASSAGES,
            floor=0.3,
            max_tokens=256,
            failed_documents=0,
            answer="Lamps are covered for two years from the day of purchase [1].",
        ),
        **changes,
    )


def test_diagnosis__nothing_wrong__is_empty() -> None:
    assert codes(situation()) == []
    assert codes(situation(answer=None)) == []


@pytest.mark.parametrize(
    "answer",
    [
        "Lamps are covered for five years from the day of purchase [1].",
        "Lamps are covered for two years [1]. Our hotline in Berlin helps you around the clock.",
        "Lamps are covered for two years. You get a new lamp and a voucher for your next order.",
    ],
)
def test_answer__with_what_no_passage_says__is_unsupported(answer: str) -> None:
    [finding] = diagnose(situation(answer=answer))

    assert finding["code"] == "answer.unsupported"
    assert finding["why"].startswith("1 of ")
    assert sentences_of([answer], most=9)[-1].removesuffix(" [1].")[:40] in finding["why"]
    assert "0.72" in finding["why"]
    assert "prompt or the model" in finding["lookAt"]


@pytest.mark.parametrize(
    "answer",
    [
        "For 2 years from the day of purchase.",
        "The warranty on lamps lasts two years after you buy them [1].",
        "Batteries: six months. Lamps: two years.",
        "If water damages the lamp, that is not covered, unless it is marked as waterproof [1].",
        "The European Union's customers pay no postage: we pay it [2].",
        "The passages do not say how long lamps are covered.",
    ],
)
def test_answer__in_other_words_or_none__is_not_called_unsupported(answer: str) -> None:
    assert codes(situation(answer=answer)) == []


def test_scores__all_low__mean_that_the_material_is_not_here() -> None:
    candidates = [LOW - 0.01, 0.3, 0.2]

    [finding] = diagnose(situation(candidates=candidates, answer=None))

    assert finding["code"] == "scores.low"
    assert "0.44" in finding["why"]
    assert "not in this knowledge base" in finding["lookAt"]
    assert codes(situation(candidates=[LOW, 0.3], answer=None)) == []
    assert codes(situation(candidates=[], passages=[], answer=None)) == []


def test_answer__confident_from_distant_passages__points_to_chunking_and_extraction() -> None:
    findings = diagnose(situation(candidates=[0.31, 0.2]))

    assert [finding["code"] for finding in findings] == ["scores.low", "passages.thin"]
    assert "0.31" in findings[1]["why"]
    assert "chunking" in findings[1]["lookAt"]


def test_answer__confident_from_next_to_nothing__points_to_what_was_not_read() -> None:
    [finding] = diagnose(situation(passages=["Warranty of lamps"], failed_documents=2))

    assert finding["code"] == "passages.thin"
    assert "17 characters" in finding["why"]
    assert "They do not say: “Lamps are covered" in finding["why"]
    assert finding["lookAt"].startswith("2 documents of this snapshot could not be read")


def test_answer__that_a_short_passage_supports__is_fine() -> None:
    assert codes(situation(passages=["Lamps are covered for two years from the purchase."])) == []


@pytest.mark.parametrize("changes", [{"candidates": [0.31]}, {"passages": ["Warranty"]}])
def test_answer__that_declines__is_not_called_confident(changes: dict[str, Any]) -> None:
    found = codes(situation(answer="The passages do not answer this question.", **changes))

    assert "passages.thin" not in found


def test_floor__above_a_close_passage__is_named() -> None:
    [finding] = diagnose(situation(passages=[], floor=0.8, answer=None))

    assert finding["code"] == "floor.cuts_everything"
    assert "0.8" in finding["why"]


_SUBJECTS = (
    "The canteen opens at noon and serves soup. The car park has two levels. Visitors sign the "
    "book at the door. The lift is inspected in spring. Bicycles stand behind the building. "
    "Keys are handed out by the porter. The roof terrace is closed in winter. Parcels wait in "
    "the post room. The cleaners come on Friday. Plants are watered by the gardener. The alarm "
    "is tested every month. Meeting rooms are booked by mail. Printers stand on each floor. "
    "The heating is switched on in October. Light bulbs are in the cellar. Windows are washed "
    "twice a year. The first aid kit hangs in the kitchen. "
)


def test_chunks__long_alike_and_about_other_things__are_too_large() -> None:
    mixed = [_SUBJECTS + f"In part {part} lamps are mentioned. " + _SUBJECTS for part in range(5)]
    flat = [0.52, 0.51, 0.51, 0.5, 0.49]

    [finding] = diagnose(situation(candidates=flat, passages=mixed, answer=None))

    assert finding["code"] == "chunks.too_large"
    assert "within 0.03" in finding["why"]
    assert "chunk size" in finding["lookAt"]


@pytest.mark.parametrize(
    "changes",
    [
        {"candidates": [0.6, 0.58, 0.56, 0.55, 0.6 - FLAT - 0.001]},
        {"passages": ["Lamps are covered for two years by the warranty. " * 12] * 5},
        {"passages": ["The canteen opens at noon. " * 8] * 5},
    ],
    ids=["one stands out", "on topic", "short"],
)
def test_chunks__where_one_condition_is_missing__are_not_called_too_large(
    changes: dict[str, Any],
) -> None:
    values: dict[str, Any] = {
        "candidates": [0.52, 0.51, 0.51, 0.5, 0.49],
        "passages": [_SUBJECTS * 2] * 5,
        "answer": None,
    }

    assert codes(situation(**values)) == ["chunks.too_large"]
    assert codes(situation(**values | changes)) == []


def test_closeness__model_whose_unrelated_chunks_are_near__starts_there() -> None:
    e5 = situation(background=0.76, candidates=[0.82, 0.8], answer=None)

    assert closeness(e5, 0.76) == 0
    assert closeness(e5, 1.0) == 1
    assert closeness(situation(background=0.1), 0.5) == 0.5
    assert codes(e5) == ["scores.low"]
    assert codes(replace(e5, candidates=[0.9, 0.8])) == []


@pytest.mark.parametrize(
    ("answer", "is_declined"),
    [
        ("I don't know.", True),
        ("There is no information about that.", True),
        ("The passages do not contain an answer.", True),
        ("Based on the documents, this cannot be answered.", True),
        ("Lamps do not contain mercury.", False),
        ("No, lamps are not covered.", False),
        ("Two years.", False),
    ],
)
def test_declines__answers_with_and_without_one__are_told_apart(
    answer: str, is_declined: bool
) -> None:
    assert declines(answer) is is_declined


def test_sentences__of_many_forms__are_parted() -> None:
    text = "# Heading here now\n\nOne is here. “Two is here!” Three is 3.5 here?\n- a point of it"

    assert sentences_of([text], most=9) == [
        "Heading here now",
        "One is here.",
        "“Two is here!”",
        "Three is 3.5 here?",
        "a point of it",
    ]
    assert sentences_of(["灯具保修两年。电池保修六个月。"], most=9) == [
        "灯具保修两年。",
        "电池保修六个月。",
    ]


def test_unsupported__another_script__goes_by_its_characters() -> None:
    passages = ["灯具自购买之日起保修两年。电池保修六个月。"]

    found = unsupported(
        ["灯具保修两年。", "我们的总部位于柏林市中心。"], passages, encoder_for(DEFAULT_MODEL)
    )

    assert found == ["我们的总部位于柏林市中心。"]


@pytest.mark.django_db
def test_test_box__question_from_elsewhere__is_diagnosed_without_an_answer() -> None:
    base = find(builders.base_with().pk)

    elsewhere = try_question(base=base, question=Question(query="Who won the world cup?"))
    here = try_question(base=base, question=Question(query=COVERED))

    assert [finding["code"] for finding in elsewhere["diagnosis"]] == ["scores.low"]
    assert here["diagnosis"] == []
    assert here["answer"] is here["answerNotice"] is None
