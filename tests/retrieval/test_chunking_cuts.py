"""Where each strategy cuts, on texts small enough to see it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from retrieval.chunking import Chunking, Piece, chunk
from retrieval.encoders import DEFAULT_MODEL, Encoder, encoder_for
from retrieval.segments import Segment, joined_text


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return encoder_for(DEFAULT_MODEL)


def _segment(text: str, page: int | None = None, section: str | None = None) -> Segment:
    return Segment(page=page, section=section, text=text)


def _cut(
    encoder: Encoder, segments: list[Segment], strategy: str, size: int, overlap: int = 0
) -> list[Piece]:
    chunking = Chunking(strategy=strategy, size=size, overlap=overlap)
    pieces = chunk(segments, chunking, encoder)
    joined = joined_text(segments)
    assert all(piece.text == joined[piece.start : piece.end] for piece in pieces)
    assert all(len(encoder.token_offsets(piece.text)) <= size for piece in pieces)
    return pieces


def _texts(encoder: Encoder, text: str, strategy: str, size: int, overlap: int = 0) -> list[str]:
    return [piece.text for piece in _cut(encoder, [_segment(text)], strategy, size, overlap)]


def test_recursive__paragraph_ends_in_the_second_half__cut_there(encoder):
    text = "one two three four. five six.\n\nseven eight. nine ten eleven twelve."

    assert _texts(encoder, text, "recursive", 12) == [
        "one two three four. five six.",
        "seven eight. nine ten eleven twelve.",
    ]


def test_recursive__no_paragraph_in_reach__cut_after_a_sentence(encoder):
    text = "One two three four. Five six seven eight. Nine ten eleven twelve."

    assert _texts(encoder, text, "recursive", 12) == [
        "One two three four. Five six seven eight.",
        "Nine ten eleven twelve.",
    ]


def test_recursive__sentence_too_long__cut_between_words(encoder):
    assert _texts(encoder, "one two three four five six seven", "recursive", 3) == [
        "one two three",
        "four five six",
        "seven",
    ]


def test_recursive__word_too_long__cut_inside_and_nothing_is_lost(encoder):
    text = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamten"

    pieces = _texts(encoder, text, "recursive", 5)

    assert len(pieces) > 2
    assert "".join(pieces) == text


def test_recursive__word_the_tokenizer_gives_up_on__still_bounded(encoder):
    text = "QmFzZTY0" * 5000
    assert len(encoder.token_offsets(text)) == 1

    pieces = _texts(encoder, text, "recursive", 100)

    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= 400


@pytest.mark.parametrize(
    "text",
    [
        "Ask Dr. Smith or Prof. Jones about it today.",
        "Use a board, e.g. Uno, with J. R. Miller there.",
        "It costs 3.50 euro at example.com or more today.",
    ],
)
def test_sentence__dot_that_ends_no_sentence__no_cut_after_it(encoder, text):
    opening = "This is the first sentence here."

    size = len(encoder.token_offsets(text))
    pieces = _texts(encoder, f"{opening} {text}", "sentence", size)

    assert pieces == [opening, text]


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        ("统一的问题。答案在这里！好吗？", 7, ["统一的问题。", "答案在这里！", "好吗？"]),
        ("هذا نص. هل هذا نص؟ نعم نص.", 8, ["هذا نص.", "هل هذا نص؟", "نعم نص."]),
        ("यह पाठ है। यह पाठ है।", 8, ["यह पाठ है।", "यह पाठ है।"]),
    ],
)
def test_sentence__other_scripts__cut_at_their_sentence_marks(encoder, text, size, expected):
    assert _texts(encoder, text, "sentence", size) == expected


def test_sentence__paragraph_ends_early__filled_with_whole_sentences(encoder):
    text = "One two.\n\nThree four. Five six. Seven eight."

    assert _texts(encoder, text, "sentence", 9) == [
        "One two.\n\nThree four. Five six.",
        "Seven eight.",
    ]


def test_recursive__list_items__cut_between_items(encoder):
    text = "- one two three\n- four five six\n- seven eight nine"

    assert _texts(encoder, text, "recursive", 8) == [
        "- one two three\n- four five six",
        "- seven eight nine",
    ]


def test_recursive__overlap__next_piece_repeats_whole_words_up_to_it(encoder):
    text = "one two three four five six seven eight nine ten"

    assert _texts(encoder, text, "recursive", 5, 2) == [
        "one two three four five",
        "four five six seven eight",
        "seven eight nine ten",
    ]


def test_recursive__overlap_smaller_than_the_last_word__repeats_a_part_of_it(encoder):
    text = "Donaudampfschifffahrtsgesellschaft " * 6
    pieces = _cut(encoder, [_segment(text)], "recursive", 20, 3)

    assert len(pieces) > 2
    for before, after in pairwise(pieces):
        assert before.start < after.start < before.end


@pytest.mark.parametrize("cluster", ["👩‍👩‍👧‍👦", "e\u0301\u0323", "각", "🇩🇪", "नि"])
@pytest.mark.parametrize("overlap", [0, 4])
def test_recursive__visible_characters_of_several_code_points__stay_whole(
    encoder, cluster, overlap
):
    text = cluster * 40

    pieces = _cut(encoder, [_segment(text)], "recursive", 12, overlap)

    assert len(pieces) > 1 or len(encoder.token_offsets(text)) <= 12
    for piece in pieces:
        assert piece.start % len(cluster) == 0
        assert piece.end % len(cluster) == 0


@pytest.mark.parametrize("strategy", ["recursive", "markdown", "sentence", "page"])
def test_chunk__pages__no_piece_is_on_two(encoder, strategy):
    segments = [_segment("one two", 1), _segment("three four", 2), _segment("five six", 3)]

    pieces = _cut(encoder, segments, strategy, 200, 20)

    assert [(piece.page, piece.text) for piece in pieces] == [
        (1, "one two"),
        (2, "three four"),
        (3, "five six"),
    ]


@pytest.mark.parametrize("strategy", ["recursive", "markdown", "sentence"])
def test_chunk__sections_that_say_enough__each_has_its_own_pieces(encoder, strategy):
    segments = [
        _segment("Refunds\n\n" + "one two three four " * 10, section="Refunds"),
        _segment("Returns\n\n" + "five six seven eight " * 10, section="Returns"),
    ]

    pieces = _cut(encoder, segments, strategy, 100, 10)

    assert [piece.section for piece in pieces] == ["Refunds", "Returns"]


def test_chunk__small_section__shares_a_piece_with_the_next(encoder):
    segments = [
        _segment("Delivery\n\nSee below.", section="Delivery"),
        _segment("Europe\n\n" + "five six seven eight " * 10, section="Delivery > Europe"),
        _segment("Asia\n\n" + "nine ten eleven twelve " * 10, section="Delivery > Asia"),
    ]

    pieces = _cut(encoder, segments, "recursive", 60)

    assert [piece.section for piece in pieces] == ["Delivery > Europe", "Delivery > Asia"]
    assert pieces[0].text.startswith("Delivery\n\nSee below.\n\nEurope\n\nfive")


def test_chunk__small_last_section__shares_a_piece_with_the_one_before(encoder):
    segments = [
        _segment("Europe\n\n" + "five six seven eight " * 10, section="Europe"),
        _segment("Contact\n\nWrite to us.", section="Contact"),
    ]

    (piece,) = _cut(encoder, segments, "recursive", 60)

    assert piece.section == "Europe"
    assert piece.text.endswith("Write to us.")


def test_page__several_sections__one_piece_with_the_section_that_has_most(encoder):
    segments = [
        _segment("Short section with some words in it", 1, "A"),
        _segment("This one is longer, by far, than the one before and counts", 1, "B"),
        _segment("Another page", 2, "C"),
    ]

    pieces = _cut(encoder, segments, "page", 254)

    assert [(piece.page, piece.section) for piece in pieces] == [(1, "B"), (2, "C")]


def test_page__heading_at_the_limit__goes_with_its_text(encoder):
    segments = [
        _segment("one two three four five six seven eight", 1, "A"),
        _segment("Heading\n\nnine ten eleven twelve", 1, "Heading"),
    ]

    pieces = _cut(encoder, segments, "page", 9)

    assert [piece.text for piece in pieces] == [
        "one two three four five six seven eight",
        "Heading\n\nnine ten eleven twelve",
    ]


def test_document__fits__one_piece_across_pages(encoder):
    segments = [_segment("one two", 1), _segment("three four", 2)]

    (piece,) = _cut(encoder, segments, "document", 254)

    assert (piece.text, piece.truncated) == ("one two\n\nthree four", False)


def test_document__too_long__one_piece_marked_truncated(encoder):
    (piece,) = _cut(encoder, [_segment("word " * 300)], "document", 254)

    assert piece.truncated
    assert piece.text == " ".join(["word"] * 254)


TABLE = "| board | price |\n| --- | --- |\n| Uno. One | 20 |\n| Due. Two | 30 |"
FENCE = "```\nvoid setup() {\n\n  run. Now();\n}\n```"


@pytest.mark.parametrize("block", [TABLE, FENCE, f"<table>\n<tr>\n\n{TABLE}\n</table>"])
def test_markdown__block_that_fits__stays_whole(encoder, block):
    before = "Some words before it. " * 4
    after = "And words after it. " * 4

    size = len(encoder.token_offsets(block)) + 4
    pieces = _texts(encoder, f"{before}\n\n{block}\n\n{after}", "markdown", size)

    assert any(block in piece for piece in pieces)
    assert len(pieces) > 2


def test_markdown__table_too_long__cut_between_rows(encoder):
    rows = [f"| item {number} | a. B c |" for number in range(30)]

    pieces = _texts(encoder, "\n".join(rows), "markdown", 40)

    assert [row for piece in pieces for row in piece.split("\n")] == rows


def test_markdown__heading_in_reach__piece_ends_before_it(encoder):
    text = "one two three four five\n\n# Six\n\nseven eight nine ten eleven twelve"

    assert _texts(encoder, text, "markdown", 11) == [
        "one two three four five",
        "# Six\n\nseven eight nine ten eleven twelve",
    ]


def test_markdown__hash_in_a_code_fence__is_no_heading(encoder):
    text = "one two three\n\n```\na\n# b\nc\n```"

    assert _texts(encoder, text, "markdown", 12) == ["one two three", "```\na\n# b\nc\n```"]


def test_markdown__underlined_heading__piece_ends_before_it(encoder):
    text = "one two three four five six\n\nSeven\n=====\n\neight nine ten eleven twelve"

    assert _texts(encoder, text, "markdown", 13) == [
        "one two three four five six",
        "Seven\n=====\n\neight nine ten eleven twelve",
    ]


@pytest.mark.parametrize("text", ["```\nnever closed. Word\n\nmore words", "<table> never closed"])
def test_markdown__block_never_closed__read_as_prose(encoder, text):
    assert _texts(encoder, text, "markdown", 200) == [text]


@pytest.mark.parametrize("strategy", ["recursive", "markdown", "sentence", "page", "document"])
@pytest.mark.parametrize(
    "segments",
    [[], [_segment("")], [_segment(" \n\t "), _segment("\u00a0\u2003", 2)]],
    ids=["none", "empty", "blank"],
)
def test_chunk__nothing_to_read__no_pieces(encoder, strategy, segments):
    assert _cut(encoder, segments, strategy, 100, 0) == []


def test_chunk__recipe_1__cuts_a_text_as_it_always_did(encoder):
    """What this pins may change only together with RECIPE_VERSION."""
    segments = [
        _segment(
            "Refunds\n\nWe refund within 14 days. Write to us first, e.g. by e-mail. "
            "Then send the parcel:\n\n- pack it well\n- add the form\n- keep the receipt\n\n"
            "The refund arrives on the card that you paid with. Shipping is not refunded. "
            "Ask your bank if it takes longer than a week.",
            section="Refunds",
        ),
        _segment("Contact\n\nWrite to us.", section="Contact"),
    ]

    pieces = chunk(segments, Chunking(size=32, overlap=6), encoder)

    assert [(piece.start, piece.end, piece.section) for piece in pieces] == [
        (0, 91, "Refunds"),
        (70, 141, "Refunds"),
        (114, 219, "Refunds"),
        (203, 265, "Refunds"),
        (267, 288, "Contact"),
    ]
