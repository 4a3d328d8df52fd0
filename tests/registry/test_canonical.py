"""Canonical JSON against a second, slower writing of RFC 8785."""

from __future__ import annotations

import hashlib
import json
import math
from decimal import Decimal
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from registry.canonical import canonical_json, digest_bytes, digest_json, digest_text

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = (
    st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0.0, -0.0, 1e21, 1e-7, 1e-6, 123456789012345680000.0, 5e-324])
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def by_the_standard(value: Any) -> str:
    if isinstance(value, dict):
        in_order = sorted(value, key=lambda name: name.encode("utf-16-be"))
        members = (f"{by_the_standard(name)}:{by_the_standard(value[name])}" for name in in_order)
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(by_the_standard(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return number(float(value))


def number(value: float) -> str:
    """The shortest digits that give the number back, placed as ECMAScript places them."""
    if value == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = exponent + len(digits)
    minus = "-" if sign else ""
    if len(text) <= point <= 21:
        return minus + text + "0" * (point - len(text))
    if 0 < point <= 21:
        return f"{minus}{text[:point]}.{text[point:]}"
    if -6 < point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
    return f"{minus}{mantissa}e{'+' if point > 0 else '-'}{abs(point - 1)}"


@given(VALUES)
def test_canonical_json__of_any_value__is_that_of_the_standard(value: Any) -> None:
    assert canonical_json(value) == by_the_standard(value)


@given(VALUES)
def test_canonical_json__read_and_written_again__is_the_same(value: Any) -> None:
    written = canonical_json(value)
    # Beyond 2^53 a float is written like an integer, and only as a float is it exact.
    assert canonical_json(json.loads(written, parse_int=float)) == written


@given(VALUES)
def test_digest_json__of_any_value__is_that_of_its_canonical_form(value: Any) -> None:
    canonical = by_the_standard(value)
    assert digest_json(value) == "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


@given(st.dictionaries(TEXTS, NUMBERS, max_size=6))
def test_canonical_json__of_members_in_another_order__is_the_same(value: dict[str, float]) -> None:
    assert canonical_json(value) == canonical_json(dict(reversed(value.items())))


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**53 + 1, -(2**53) - 1, {1: 2}, object()])
def test_canonical_json__of_what_is_no_json__is_refused(value: Any) -> None:
    with pytest.raises(rfc8785.CanonicalizationError):
        canonical_json({"inside": [value]})


def test_digests__of_literal_values__are_these() -> None:
    assert canonical_json({"b": 2**53, "a": "€", "A": [1.0, 1e21]}) == (
        '{"A":[1,1e+21],"a":"€","b":9007199254740992}'
    )
    empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest_bytes(b"") == digest_text("") == empty
