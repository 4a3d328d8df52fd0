"""Whatever two texts are: the opcodes lead from the one to the other, and equal lines are equal."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from retrieval.line_diff import grouped_changes

LINES = st.lists(st.sampled_from("abcdefgh"), max_size=40)


@given(LINES, LINES)
def test_changes__applied_to_the_old_lines__give_the_new(old, new):
    made, at = [], 0

    for group in grouped_changes(old, new, context=10_000):
        for kind, a1, a2, b1, b2 in group:
            assert a1 == at
            assert (kind == "equal") == (old[a1:a2] == new[b1:b2])
            made += new[b1:b2]
            at = a2

    assert (made, at) == (new, len(old)) or (old == new and not made)


def test_changes__of_one_line_among_many__are_that_line_and_its_context():
    old = [f"line {number}" for number in range(100)]
    new = [*old[:50], "another", *old[51:]]

    [group] = grouped_changes(old, new, context=2)

    assert group == [
        ("equal", 48, 50, 48, 50),
        ("replace", 50, 51, 50, 51),
        ("equal", 51, 53, 51, 53),
    ]


def test_changes__of_every_second_line_of_a_long_text__are_found_in_time():
    old = [f"line {number}" for number in range(50_000)]
    new = [line + " x" if number % 2 else line for number, line in enumerate(old)]
    began = time.thread_time()

    [group] = grouped_changes(old, new, context=3)

    assert time.thread_time() - began < 30
    assert sum(kind == "replace" for kind, *_ in group) == 25_000
