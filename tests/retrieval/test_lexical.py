"""Terms, and how much of a question a passage covers."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.lexical import (
    K1,
    OPENING,
    B,
    PassageTerms,
    TermStatistics,
    document_statistics,
    evidence,
    is_readable,
    terms,
)

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


def test_evidence__of_known_counts__is_bm25_times_its_share_of_all() -> None:
    """The formula of Robertson and Zaragoza, computed here in another way."""
    found = evidence(
        terms("parcel refund"), [PassageTerms.of(one) for one in _PASSAGES], _collection(*_PASSAGES)
    )

    lengths = [len(terms(one)) for one in _PASSAGES]
    usual = sum(lengths) / 3
    parcel, refund = math.log(1 + 1.5 / 2.5), math.log(1 + 2.5 / 1.5)

    def share(length: int) -> float:
        return 1 / (1 + K1 * (1 - B + B * length / usual))

    assert found == pytest.approx(
        [
            (parcel * share(lengths[0])) ** 2 / (parcel + refund),
            0,
            (parcel + refund) * share(lengths[2]) ** 2,
        ],
        abs=1e-12,
    )


def test_evidence__of_one_passage__depends_on_no_other() -> None:
    """So a purge, which takes candidates away, changes no other passage's score."""
    collection = _collection(*_PASSAGES)
    asked = terms("Is the parcel covered for thirty days?")
    passages = [PassageTerms.of(one) for one in _PASSAGES]

    together = evidence(asked, passages, collection)

    assert together == [evidence(asked, [one], collection)[0] for one in passages]
    assert together[0] > together[1] > together[2] > 0


def test_evidence__of_a_word_in_the_opening__is_more_than_of_one_further_down() -> None:
    filler = " ".join(f"word{number}" for number in range(2 * OPENING - 1))
    passages = (f"Refunds {filler}", f"{filler} refunds", "Refunds of parcels")

    heading, body, short = (PassageTerms.of(one) for one in passages)

    term = terms("refund")[0]
    assert (heading.counts[term], body.counts[term], short.counts[term]) == (2, 1, 1)
    assert heading.length == body.length == 2 * OPENING
    found = evidence([term], [heading, body], _collection(*passages))
    assert found[0] > found[1] > 0


def test_statistics__of_a_document_of_one_passage__tell_its_words_as_its_text_does() -> None:
    text = "Returns by post. " + " ".join(["parcel"] * 3 + [f"word{n}" for n in range(50)])
    asked = terms("returns parcel lamp")

    kept = PassageTerms.of_document(document_statistics([text]), asked)

    counted = PassageTerms.of(text)
    assert kept.length == counted.length
    assert {term: kept.counts[term] for term in asked} == {
        term: counted.counts.get(term, 0) for term in asked
    }
    assert list(kept.counts.values()) == [2, 6, 0]
    # In a collection it holds each word once all the same.
    assert TermStatistics.of([document_statistics([text])]).frequency(asked[1]) == 1


def test_statistics__golden__are_these_bytes() -> None:
    """They are kept with documents and travel in exports: other bytes need a new form."""
    (parcel,), (by,) = terms("parcels"), terms("by")
    ordered = sorted([parcel, by])

    one = document_statistics(["Parcel by parcel"])
    two = document_statistics(["Parcel by parcel", "parcels"])

    def packed(passages: int, length: int, counts: dict[int, int]) -> bytes:
        return (
            b"\x02"
            + bytes(7)
            + passages.to_bytes(8, "little")
            + length.to_bytes(8, "little")
            + b"".join(term.to_bytes(8, "little") for term in ordered)
            + b"".join(counts[term].to_bytes(4, "little") for term in ordered)
        )

    assert one == packed(1, 3, {parcel: 2, by: 1})
    assert two == packed(2, 4, {parcel: 2, by: 1})
    assert is_readable(one)
    assert not is_readable(b"")
    assert not is_readable(b"\x01" + one[1:])


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

    found = evidence(asked, [PassageTerms.of(one) for one in passages], collection)

    most = sum(
        math.log(1 + (len(passages) - counts[one] + 0.5) / (counts[one] + 0.5))
        for one in set(asked)
    )
    assert all(0 <= one <= most for one in found)
    assert all(collection.frequency(term) == counts[term] for term in asked)
    for one, covered in zip(passages, found, strict=True):
        assert (covered > 0) == bool(set(asked) & set(terms(one)))


def test_evidence__without_any_passage_or_term__is_none() -> None:
    assert evidence([], [PassageTerms.of("word")], _collection()) == [0.0]
    assert evidence([1], [], _collection()) == []
    assert TermStatistics.of([]).frequency(1) == 0
