"""Plain text, CSV and JSON: the characters as they are."""

from __future__ import annotations

import re

from retrieval.extraction.encodings import Decoded, decode
from retrieval.extraction.reader import Reading

_ESCAPES = re.compile(r"(?<!\\)((?:\\\\)*)((?:\\u[0-9a-fA-F]{4})+)")


def read_plain(content: bytes, reading: Reading) -> None:
    """Read a text without structure as one block."""
    reading.outline.block(decoded_text(content, reading))


def read_json(content: bytes, reading: Reading) -> None:
    r"""Read JSON as it is written, with ``\u00e9`` as the letter that it means."""
    reading.outline.block(_ESCAPES.sub(_unescaped, decoded_text(content, reading)))


def decoded_text(content: bytes, reading: Reading, declared: str | None = None) -> str:
    """Return the characters of ``content``; what was guessed or lost becomes a notice."""
    decoded = decode(content, declared)
    reading.notices.extend(_notices(decoded))
    return decoded.text


def _notices(decoded: Decoded) -> list[str]:
    notices = []
    if decoded.guessed:
        notices.append(
            f"The text does not say how it is encoded; it was read as {decoded.encoding}."
        )
    if decoded.replaced:
        notices.append(
            f"{decoded.replaced:,} characters could not be read as {decoded.encoding} "
            "and are shown as \ufffd."
        )
    return notices


def _unescaped(match: re.Match[str]) -> str:
    units = [int(unit, 16) for unit in match[2][2:].split("\\u")]
    text = b"".join(unit.to_bytes(2, "big") for unit in units).decode("utf-16-be", "replace")
    # What JSON must escape stays escaped: quotation mark, backslash, control characters
    shown = "".join(c if c > "\x1f" and c not in '"\\' else f"\\u{ord(c):04x}" for c in text)
    return match[1] + shown
