"""Passages that repeat one ranked before them."""

from __future__ import annotations

from retrieval.diversity import repeats

_BOILERPLATE = "Brightlamp Limited is registered in Leeds and answers within two working days. "


def test_repeats__of_the_same_text__is_all_but_the_first() -> None:
    assert repeats(["Send it back by post.", "Lamps shine.", "send it BACK, by post!"]) == [
        False,
        False,
        True,
    ]


def test_repeats__of_boilerplate_with_little_else__are_left_out_and_the_rest_stays() -> None:
    passages = [
        _BOILERPLATE + "Ask for Ann.",
        _BOILERPLATE + "Ask for Bob.",
        "The battery lasts six months and is changed at home without any tool at all.",
    ]

    assert repeats(passages) == [False, True, False]


def test_repeats__of_a_part_of_a_longer_passage__counts() -> None:
    whole = "One two three four five six seven eight nine ten eleven twelve."

    assert repeats([whole, "three four five six seven"]) == [False, True]
    assert repeats(["three four five six seven", whole]) == [False, True]


def test_repeats__of_neighbours_that_overlap_by_a_tenth__are_none() -> None:
    words = [f"word{number}" for number in range(400)]

    assert repeats([" ".join(words[:200]), " ".join(words[180:380])]) == [False, False]


def test_repeats__of_what_repeats_a_passage_that_was_left_out__are_judged_by_what_is_kept() -> None:
    """A chain of small changes must not swallow a passage that is unlike every kept one."""
    words = [f"word{number}" for number in range(40)]
    chain = [" ".join(words[start : start + 20]) for start in (0, 5, 10)]

    assert repeats(chain) == [False, True, False]


def test_repeats__of_passages_without_words__do_not_fail() -> None:
    assert repeats(["", "!!", "a"]) == [False, True, False]
    assert repeats([]) == []
