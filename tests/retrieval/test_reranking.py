"""Reranking and diversity as a caller sees them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from agents.models import AgentVersion
from agents.verification import summary, verify_version
from agents.versions import runnable
from registry.errors import Invalid, Unavailable
from retrieval import encoders, rankings, term_counts
from retrieval.knowledge_bases import find, update_knowledge_base
from retrieval.models import IndexedDocument, KnowledgeBase, RerankScore
from retrieval.purging import purge_document
from retrieval.questions import Question
from retrieval.search import Retrieval, Target, current_target, retrieve, retrieve_again
from retrieval.verification import Verifier
from tests import builders
from tests.retrieval.cross_encoders import make_cross_encoder

pytestmark = pytest.mark.django_db

_CODES = "\n\n".join(
    f"## Fault\n\nThe lamp shows the code {code} when its driver has a fault and must be replaced."
    for code in ("KX-11", "QT-25", "ZB-73", "WR-48", "PL-96")
)
_QUESTION = "What does the lamp's fault code ZB-73 mean?"


# Some 340 tokens, of which the model reads 254.
_LENGTHY = " ".join(
    f"Part {part} of the manual tells how the lamp is cleaned, stored and sent back."
    for part in range(20)
)


_OF_BORAGE = "How is the lamp of Borage cleaned, stored and sent back?"


@pytest.fixture
def codes() -> KnowledgeBase:
    """Five chunks that the vectors hardly tell apart, and one that the words do."""
    base = builders.make_base(chunking={"strategy": "markdown", "size": 30, "overlap": 0})
    builders.add_text(base, "codes.md", _CODES)
    builders.add_text(base, "warranty.md", builders.WARRANTY)
    builders.build(base)
    return _applied(base)


def _below_the_triggers(change: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE retrieval_indexeddocument DISABLE TRIGGER USER")
        cursor.execute(f"UPDATE retrieval_indexeddocument {change}")
        cursor.execute("ALTER TABLE retrieval_indexeddocument ENABLE TRIGGER USER")


def _applied(base: KnowledgeBase, **settings: Any) -> KnowledgeBase:
    settings = {"settingsMode": "applied", "rerankEnabled": True, **settings}
    update_knowledge_base(
        actor=builders.ACTOR, knowledge_base_id=base.pk, values={"settings": settings}
    )
    return find(base.pk)


def _ask(target: Target | KnowledgeBase, query: str = _QUESTION, **more: Any) -> Retrieval:
    if isinstance(target, KnowledgeBase):
        target = current_target(find(target.pk))
    return retrieve(target, Question(query=query, confidence_threshold=0, **more))


def test_rerank__by_words_that_one_passage_has__puts_it_first_and_keeps_confidences(
    codes: KnowledgeBase,
) -> None:
    reranked = _ask(codes)
    plain = _ask(_applied(codes, rerankEnabled=False))

    assert "ZB-73" in reranked.results[0]["passage"]
    assert [one["rerankScore"] for one in reranked.results] == sorted(
        (one["rerankScore"] for one in reranked.results), reverse=True
    )
    confidences = {one["chunk"]: one["confidence"] for one in plain.results}
    assert all(
        one["confidence"] == confidences[one["chunk"]]
        for one in reranked.results
        if one["chunk"] in confidences
    )
    assert not any("rerankScore" in one for one in plain.results)
    assert reranked.receipt != plain.receipt


def test_rerank__with_another_floor__gives_every_passage_the_same_score(
    codes: KnowledgeBase,
) -> None:
    everything = {one["chunk"]: one["rerankScore"] for one in _ask(codes, top_k=25).results}
    floor = sorted(one["confidence"] for one in _ask(codes, top_k=25).results)[3]

    found = retrieve(
        current_target(codes), Question(query=_QUESTION, confidence_threshold=floor, top_k=25)
    )

    assert 0 < len(found.results) < len(everything)
    assert all(one["rerankScore"] == everything[one["chunk"]] for one in found.results)


def test_rerank__with_a_small_count__looks_beyond_it(codes: KnowledgeBase) -> None:
    """The best 100 are reranked and then counted, not the other way round."""
    by_vectors = [one["passage"] for one in _ask(_applied(codes, rerankEnabled=False)).results]
    rare = next(code for code in ("KX-11", "QT-25", "WR-48", "PL-96") if code not in by_vectors[0])

    found = _ask(_applied(codes), f"fault code {rare}", top_k=1)

    assert rare in found.results[0]["passage"]


@pytest.fixture
def lengthy() -> KnowledgeBase:
    """Whole documents, alike as far as the model reads; a word at the very end tells them apart."""
    base = builders.make_base(chunking={"strategy": "document"})
    for lamp in ("Aster", "Borage", "Clover"):
        builders.add_text(base, f"{lamp}.md", f"{_LENGTHY} Made by {lamp}.")
    builders.add_text(base, "warranty.md", builders.WARRANTY)
    builders.build(base)
    return _applied(base)


def test_rerank__by_a_word_that_the_model_did_not_read_to__finds_its_document(
    lengthy: KnowledgeBase,
) -> None:
    for lamp in ("Aster", "Borage", "Clover"):
        found = _ask(lengthy, f"How is the lamp of {lamp} cleaned, stored and sent back?")

        first = found.results[0]
        assert first["document"]["name"] == f"{lamp}.md"
        assert first["truncated"]
        # What is shown is what was embedded.
        assert lamp not in first["passage"]


@pytest.mark.parametrize("kept", ["NULL", r"'\x0000'", "set_byte(term_statistics, 0, 1)"])
@pytest.mark.parametrize("name", ["codes", "lengthy"])
def test_rerank__of_documents_whose_statistics_are_missing_or_of_old__is_the_same(
    name: str, kept: str, request: pytest.FixtureRequest
) -> None:
    base = request.getfixturevalue(name)
    query = _QUESTION if name == "codes" else _OF_BORAGE
    version = builders.published(base)[1]
    before = _ask(base, query)
    _below_the_triggers(f"SET term_statistics = {kept}")
    term_counts._statistics.cache_clear()

    assert _ask(base, query).as_json() == before.as_json()
    again = retrieve_again(current_target(find(base.pk)), before.question)
    assert again.as_json() == before.as_json()
    assert summary(verify_version(version, Verifier()))["ok"]


def test_rerank__after_a_purge__gives_the_passages_that_are_left_their_places_and_scores(
    lengthy: KnowledgeBase,
) -> None:
    """Also where what is gone was the best by far, or one that its text was cut of."""
    query = _OF_BORAGE
    target = _published_target(builders.published(lengthy)[1], lengthy)
    before = _ask(target, query)
    gone = before.results[0]["document"]

    purge_document(
        actor=builders.ACTOR, base=find(lengthy.pk), document_id=gone["id"], reason="a request"
    )
    term_counts._statistics.cache_clear()

    after = _ask(target, query)
    assert after.results == [one for one in before.results if one["document"] != gone]
    assert len(after.results) == 3
    assert retrieve_again(target, before.question).as_json() == after.as_json()


def test_publish__with_reranking__pins_how_and_goes_on_after_the_setting_is_off(
    codes: KnowledgeBase,
) -> None:
    version = builders.published(codes)[1]
    target = _published_target(version, codes)
    before = _ask(target).as_json()

    _applied(codes, rerankEnabled=False, settingsMode="recorded")

    assert _ask(target).as_json() == before
    assert target.recipe["fusion"]["recipe"].endswith("/2")


def test_retrieve__by_a_recipe_of_other_software__refuses_loudly(codes: KnowledgeBase) -> None:
    target = _published_target(builders.published(codes)[1], codes)
    for member in ("fusion", "diversity"):
        recipe = {**target.recipe, member: {"recipe": "of-tomorrow/2"}}

        with pytest.raises(Unavailable) as refused:
            _ask(replace(target, recipe=recipe))

        assert refused.value.code == "ranking.recipe_not_available"


@pytest.mark.parametrize("name", ["codes", "lengthy"])
def test_verify__a_flipped_byte_in_term_statistics__is_found_and_named(
    name: str, request: pytest.FixtureRequest
) -> None:
    version = builders.published(request.getfixturevalue(name))[1]
    assert not IndexedDocument.objects.filter(term_statistics=None).exists()
    assert summary(verify_version(version, Verifier()))["ok"]
    _below_the_triggers(
        "SET term_statistics = set_byte(term_statistics, 20, get_byte(term_statistics, 20) # 1)"
    )

    found = summary(verify_version(version, Verifier()))

    assert not found["ok"]
    assert found["firstDifference"]["what"] == "its term statistics"


def test_diversity__of_repeated_boilerplate__leaves_out_and_counts() -> None:
    base = builders.make_base()
    for number in range(4):
        builders.add_text(base, f"{number}.md", builders.RETURNS + f"\n\nPage {number}.")
    builders.add_text(base, "warranty.md", builders.WARRANTY)
    builders.build(base)

    plain = _ask(_applied(base, rerankEnabled=False), "Returns by post")
    diverse = _ask(_applied(base, rerankEnabled=False, diversityEnabled=True), "Returns by post")

    assert plain.as_json()["dropped"] == {"nearDuplicates": 0, "maxContextLength": 0}
    dropped = diverse.as_json()["dropped"]["nearDuplicates"]
    assert dropped >= 3
    assert len({one["document"]["name"] for one in diverse.results}) == len(diverse.results)
    assert diverse.applied["diversityEnabled"] == {"value": True, "source": "knowledgeBase"}
    assert "diversityEnabled" not in plain.applied


def test_diversity__recorded__changes_nothing() -> None:
    base = builders.base_with(one_md=builders.RETURNS, two_md=builders.RETURNS + "\n\nPage 2.")
    update_knowledge_base(
        actor=builders.ACTOR,
        knowledge_base_id=base.pk,
        values={"settings": {"diversityEnabled": True}},
    )

    found = _ask(base, "Returns by post")

    assert len(found.results) >= 2
    assert found.applied["diversityEnabled"] == {"value": True, "source": "recordedOnly"}
    assert "dropped" not in found.as_json()


@pytest.fixture
def cross_encoder(tmp_path: Path, settings: Settings) -> Iterator[Path]:
    """A cross-encoder of random weights, small and real; set as ``RERANK_MODEL``."""
    folder = tmp_path / "cross"
    make_cross_encoder(folder, seed=1)
    settings.RERANK_MODEL = str(folder)
    yield folder
    encoders._rerankers.clear()


def test_cross_encoder__configured__gives_the_order_and_is_pinned(
    codes: KnowledgeBase, cross_encoder: Path
) -> None:
    version = builders.published(codes)[1]
    target = _published_target(version, codes)

    found = _ask(target)

    scores = [one["rerankScore"] for one in found.results]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) > 1
    assert target.recipe["reranker"]["fingerprint"].startswith("sha256:")
    assert target.recipe["fusion"] is None
    assert RerankScore.objects.count() >= len(scores)


def test_cross_encoder__gone_or_another__serves_what_is_recorded_and_refuses_the_rest(
    codes: KnowledgeBase, cross_encoder: Path, settings: Settings, tmp_path: Path
) -> None:
    target = _published_target(builders.published(codes)[1], codes)
    before = _ask(target).as_json()
    make_cross_encoder(tmp_path / "other", seed=2)
    settings.RERANK_MODEL = str(tmp_path / "other")

    assert _ask(target).as_json() == before
    with pytest.raises(Unavailable) as refused:
        _ask(target, "Who pays the postage?")

    assert refused.value.code == "reranker.not_available"
    assert refused.value.data["reranker"] == str(cross_encoder)


def test_cross_encoder__that_another_machine_scored_otherwise__is_believed_as_recorded(
    codes: KnowledgeBase, cross_encoder: Path
) -> None:
    """The score in the table is the score, whatever this machine would compute."""
    target = _published_target(builders.published(codes)[1], codes)
    last = _ask(_applied(codes, rerankEnabled=False)).results[-1]
    RerankScore.objects.create(
        reranker=target.recipe["reranker"]["fingerprint"],
        query_digest=Question(query=_QUESTION).digest,
        chunk_digest=last["chunk"],
        score=99.5,
        provenance="another machine",
    )

    first = _ask(target).results[0]

    assert (first["chunk"], first["rerankScore"]) == (last["chunk"], 99.5)


def _published_target(version: AgentVersion, base: KnowledgeBase) -> Target:
    return runnable(version.agent, version).target(base.pk)


def test_publish__while_the_reranker_is_gone__is_refused(
    codes: KnowledgeBase, settings: Settings
) -> None:
    settings.RERANK_MODEL = "no-such-reranker"

    with pytest.raises(Invalid) as refused:
        builders.published(codes)

    assert refused.value.code == "reranker.not_configured"


def test_evaluation__of_the_reranked_order__is_that_of_a_search(codes: KnowledgeBase) -> None:
    target = current_target(find(codes.pk))

    def ranked(name: rankings.Ranking) -> Any:
        by_recipe = replace(target, recipe=rankings.recipe_of(name))
        return rankings.ranked(by_recipe, Question(query=_QUESTION), 5)

    evaluated = ranked("reranked")

    assert [one.chunk for one in evaluated] == [one["chunk"] for one in _ask(codes).results]
    plain = ranked("dense")
    assert [one.score for one in plain] == sorted((one.score for one in plain), reverse=True)
