from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.errors import Malformed
from registry.strict_json import MAX_DEPTH, loads

_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(_VALUES)
def test_loads__any_plain_value__reads_it_with_its_key_order(value: object) -> None:
    read = loads(json.dumps(value))

    assert json.dumps(read) == json.dumps(value)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"a": 1, "a": 2}', "json.duplicate_key"),
        ('{"a": NaN}', "json.not_a_number"),
        ('{"a": -Infinity}', "json.not_a_number"),
        ('{"a": 1e400}', "json.number_too_large"),
        ('{"a": 9007199254740993}', "json.integer_too_large"),
        ('{"a": -9007199254740993}', "json.integer_too_large"),
        ('{"a": ' + "9" * 5000 + "}", "json.integer_too_large"),
        ('{"a": "x\\u0000y"}', "json.nul"),
        ('{"a\\u0000": 1}', "json.nul"),
        ('{"a": "\\ud800"}', "json.lone_surrogate"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "json.too_deep"),
        ("[" * 100_000, "json.too_deep"),
        ('{"a": 1,}', "json.syntax"),
        ("", "json.syntax"),
    ],
)
def test_loads__what_could_mean_two_things__is_refused_by_name(text: str, code: str) -> None:
    with pytest.raises(Malformed) as refused:
        loads(text)

    assert refused.value.code == code


def test_loads__bytes_that_are_not_utf8__names_the_byte() -> None:
    with pytest.raises(Malformed) as refused:
        loads(b'{"a": "\xff"}')

    assert refused.value.code == "json.not_utf8"
    assert "byte 7" in refused.value.detail


def test_loads__brackets_inside_texts__do_not_count_as_nesting() -> None:
    text = json.dumps({"a": "[{" * 100, "b": '\\"[[[' * 50})

    assert loads(text)["a"] == "[{" * 100


def test_loads__largest_exact_integers__are_taken() -> None:
    assert loads("[9007199254740992, -9007199254740992]") == [2**53, -(2**53)]
