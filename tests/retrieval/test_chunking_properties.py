"""What holds for every text, strategy, size and overlap."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.chunking import STRATEGIES, Chunking, Piece, Tokenizer, chunk
from retrieval.encoders import DEFAULT_MODEL, encoder_for
from retrieval.segments import Segment, joined_text
from tests.data import shared_data


class BytesWithAPrefix:
    """A tokenizer of another kind: a token for each byte, and one for the start of a text."""

    def token_offsets(self, text: str) -> Sequence[tuple[int, int]]:
        offsets = [(0, 1)] if text else []
        for place, character in enumerate(text):
            offsets.extend([(place, place + 1)] * len(character.encode()))
        return offsets


class Words:
    """A tokenizer that sees whole words, however long, and only letters."""

    def token_offsets(self, text: str) -> Sequence[tuple[int, int]]:
        offsets: list[tuple[int, int]] = []
        start = None
        for place, character in enumerate(text + " "):
            if character.isalpha():
                start = place if start is None else start
            elif start is not None:
                offsets.append((start, place))
                start = None
        return offsets


TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "bundled": lambda: encoder_for(DEFAULT_MODEL),
    "bytes": BytesWithAPrefix,
    "words": Words,
}

_PARTS = st.sampled_from(
    [
        *["word", "Sentence.", "é", "e\u0301", "ﬃ", "½", "각", "한국어", "统一", "。", "هذا", "नि"],
        *["👩‍👩‍👧‍👦", "🇩🇪", "\u200b", "\u0301", "\u200d", "x" * 120, "ภาษาไทย" * 20, "a" * 40],
        *[
            "# Heading\n",
            "```\n",
            "| a | b |\n",
            "- item\n",
            "1. ",
            "Dr. ",
            "?!",
            "<table>",
            "===\n",
        ],
        *[" ", "\n", "\n\n", "\t", "\u00a0", "\f", " " * 130],
    ]
)
TEXTS = st.lists(_PARTS | st.text(max_size=6), max_size=40).map(
    lambda parts: "".join(parts).encode("utf-8", "ignore").decode()
)
SEGMENTS = st.lists(
    st.builds(
        Segment,
        page=st.sampled_from([None, 1, 2]),
        section=st.sampled_from([None, "A", "A > B", "C"]),
        text=TEXTS,
    ),
    max_size=5,
)
CHUNKINGS = st.builds(
    lambda strategy, size, part: Chunking(
        strategy=strategy, size=size, overlap=int((size - 1) * part)
    ),
    st.sampled_from(STRATEGIES),
    st.integers(1, 40) | st.integers(1, 254),
    st.floats(0, 1),
)


def _check(segments: Sequence[Segment], chunking: Chunking, tokenizer: Tokenizer) -> list[Piece]:
    pieces = chunk(segments, chunking, tokenizer)
    joined = joined_text(segments)

    assert pieces == chunk(segments, chunking, tokenizer)
    covered = bytearray(len(joined))
    for piece in pieces:
        assert piece.text == joined[piece.start : piece.end]
        assert piece.text.strip()
        tokens = len(tokenizer.token_offsets(piece.text))
        assert tokens <= chunking.size or len(piece.text) == 1
        covered[piece.start : piece.end] = b"\1" * len(piece.text)
    for before, after in pairwise(pieces):
        assert before.start < after.start
        assert before.end < after.end

    if chunking.strategy == "document":
        assert len(pieces) == bool(joined.strip())
        if pieces:
            assert pieces[0].truncated == bool(joined[pieces[0].end :].strip())
        return pieces
    assert all(seen or joined[place].isspace() for place, seen in enumerate(covered))
    start = 0
    for segment in segments:
        end = start + len(segment.text)
        for piece in pieces:
            if max(start, piece.start) < min(end, piece.end) and segment.text.strip():
                lies_in = joined[max(start, piece.start) : min(end, piece.end)]
                assert piece.page == segment.page or not lies_in.strip()
        start = end + 2
    return pieces


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=100, deadline=None, derandomize=True)
@given(segments=SEGMENTS, chunking=CHUNKINGS)
def test_chunk__any_text_and_settings__covers_fits_and_repeats(name, segments, chunking):
    _check(segments, chunking, TOKENIZERS[name]())


@pytest.mark.parametrize("strategy", ["recursive", "markdown", "sentence", "page"])
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    words=st.lists(st.sampled_from(["one", "two,", "Three", "four.", "five\n\n"]), min_size=60),
    size=st.integers(12, 60),
    overlap=st.integers(2, 10),
)
def test_chunk__overlap_in_one_section__neighbours_share_up_to_it(strategy, words, size, overlap):
    encoder = encoder_for(DEFAULT_MODEL)
    segments = [Segment(page=None, section=None, text=" ".join(words))]

    pieces = _check(segments, Chunking(strategy=strategy, size=size, overlap=overlap), encoder)

    for before, after in pairwise(pieces):
        shared = before.text[after.start - before.start :]
        assert 1 <= len(encoder.token_offsets(shared)) <= overlap
        # Words here have two tokens at most: one may not fit, one is the least of progress.
        least = min(overlap, len(encoder.token_offsets(before.text)) - 1) - 1
        assert len(encoder.token_offsets(shared)) >= least


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_chunk__help_centre_articles__covers_and_fits(strategy):
    encoder = encoder_for(DEFAULT_MODEL)
    for path in sorted(shared_data("kb", "files").rglob("*.md"))[::9]:
        segments = [Segment(page=None, section=None, text=path.read_text(encoding="utf-8"))]

        _check(segments, Chunking(strategy=strategy, size=200, overlap=20), encoder)


_LENGTH = 60_000


@pytest.mark.parametrize(
    "unit",
    [
        *["Some words of a sentence. ", "统一的问题。", "هذا نص طويل ", "QmFzZTY0", "ภาษาไทย", "."],
        *[
            " ",
            "\n",
            " \n",
            "\n    ",
            "e\u0301\u0323",
            "👩‍👩‍👧‍👦",
            "\u200b",
            "\u0301",
            '."',
            "\u00a0",
        ],
        *["# a\n", "```\n", "~~~\n", "| a |\n", "<table", "a\n===\n", "- a\n", "1. ", "`"],
    ],
    ids=ascii,
)
def test_chunk__long_and_monotonous__time_grows_with_length_only(unit):
    encoder = encoder_for(DEFAULT_MODEL)
    # Markdown looks for all that the others look for, and more.
    chunking = Chunking(strategy="markdown")

    def seconds(length: int) -> float:
        text = "a" + unit * (length // len(unit)) + "b"
        started = time.thread_time()
        pieces = chunk([Segment(page=None, section=None, text=text)], chunking, encoder)
        took = time.thread_time() - started
        assert max(len(piece.text) for piece in pieces) <= 4 * 200 + 200
        return took

    # Twenty times the text; a quadratic step anywhere would make it four hundred times the work.
    # The quickest of some: what neighbours on the processor and this process's memory add is not
    # the algorithm's.
    least = min(seconds(_LENGTH // 20) for _ in range(3))
    assert any(seconds(_LENGTH) < 60 * max(0.02, least) for _ in range(3))
