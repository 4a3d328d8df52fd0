"""Terms, and how much of a question a passage covers."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.lexical import K1, B, TermStatistics, document_statistics, evidence, terms

_PASSAGES = (
    "The parcel goes back by post within thirty days.",
    "Lamps are covered for two years.",
    "A refund is paid when the parcel has arrived.",
)


def _collection(*passages: str) -> TermStatistics:
    return TermStatistics.of([document_statistics(passages)])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Returns", "returning"),
        ("CAFÉ", "cafe\u0301"),
        ("ﬁne", "fine"),
        ("naïve", "naive"),
        ("Straße", "STRASSE"),
        ("كِتَاب", "كتاب"),
    ],
)
def test_terms__of_one_word_written_in_two_ways__are_equal(one: str, other: str) -> None:
    assert terms(one) == terms(other)


def test_terms__of_scripts_without_spaces__are_pairs_of_characters() -> None:
    assert set(terms("退货")) < set(terms("如何退货退款"))
    assert len(terms("如何退货")) == 3
    assert len(terms("Web商店")) == 2


def test_terms__golden__are_these_numbers() -> None:
    """They decide orders of published versions: new ones need a new name in ``lexical.TERMS``."""
    assert terms("Refunds for 返品, naïve ﬁles") == [
        15685397089556917362,
        4432268148083976480,
        2473261967628666758,
        2419263931139571347,
        17737410674785736204,
    ]


def test_evidence__of_known_counts__is_bm25_over_its_most() -> None:
    """The formula of Robertson and Zaragoza, computed here in another way."""
    found = evidence(
        terms("parcel refund"), [terms(one) for one in _PASSAGES], _collection(*_PASSAGES)
    )

    lengths = [len(terms(one)) for one in _PASSAGES]
    usual = sum(lengths) / 3
    parcel, refund = math.log(1 + 1.5 / 2.5), math.log(1 + 2.5 / 1.5)

    def share(length: int) -> float:
        return 1 / (1 + K1 * (1 - B + B * length / usual))

    assert found == pytest.approx(
        [
            parcel * share(lengths[0]) / (parcel + refund),
            0,
            share(lengths[2]),
        ],
        abs=1e-12,
    )


def test_statistics__of_a_collection__do_not_depend_on_how_documents_divide_it() -> None:
    whole = _collection(*_PASSAGES)
    parts = TermStatistics.of(document_statistics([one]) for one in reversed(_PASSAGES))

    for term in {term for one in _PASSAGES for term in terms(one)}:
        assert whole.frequency(term) == parts.frequency(term)
    assert (whole.passages, whole.length) == (parts.passages, parts.length)
    assert whole.frequency(12345) == 0


@given(st.lists(st.text(max_size=60), max_size=8), st.text(max_size=60))
def test_evidence__of_any_text__lies_between_none_and_all(
    passages: list[str], question: str
) -> None:
    collection = _collection(*passages)
    asked = terms(question)
    counts = Counter(term for one in passages for term in set(terms(one)))

    found = evidence(asked, [terms(one) for one in passages], collection)

    assert all(0 <= one < 1 for one in found)
    assert all(collection.frequency(term) == counts[term] for term in asked)
    for one, covered in zip(passages, found, strict=True):
        assert (covered > 0) == bool(set(asked) & set(terms(one)))


def test_evidence__without_any_passage_or_term__is_none() -> None:
    assert evidence([], [[1]], _collection()) == [0.0]
    assert evidence([1], [], _collection()) == []
    assert TermStatistics.of([]).frequency(1) == 0
