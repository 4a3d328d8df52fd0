"""How far a passage shares the question's words, the same to the bit on every machine.

The evidence is BM25 (Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and
Beyond, 2009, §3.2) divided by the most that the question could reach, so that it lies in 0…1 and
says how much of the question a passage covers, weighted by how rare its words are. Knows neither
Django nor the database.

Sums are taken in a fixed order and logarithms in decimal arithmetic: the C library's differ from
machine to machine in the last bit.
"""

from __future__ import annotations

import re
import struct
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import numpy as np
import Stemmer
from numpy.typing import NDArray

TERMS: Final = "nfkc-casefold-snowball-english-bigrams/1"
K1: Final = 2.0
B: Final = 0.3

_WORD = re.compile(r"\w+")
# Scripts that put no spaces between words are cut into pairs of characters: Thai, Lao, Myanmar,
# Khmer, kana, Chinese characters, Hangul (whose words carry their particles).
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_UNSPACED += "\U00020000-\U0003ffff"
_RUN = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
# Accents, Arabic and Hebrew vowel signs, and the Arabic stretching sign: often left out in writing.
_SIGNS = re.compile("[\u0300-\u036f\u0591-\u05c7\u0640\u064b-\u0652\u0670]")
_HEADER = struct.Struct("<QQ")
_DECIMAL = Context(prec=40)

Terms = list[int]


def terms(text: str) -> Terms:
    """Return the terms of a text in order, each as a number of 64 bits.

    Numbers and not words, so that what is kept of a purged text is no text.
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = unicodedata.normalize("NFC", _SIGNS.sub("", unicodedata.normalize("NFD", plain)))
    found: Terms = []
    for word in _WORD.findall(plain):
        if not _IS_UNSPACED.search(word):
            found.append(_number(_stemmed(word)))
            continue
        for run in _RUN.findall(word):
            if _IS_UNSPACED.match(run):
                found += [_number(run[at : at + 2]) for at in range(max(1, len(run) - 1))]
            else:
                found.append(_number(_stemmed(run)))
    return found


@lru_cache(maxsize=1 << 16)
def _stemmed(word: str) -> str:
    # One stemmer must not serve several threads; making one takes 5 µs, and words repeat.
    return str(Stemmer.Stemmer("english").stemWord(word)) if len(word) < 64 else word


@lru_cache(maxsize=1 << 17)
def _number(term: str) -> int:
    return int.from_bytes(blake2b(term.encode(), digest_size=8).digest(), "little")


def document_statistics(passages: Iterable[str]) -> bytes:
    """Return how many of a document's passages hold each term, and how many terms they have.

    The form is little-endian: the number of passages and of all their terms as u64, then the terms
    in ascending order as u64, then the number of passages with each as u32.
    """
    frequency: Counter[int] = Counter()
    passage_count = length = 0
    for passage in passages:
        found = terms(passage)
        frequency.update(set(found))
        passage_count += 1
        length += len(found)
    ordered = sorted(frequency)
    return (
        _HEADER.pack(passage_count, length)
        + np.array(ordered, dtype="<u8").tobytes()
        + np.array([frequency[term] for term in ordered], dtype="<u4").tobytes()
    )


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
            document_passages, document_length = _HEADER.unpack_from(packed)
            passages += document_passages
            length += document_length
            count = (len(packed) - _HEADER.size) // 12
            all_terms.append(np.frombuffer(packed, "<u8", count, _HEADER.size))
            all_counts.append(np.frombuffer(packed, "<u4", count, _HEADER.size + 8 * count))
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


def evidence(
    question: Sequence[int], passages: Sequence[Sequence[int]], collection: TermStatistics
) -> list[float]:
    """Return for each passage how much of ``question`` it covers, 0…1.

    All are given as ``terms`` gives them; a term that the question repeats counts once.
    """
    asked = list(dict.fromkeys(question))
    weights = [_rarity(collection.passages, collection.frequency(term)) for term in asked]
    most = sum(weights)
    if not most:
        return [0.0] * len(passages)
    usual = collection.length / collection.passages if collection.length else 1.0
    covered: list[float] = []
    for passage in passages:
        counts = Counter(passage)
        saturation = K1 * (1 - B + B * len(passage) / usual)
        total = 0.0
        for term, weight in zip(asked, weights, strict=True):
            count = counts.get(term, 0)
            if count:
                total += weight * (count / (count + saturation))
        covered.append(total / most)
    return covered


@lru_cache(maxsize=1 << 14)
def _rarity(passages: int, holding: int) -> float:
    """Return ln(1 + (N − n + ½) / (n + ½)), correctly rounded."""
    holding = min(holding, passages)
    odds = _DECIMAL.divide(Decimal(2 * (passages - holding) + 1), Decimal(2 * holding + 1))
    return float(_DECIMAL.ln(_DECIMAL.add(1, odds)))
