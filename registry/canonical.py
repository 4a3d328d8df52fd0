"""Canonical JSON (RFC 8785) and the digests made of it: one definition for all of them.

Two values have the same digest exactly when they are the same JSON value. Knows neither Django
nor Celery.
"""

from __future__ import annotations

import hashlib
from typing import Any

import rfc8785

PREFIX = "sha256:"
_LARGEST_EXACT = 2**53


def canonical_json(value: Any) -> str:
    """Return the RFC 8785 form of a JSON value as text.

    Raises ``rfc8785.CanonicalizationError`` for NaN, infinities, integers beyond ±2^53 and
    values that are not JSON.
    """
    return _dump(value).decode("utf-8")


def digest_bytes(content: bytes) -> str:
    """Return ``"sha256:"`` and the hexadecimal SHA-256 of ``content``."""
    return PREFIX + hashlib.sha256(content).hexdigest()


def digest_text(text: str) -> str:
    """Return the digest of a text's exact UTF-8."""
    return digest_bytes(text.encode("utf-8"))


def digest_json(value: Any) -> str:
    """Return the digest of a JSON value's canonical form."""
    return digest_bytes(_dump(value))


def _dump(value: Any) -> bytes:
    try:
        return rfc8785.dumps(value)
    except rfc8785.IntegerDomainError:
        return rfc8785.dumps(_with_largest_integers_as_floats(value))


def _with_largest_integers_as_floats(value: Any) -> Any:
    """The library stops at 2^53 − 1; ±2^53 itself is exact as a double and is taken too."""
    if isinstance(value, dict):
        return {key: _with_largest_integers_as_floats(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_with_largest_integers_as_floats(member) for member in value]
    if type(value) is int and abs(value) == _LARGEST_EXACT:
        return float(value)
    return value
