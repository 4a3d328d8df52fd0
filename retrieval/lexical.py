"""How far a passage shares the question's words, the same to the bit on every machine.

The evidence is BM25 (Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and
Beyond, 2009, §3.2) times the share that it is of the most that the question could reach: much of
a long question, or nearly all of a short one, counts; two or three words shared by chance hardly
do. Knows neither Django nor the database.

Sums are taken in a fixed order and logarithms in decimal arithmetic: the C library's differ from
machine to machine in the last bit.
"""

from __future__ import annotations

import math
import re
import struct
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import numpy as np
import Stemmer
from numpy.typing import NDArray

TERMS: Final = "nfkc-casefold-snowball-english-bigrams/1"
K1: Final = 1.5
B: Final = 0.5
# Of passages at least twice as long, this many terms at the start count twice.
OPENING: Final = 20

_WORD = re.compile(r"\w+")
# Scripts that put no spaces between words are cut into pairs of characters: Thai, Lao, Myanmar,
# Khmer, kana, Chinese characters, Hangul (whose words carry their particles).
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_UNSPACED += "\U00020000-\U0003ffff"
_RUN = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
# Accents, Arabic and Hebrew vowel signs, and the Arabic stretching sign: often left out in writing.
_SIGNS = re.compile("[\u0300-\u036f\u0591-\u05c7\u0640\u064b-\u0652\u0670]")
# Raise it with the form of what ``document_statistics`` gives.
_FORM = 2
# Padded, so that what follows lies as processors read it.
_HEADER = struct.Struct("<B7xQQ")
_DECIMAL = Context(prec=40)

Terms = list[int]


def terms(text: str) -> Terms:
    """Return the terms of a text in order, each as a number of 64 bits.

    Numbers and not words, so that what is kept of a purged text is no text.
    """
    plain = text.lower() if text.isascii() else _plain(text)
    words = _WORD.findall(plain)
    if not _IS_UNSPACED.search(plain):
        return [_term(word) for word in words]
    found: Terms = []
    for word in words:
        for run in _RUN.findall(word):
            if _IS_UNSPACED.match(run):
                found += [_number(run[at : at + 2]) for at in range(max(1, len(run) - 1))]
            else:
                found.append(_term(run))
    return found


def _plain(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFC", _SIGNS.sub("", unicodedata.normalize("NFD", plain)))


@lru_cache(maxsize=1 << 17)
def _term(word: str) -> int:
    # One stemmer must not serve several threads; making one takes 5 µs, and words repeat.
    stem = Stemmer.Stemmer("english").stemWord(word) if len(word) < 64 else word
    return _number(stem)


def _number(term: str) -> int:
    return int.from_bytes(blake2b(term.encode(), digest_size=8).digest(), "little")


def document_statistics(passages: Iterable[str]) -> bytes:
    """Return how many of a document's passages hold each term, and how many terms they have.

    The statistics of a document of one passage say how often it holds each term, so that they
    also tell that passage's evidence (``PassageTerms.of_document``).

    The form is little-endian: its number as u8, seven zeros, the number of passages and of all
    their terms as u64, then the terms in ascending order as u64, then the count of each as u32.
    """
    holding: Counter[int] = Counter()
    found: Terms = []
    passage_count = length = 0
    for passage in passages:
        found = terms(passage)
        holding.update(set(found))
        passage_count += 1
        length += len(found)
    counts = _counted(found) if passage_count == 1 else holding
    ordered = sorted(counts)
    return (
        _HEADER.pack(_FORM, passage_count, length)
        + np.array(ordered, dtype="<u8").tobytes()
        + np.array([counts[term] for term in ordered], dtype="<u4").tobytes()
    )


def is_readable(packed: bytes) -> bool:
    """Say whether ``document_statistics`` of this software gave ``packed``, by its form."""
    return packed[:1] == bytes([_FORM])


@dataclass(frozen=True, slots=True, kw_only=True)
class TermStatistics:
    """What BM25 asks of a whole collection of passages."""

    passages: int
    length: int
    known_terms: NDArray[np.uint64]
    frequencies: NDArray[np.int64]

    @classmethod
    def of(cls, documents: Iterable[bytes]) -> TermStatistics:
        """Return the sum over what ``document_statistics`` gave for each document."""
        passages = length = 0
        all_terms: list[NDArray[np.uint64]] = [np.empty(0, dtype="<u8")]
        all_counts: list[NDArray[np.uint32]] = [np.empty(0, dtype="<u4")]
        for packed in documents:
            document_passages, document_length, in_document, counts = _unpacked(packed)
            passages += document_passages
            length += document_length
            all_terms.append(in_document)
            # Of a document of one passage: how often, where here counts whether at all.
            all_counts.append(np.minimum(counts, document_passages))
        known, place = np.unique(np.concatenate(all_terms), return_inverse=True)
        frequencies = np.zeros(len(known), dtype=np.int64)
        np.add.at(frequencies, place, np.concatenate(all_counts))
        return cls(passages=passages, length=length, known_terms=known, frequencies=frequencies)

    def frequency(self, term: int) -> int:
        """Return how many passages hold ``term``."""
        place = int(np.searchsorted(self.known_terms, np.uint64(term)))
        if place == len(self.known_terms) or int(self.known_terms[place]) != term:
            return 0
        return int(self.frequencies[place])


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageTerms:
    """What BM25 asks of one passage: how many terms it has, and how often each."""

    length: int
    counts: Mapping[int, int]

    @classmethod
    def of(cls, text: str) -> PassageTerms:
        found = terms(text)
        return cls(length=len(found), counts=_counted(found))

    @classmethod
    def of_document(cls, packed: bytes, asked: Sequence[int]) -> PassageTerms:
        """Return the ``asked`` terms of a document's one passage, from its statistics."""
        _, length, known, counts = _unpacked(packed)
        wanted = np.array(asked, dtype=np.uint64)
        places = np.searchsorted(known, wanted)
        # Beyond the last there is none; the first is as good a place to see that it is another.
        places[places == len(known)] = 0
        here = counts[places] * (known[places] == wanted) if len(known) else 0 * places
        return cls(length=length, counts=dict(zip(asked, here.tolist(), strict=True)))


def evidence(
    question: Sequence[int], passages: Sequence[PassageTerms], collection: TermStatistics
) -> list[float]:
    """Return how much each passage shares of ``question``: BM25 times the share it is of all.

    At least 0, and less than the rarities of the question's terms together. Each passage's
    depends on no other passage. ``question`` is as ``terms`` gives it; a term that it repeats
    counts once.
    """
    asked = list(dict.fromkeys(question))
    weights = [_rarity(collection.passages, collection.frequency(term)) for term in asked]
    most = math.fsum(weights)
    if not most:
        return [0.0] * len(passages)
    usual = collection.length / collection.passages if collection.length else 1.0
    found: list[float] = []
    for passage in passages:
        saturation = K1 * (1 - B + B * passage.length / usual)
        shared = 0.0
        for term, weight in zip(asked, weights, strict=True):
            count = passage.counts.get(term, 0)
            if count:
                shared += weight * (count / (count + saturation))
        found.append(shared * (shared / most))
    return found


@lru_cache(maxsize=1 << 14)
def _rarity(passages: int, holding: int) -> float:
    """Return ln(1 + (N − n + ½) / (n + ½)), correctly rounded."""
    holding = min(holding, passages)
    odds = _DECIMAL.divide(Decimal(2 * (passages - holding) + 1), Decimal(2 * holding + 1))
    return float(_DECIMAL.ln(_DECIMAL.add(1, odds)))


def _counted(found: Sequence[int]) -> Counter[int]:
    """Count terms; those of a passage's opening, where titles and headings stand, twice."""
    counts = Counter(found)
    if len(found) >= 2 * OPENING:
        counts.update(found[:OPENING])
    return counts


def _unpacked(packed: bytes) -> tuple[int, int, NDArray[np.uint64], NDArray[np.uint32]]:
    form, passages, length = _HEADER.unpack_from(packed)
    if form != _FORM:
        raise ValueError(f"term statistics of form {form}; this software has form {_FORM}")
    count = (len(packed) - _HEADER.size) // 12
    return (
        passages,
        length,
        np.frombuffer(packed, "<u8", count, _HEADER.size),
        np.frombuffer(packed, "<u4", count, _HEADER.size + 8 * count),
    )
