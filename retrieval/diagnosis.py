"""What an answer suffers from, computed: each finding with its figures and where to look.

The rules, their thresholds and what these rest on are written down in docs/diagnosis.md. They
look at figures, not at truth: a finding says where to look first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import regex

from retrieval.answering import without_citations
from retrieval.encoders import DEFAULT_MODEL, Encoder, encoder_for
from retrieval.scoring import scores
from retrieval.vectors import Vector

# Closeness of the best passage below which the material is hardly there. Bundled model: of 20
# questions to a help centre the passages with the answer scored 0.46 to 0.77, of 32 questions
# from elsewhere the best 0.13 to 0.39.
LOW = 0.45
# Where unrelated chunks score above this already (other models), closeness starts there.
_BACKGROUND = 0.2
# The best passage above the fifth: questions with an answer 0.06 to 0.35, median 0.13 to 0.16.
FLAT = 0.05
_FLAT_OVER = 5
# Of what the model reads at most: such a chunk holds several subjects.
LONG_SHARE = 0.5
# Of the sentences in passages, how many are close to the question.
OFF_TOPIC_SHARE = 0.25
# Characters of all passages together: less than two or three sentences.
THIN = 200
# How much of a sentence a passage must say: its words, or its meaning (cosine), or both in part.
WORDS, MEANING = 0.7, 0.8
SOME_WORDS, SOME_MEANING = 0.4, 0.6
_MOST_SENTENCES = 30
_MOST_PASSAGE_SENTENCES = 120
_LEAST_WORDS = 3
_MOST_QUOTED = 3

_SENTENCE_END = regex.compile(r"(?<=[.!?…][\"'”’)\]]*)\s+|(?<=[。！？])|\n+")
_WORD = regex.compile(r"\p{Han}|\p{Hiragana}|\p{Katakana}|\p{Nd}+(?:[.,]\p{Nd}+)*|[\p{L}\p{M}]+")
# A sentence that speaks of its sources and says that something is not in them.
_DECLINES = re.compile(
    r"\b(?:passages?|documents?|sources?|texts?|context|information|knowledge base|I|we)\b"
    r".{0,60}?\b(?:do(?:es)? not|don't|doesn't|did not|cannot|can't|could not|unable|not enough|"
    r"is not|isn't|are not|aren't|nothing|none)\b|\bno (?:\w+ )?(?:information|passage|answer)\b",
    re.IGNORECASE,
)
_NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        _WORD.findall("one two three four five six seven eight nine ten eleven twelve"), start=1
    )
}
_STOP_WORDS = frozenset(
    _WORD.findall(
        "a an and are as at be been but by can do does for from has have how if in into is it its "
        "may more most must no not of on or other our shall should so such than that the their "
        "them then there these they this those to under up was we were what when where which who "
        "will with would you your"
    )
)
# Endings differ (cover, covered, coverage); the beginnings of words do not.
_STEM = 5

Finding = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What was asked and what came of it.

    ``candidates`` are the confidences of the topK best in their order; ``background`` is the
    median confidence of unrelated chunks, 0 for the bundled model. ``passages`` are the texts
    that were returned. ``answer`` None: none was written.
    """

    question: str
    candidates: Sequence[float]
    background: float
    passages: Sequence[str]
    floor: float
    max_tokens: int
    failed_documents: int
    answer: str | None


def diagnose(situation: Situation) -> list[Finding]:
    """Return what stands out, the most telling first; empty where nothing does."""
    encoder = encoder_for(DEFAULT_MODEL)
    best = closeness(situation, max(situation.candidates, default=0.0))
    findings: list[Finding | None] = [
        _nothing_close(situation, best),
        _cut_by_the_floor(situation, best),
        _too_large(situation, best, encoder),
        _about_the_answer(situation, best, encoder),
    ]
    return [finding for finding in findings if finding is not None]


def closeness(situation: Situation, confidence: float) -> float:
    """Return a confidence on the scale on which unrelated chunks lie near 0."""
    background = situation.background
    if background <= _BACKGROUND or background >= 1:
        return confidence
    return max(0.0, (confidence - background) / (1 - background))


# -- the rules -----------------------------------------------------------------------------------


def _nothing_close(situation: Situation, best: float) -> Finding | None:
    if not situation.candidates or best >= LOW:
        return None
    return _finding(
        "scores.low",
        f"The best of {len(situation.candidates)} candidates has a confidence of "
        f"{max(situation.candidates):.2f}"
        + (f", a closeness of {best:.2f} here" if situation.background > _BACKGROUND else "")
        + f"; a passage that answers has rarely less than {LOW}.",
        "The material is probably not in this knowledge base: add the document that answers "
        "this, or ask in the words that the documents use.",
    )


def _cut_by_the_floor(situation: Situation, best: float) -> Finding | None:
    if situation.passages or not situation.candidates or best < LOW:
        return None
    return _finding(
        "floor.cuts_everything",
        f"The best candidate has a confidence of {max(situation.candidates):.2f} and the floor "
        f"is {situation.floor:g}: nothing is returned.",
        "The floor: lower confidenceThreshold, or similarityThreshold in the settings.",
    )


def _too_large(situation: Situation, best: float, encoder: Encoder) -> Finding | None:
    """Scores are high, but all alike, of long chunks that mostly speak of something else."""
    looked_at = situation.candidates[:_FLAT_OVER]
    if len(looked_at) < _FLAT_OVER or best < LOW or not situation.passages:
        return None
    spread = best - closeness(situation, min(looked_at))
    passages = situation.passages[:_FLAT_OVER]
    tokens = median(len(encoder.token_offsets(passage)) for passage in passages)
    long = LONG_SHARE * min(situation.max_tokens, encoder.max_tokens)
    if spread >= FLAT or tokens < long:
        return None
    told = sentences_of(passages, most=_MOST_PASSAGE_SENTENCES)
    close = _closest(encoder, [situation.question], told)
    share = float((close >= LOW).mean()) if close.size else 0.0
    if share > OFF_TOPIC_SHARE:
        return None
    return _finding(
        "chunks.too_large",
        f"The first {len(looked_at)} candidates lie within {spread:.2f} of each other, a passage "
        f"has about {tokens:.0f} tokens, and {share:.0%} of their {len(told)} sentences are "
        "close to the question.",
        "The chunk size: smaller chunks let the passage that answers stand out. Compare the new "
        "snapshot with this one by an evaluation.",
    )


def _about_the_answer(situation: Situation, best: float, encoder: Encoder) -> Finding | None:
    """A confident answer, from passages that are wrong or thin, or in spite of right ones."""
    answer = situation.answer
    if answer is None or declines(answer):
        return None
    said = sentences_of([without_citations(answer)], most=_MOST_SENTENCES)
    if best < LOW:
        return _thin(situation)
    alone = unsupported(said, situation.passages, encoder)
    if not alone:
        return None
    if sum(map(len, situation.passages)) < THIN:
        return _thin(situation, alone)
    shown = _quoted(alone)
    return _finding(
        "answer.unsupported",
        f"{len(alone)} of {len(said)} sentences of the answer stand in no passage, though the "
        f"best passage has a confidence of {max(situation.candidates):.2f}: {shown}",
        "The prompt or the model: the passages were there to answer from.",
    )


def _quoted(sentences: Sequence[str]) -> str:
    return "; ".join(f"“{sentence}”" for sentence in sentences[:_MOST_QUOTED])


def _thin(situation: Situation, alone: Sequence[str] = ()) -> Finding:
    length = sum(map(len, situation.passages))
    failed = situation.failed_documents
    return _finding(
        "passages.thin",
        f"The model answers without a doubt, from {len(situation.passages)} passages of "
        f"{length} characters, the best with a confidence of "
        f"{max(situation.candidates, default=0.0):.2f}."
        + (f" They do not say: {_quoted(alone)}" if alone else ""),
        (
            f"{failed} document{'s' if failed != 1 else ''} of this snapshot could not be read: "
            "look at them first. Then at the chunking"
            if failed
            else "The chunking, or a document of which too little was extracted: look at its "
            "segments"
        )
        + ": a passage must hold enough to answer from.",
    )


def _finding(code: str, why: str, look_at: str) -> Finding:
    return {"code": code, "why": why, "lookAt": look_at}


# -- sentences -----------------------------------------------------------------------------------


def declines(answer: str) -> bool:
    """Say whether an answer says that it has none; in English only."""
    return any(_DECLINES.search(part) for part in _SENTENCE_END.split(answer) if part)


def sentences_of(texts: Iterable[str], *, most: int) -> list[str]:
    """Return the sentences of ``texts`` that have some words, ``most`` at most."""
    found = []
    for text in texts:
        for part in _SENTENCE_END.split(text):
            sentence = part.strip(" \t#*->|") if part else ""
            if len(_WORD.findall(sentence)) >= _LEAST_WORDS:
                found.append(sentence)
    return found[:most]


def unsupported(sentences: Sequence[str], passages: Sequence[str], encoder: Encoder) -> list[str]:
    """Return the sentences that no passage supports.

    A passage supports a sentence when it has all its numbers, and its words or its meaning.
    """
    words = [_words(passage) for passage in passages]
    numbers = [_numbers(passage) for passage in passages]
    told = [sentences_of([passage], most=_MOST_PASSAGE_SENTENCES) for passage in passages]
    vectors = _Vectors(encoder)
    return [
        sentence
        for sentence in sentences
        if not any(
            _supports(sentence, words[place], numbers[place], told[place], vectors)
            for place in range(len(passages))
        )
    ]


def _supports(
    sentence: str,
    words: set[str],
    numbers: set[str],
    told: Sequence[str],
    vectors: _Vectors,
) -> bool:
    if not _numbers(sentence) <= numbers:
        return False
    own = _words(sentence)
    covered = len(own & words) / len(own) if own else 1.0
    if covered >= WORDS:
        return True
    asked = MEANING if covered < SOME_WORDS else SOME_MEANING
    # Meanings last: they cost some milliseconds each.
    return any(vectors.cosine(sentence, other) >= asked for other in told)


class _Vectors:
    """Vectors of sentences, each computed once."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._known: dict[str, Vector] = {}

    def cosine(self, first: str, second: str) -> float:
        return scores(self._of(first), [self._of(second)])[0]

    def _of(self, text: str) -> Vector:
        if text not in self._known:
            self._known[text] = self._encoder.encode_query(text)
        return self._known[text]


def _closest(encoder: Encoder, asked: Sequence[str], told: Sequence[str]) -> Vector:
    """Return for each of ``told`` its cosine with the closest of ``asked``."""
    if not told:
        return np.zeros(0, dtype=np.float32)
    others = np.array([encoder.encode_query(text) for text in told])
    found = np.array([scores(encoder.encode_query(text), others) for text in asked])
    return np.asarray(found.max(axis=0), dtype=np.float32)


def _words(text: str) -> set[str]:
    found = (word.lower() for word in _WORD.findall(text))
    return {word[:_STEM] for word in found if not word[0].isdigit() and word not in _STOP_WORDS}


def _numbers(text: str) -> set[str]:
    found = (word.lower() for word in _WORD.findall(text))
    return {
        number.rstrip(".,")
        for number in (_NUMBERS.get(word, word) for word in found)
        if number[0].isdigit()
    }
