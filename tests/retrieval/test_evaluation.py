"""Evaluations by the real model: what they say of snapshots, and that no crash loses them."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from registry.errors import Conflict, Invalid
from retrieval.documents import Upload, add_document, delete_document, update_document
from retrieval.encoders import encoder_for
from retrieval.evaluation import (
    claim_evaluation,
    due_evaluations,
    find_evaluation,
    start_evaluation,
    work_on_evaluation,
)
from retrieval.evaluation_questions import save_questions
from retrieval.evaluation_results import all_outcome_rows, comparisons, render_evaluation
from retrieval.indexing import start_build
from retrieval.knowledge_bases import delete_knowledge_base, find
from retrieval.models import Chunk, Evaluation, EvaluationScore, KnowledgeBase
from retrieval.scoring import scores
from tests import builders
from tests.retrieval.documents import pdf
from tests.worker import Worker, wait_until

pytestmark = pytest.mark.django_db

COVERED = "How long are lamps covered?"
POSTAGE = "Who pays the postage of a return?"
NOTHING = "What is the airspeed of an unladen swallow?"
# One paragraph of many answers, the rest of the document speaks of something else.
MIXED = "\n\n".join(
    [
        *(
            f"Shelf {number} in hall {number} holds paint of colour {number}."
            for number in range(9)
        ),
        "Lamps are covered for two years from the day of purchase.",
        *(
            f"Room {number} on floor {number} is for meetings of team {number}."
            for number in range(9)
        ),
    ]
)


def ask(base: KnowledgeBase, **documents: Any) -> None:
    save_questions(
        actor=builders.ACTOR,
        base=base,
        questions=[{"query": query, "documents": wanted} for query, wanted in documents.items()],
    )


def run(base: KnowledgeBase, *numbers: int, **options: Any) -> Evaluation:
    options.setdefault("at_once", 60)
    return start_evaluation(
        actor=builders.ACTOR, base=base, snapshots=list(numbers) or None, **options
    )


def measures(evaluation: Evaluation) -> list[dict[str, Any]]:
    return [score["measures"] for score in render_evaluation(evaluation)["scores"]]


def places(evaluation: Evaluation) -> list[list[list[int | None]]]:
    return [
        [outcome["places"] for outcome in row["outcomes"]] for row in all_outcome_rows(evaluation)
    ]


def cut_otherwise(base: KnowledgeBase, size: int) -> None:
    builders.rechunk(base, size)
    builders.build(base)


def remove(base: KnowledgeBase, number: int) -> None:
    """Remove a snapshot as pruning does: the whole, then its parts."""
    key = base.snapshots.get(number=number).pk
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM retrieval_indexsnapshot WHERE id = %s", [key])
        cursor.execute("DELETE FROM retrieval_snapshotmember WHERE snapshot_id = %s", [key])


def test_evaluation__of_the_current_snapshot__measures_the_ranking_of_documents() -> None:
    texts = {
        f"part-{number}": f"# Part {number}\n\n" + " ".join(words)
        for number, words in enumerate(
            [
                ["Lamps are covered for two years."],
                ["Batteries are covered for six months."],
                ["The warranty of a lamp ends when it was under water."],
                ["We pay the postage of returns."] * 60,
                ["Our shop is in Lyon."],
            ]
        )
    }
    base = builders.make_base()
    for name, text in texts.items():
        builders.add_text(base, f"{name}.md", text)
    builders.build(base)
    base = find(base.pk)
    ask(base, **{COVERED: ["part-0.md", "part-2.md"], POSTAGE: ["part-3.md"], NOTHING: []})

    evaluation = run(base)

    encoder = encoder_for(base.model.name)
    for row, (query, _) in zip(
        all_outcome_rows(evaluation), [(COVERED, 0), (POSTAGE, 0), (NOTHING, 0)], strict=True
    ):
        best: dict[str, float] = {}
        for chunk in Chunk.objects.select_related(
            "indexed_document__extraction__revision__document"
        ):
            name = chunk.indexed_document.extraction.revision.document.name
            score = scores(encoder.encode_query(query), [chunk.vector])[0]
            best[name] = max(best.get(name, -1), score)
        order = sorted(best, key=lambda name: -best[name])
        assert row["query"] == query
        assert row["outcomes"][0]["places"] == [
            order.index(one["name"]) + 1 for one in row["documents"]
        ]
        assert row["outcomes"][0]["best"] == pytest.approx(max(0, *best.values()), abs=1e-6)
    [score] = render_evaluation(evaluation)["scores"]
    assert score["snapshot"]["digest"] == base.current_snapshot.digest  # type: ignore[union-attr]
    assert score["ranking"] == "dense"
    assert score["rankingRecipe"]["score"] == "cosine-f64-index-order-round6/1"
    assert score["measuredQuestions"] == 2
    assert score["withoutAnswer"] == {"questions": 1, "answered": 0}
    assert score["measures"]["recall@5"] == 1
    assert score["measures"]["MRR@10"] == 1


def test_evaluation__smaller_chunks__shows_which_question_gained() -> None:
    base = builders.make_base(chunking={"strategy": "document", "size": 200, "overlap": 0})
    builders.add_text(base, "mixed.md", MIXED)
    builders.add_text(base, "lamps.md", "Lamps look good in the living room, whatever their age.")
    builders.add_text(base, "warranties.md", "Warranties exist for tables, chairs and cupboards.")
    builders.build(base)
    cut_otherwise(base, 20)
    base = find(base.pk)
    ask(base, **{COVERED: ["mixed.md"], "Is there a table warranty?": ["warranties.md"]})

    evaluation = run(base, 1, 2)

    before, after = measures(evaluation)
    assert before["nDCG@10"] < after["nDCG@10"] == 1
    [comparison] = comparisons(evaluation)
    assert comparison["from"] == {"snapshot": 1, "ranking": "dense"}
    assert comparison["to"] == {"snapshot": 2, "ranking": "dense"}
    assert comparison["losses"] == {"count": 0, "questions": []}
    assert comparison["unchanged"] == 1
    [gain] = comparison["gains"]["questions"]
    assert gain["query"] == COVERED
    assert gain["documents"][0]["name"] == "mixed.md"
    assert gain["documents"][0]["before"] > gain["documents"][0]["after"] == 1
    assert comparison["difference"]["nDCG@10"] == pytest.approx(gain["difference"] / 2, abs=1e-6)
    assert comparison["chance"] == 1


def test_evaluation__documents_of_many_chunks__looks_past_them() -> None:
    base = builders.make_base(chunking={"strategy": "sentence", "size": 12, "overlap": 0})
    loud = " ".join(f"Lamps are covered for {number} years." for number in range(250))
    builders.add_text(base, "loud.md", loud)
    builders.add_text(base, "quiet.md", "Our shop is in Lyon.")
    builders.build(base)
    base = find(base.pk)
    ask(base, **{COVERED: ["quiet.md"]})

    assert places(run(base)) == [[[2]]]


def test_evaluation__renamed_deleted_and_returned_documents__are_told_apart() -> None:
    base = builders.base_with()
    ask(base, **{COVERED: ["warranty.md"], POSTAGE: ["returns.md"]})
    warranty, returns = (
        base.documents.get(name="warranty.md"),
        base.documents.get(name="returns.md"),
    )
    update_document(actor=builders.ACTOR, base=base, document_id=warranty.pk, name="guarantee.md")
    delete_document(actor=builders.ACTOR, base=base, document_id=returns.pk)
    builders.build(base)
    builders.add_text(base, "returns.md", builders.RETURNS)
    builders.build(base)
    base = find(base.pk)

    evaluation = run(base, 1, 2, 3)

    assert places(evaluation) == [[[1], [1], [1]], [[1], [None], [1]]]
    scored = render_evaluation(evaluation)["scores"]
    assert [score["missingDocuments"] for score in scored] == [0, 1, 0]
    assert [score["measures"]["recall@25"] for score in scored] == [1, 0.5, 1]
    [row, _] = all_outcome_rows(evaluation)
    assert row["documents"][0]["name"] == "guarantee.md"


def test_evaluation__another_page_of_the_document__does_not_count() -> None:
    def fill(document: Any) -> None:
        for text in ("Lamps are covered for two years.", "Returns go to Lyon by post."):
            document.add_page()
            document.multi_cell(0, text=text)

    base = builders.make_base(chunking={"strategy": "page", "size": 100, "overlap": 0})
    upload = Upload(name="manual.pdf", content=pdf(fill))
    add_document(actor=builders.ACTOR, base=base, upload=upload)
    builders.build(base)
    base = find(base.pk)
    wrong = [{"name": "manual.pdf", "pages": [2]}]
    ask(base, **{COVERED: wrong, "Where do returns go?": wrong, "Covered?": ["manual.pdf"]})

    assert places(run(base)) == [[[2]], [[1]], [[1]]]


@pytest.mark.parametrize("again", [1, 2])
def test_evaluation__interrupted_after_every_question__ends_as_in_one_go(again: int) -> None:
    base = builders.base_with()
    cut_otherwise(base, 40)
    base = find(base.pk)
    ask(base, **{COVERED: ["warranty.md"], POSTAGE: ["returns.md"], NOTHING: []})
    whole = run(base, 1, 2)
    parts = run(base, 1, 2, at_once=0)
    seen = []

    while (claim := claim_evaluation(parts.pk)) is not None:
        work_on_evaluation(claim, seconds=0)
        parts = find_evaluation(base, parts.pk)
        seen.append(render_evaluation(parts)["progress"]["asked"])

    assert parts.state == "done"
    assert seen == [1, 2, 4, 5, 6] or seen == list(range(1, 7))
    assert all_outcome_rows(parts) == all_outcome_rows(whole)
    assert measures(parts) == measures(whole)


def test_evaluation__worker_that_died__is_taken_over_where_it_was() -> None:
    base = builders.base_with()
    ask(base, **{COVERED: ["warranty.md"], POSTAGE: ["returns.md"]})
    evaluation = run(base, at_once=0)
    dead = claim_evaluation(evaluation.pk)
    assert dead is not None
    assert claim_evaluation(evaluation.pk) is None
    assert due_evaluations() == []
    Evaluation.objects.filter(pk=evaluation.pk).update(
        leased_until=timezone.now() - timedelta(seconds=1)
    )
    assert due_evaluations() == [evaluation.pk]

    alive = claim_evaluation(evaluation.pk)
    assert alive is not None
    work_on_evaluation(dead, seconds=60)
    assert render_evaluation(find_evaluation(base, evaluation.pk))["progress"]["asked"] == 0
    work_on_evaluation(alive, seconds=60)

    assert find_evaluation(base, evaluation.pk).state == "done"


def test_evaluation__that_crashes_its_workers__fails_by_name() -> None:
    base = builders.base_with()
    ask(base, **{COVERED: ["warranty.md"]})
    evaluation = run(base, at_once=0)
    for _ in range(3):
        assert claim_evaluation(evaluation.pk) is not None
        Evaluation.objects.filter(pk=evaluation.pk).update(leased_until=timezone.now())

    assert claim_evaluation(evaluation.pk) is None

    failed = find_evaluation(base, evaluation.pk)
    assert failed.state == "failed"
    assert "crashed 3 times" in failed.detail


def test_evaluation__model_that_is_gone__fails_with_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = builders.base_with()
    ask(base, **{COVERED: ["warranty.md"]})
    monkeypatch.setattr("retrieval.questions.encoder_for", lambda _: _Replaced())

    failed = run(base)

    assert failed.state == "failed"
    assert "all-MiniLM-L6-v2" in failed.detail


class _Replaced:
    """The installed model after somebody put other weights under its name."""

    fingerprint = "sha256:" + "1" * 64


def test_evaluation__snapshots_that_cannot_be_asked__are_named() -> None:
    base = builders.base_with()
    ask(base, **{COVERED: ["warranty.md"]})
    cut_otherwise(base, 40)
    cut_otherwise(base, 60)
    other = builders.base_with()
    remove(base, 2)
    builders.add_text(base, "new.md", "New.")
    start_build(base.pk)
    base = find(base.pk)

    for number, code in [
        (2, "snapshot.pruned"),
        (4, "snapshot.not_ready"),
        (9, "snapshot.unknown"),
    ]:
        with pytest.raises(Invalid) as caught:
            run(base, 1, number)
        assert caught.value.code == code
        assert caught.value.errors[0].field == "snapshots.1"
        assert caught.value.errors[0].allowed == [3, 1]
    with pytest.raises(Invalid) as caught:
        run(base, 1, 1)
    assert caught.value.errors[0].field == "snapshots.1"
    with pytest.raises(Conflict) as conflict:
        run(other)
    assert conflict.value.code == "evaluation.no_questions"
    assert Evaluation.objects.count() == 0


def test_evaluation__snapshot_removed_meanwhile__fails_by_name() -> None:
    base = builders.base_with()
    ask(base, **{COVERED: ["warranty.md"]})
    cut_otherwise(base, 40)
    base = find(base.pk)
    evaluation = run(base, 1, at_once=0)
    remove(base, 1)

    claim = claim_evaluation(evaluation.pk)
    assert claim is not None
    work_on_evaluation(claim, seconds=60)

    failed = find_evaluation(base, evaluation.pk)
    assert (failed.state, failed.detail) == ("failed", "Snapshot 1 was removed meanwhile.")


def test_evaluation__ended__outlives_its_snapshot_and_goes_with_its_base() -> None:
    base = builders.base_with()
    ask(base, **{COVERED: ["warranty.md"]})
    cut_otherwise(base, 40)
    base = find(base.pk)
    evaluation = run(base, 1)
    remove(base, 1)

    assert measures(find_evaluation(base, evaluation.pk)) == measures(evaluation)
    delete_knowledge_base(actor=builders.ACTOR, knowledge_base_id=base.pk)

    assert Evaluation.objects.count() == EvaluationScore.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_evaluation__left_to_a_real_worker__is_done_by_it(worker: Worker) -> None:
    base = builders.base_with()
    ask(base, **{COVERED: ["warranty.md"], POSTAGE: ["returns.md"]})

    evaluation = run(base, at_once=0)

    assert evaluation.state == "running"
    wait_until(lambda: find_evaluation(base, evaluation.pk).state == "done")
    assert measures(find_evaluation(base, evaluation.pk))[0]["nDCG@10"] == 1
    assert isinstance(evaluation.pk, uuid.UUID)


def test_evaluation__of_both_rankings__shows_what_reranking_does() -> None:
    base = builders.make_base()
    for code in range(10, 30):
        text = f"Error code E{code} means that part {code * 7} of the lamp has to be replaced."
        builders.add_text(base, f"e{code}.md", text)
    builders.build(base)
    base = find(base.pk)
    ask(base, **{"What does E18 mean?": ["e18.md"]})

    evaluation = run(base, rankings=["reranked", "dense"])

    dense, reranked = render_evaluation(evaluation)["scores"]
    assert (dense["ranking"], reranked["ranking"]) == ("dense", "reranked")
    assert dense["rankingRecipe"]["fusion"] is None
    assert reranked["rankingRecipe"]["fusion"] is not None
    assert reranked["measures"]["hit@1"] == 1
    [comparison] = comparisons(evaluation)
    assert comparison["from"]["ranking"] == "dense"
