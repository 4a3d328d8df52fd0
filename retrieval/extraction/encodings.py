"""Bytes of a text to characters, whatever wrote them.

In this order: a byte-order mark; UTF-16 or UTF-32 without a mark, by where the zero bytes are;
valid UTF-8; what the document declares; a guess from the bytes themselves (the detector of
the Firefox browser, good on very short texts).
"""

from __future__ import annotations

import codecs
import unicodedata
from dataclasses import dataclass

from chardetng_py import detect  # type: ignore[import-untyped]

# Those of UTF-32 first: the mark of UTF-16 is the beginning of one of them
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# What the names mean on the web and in practice: the superset that Windows writes
_SUPERSETS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
}
_WIDE_SAMPLE = 4096
# Control characters, and code points that no text uses
_STRANGE = frozenset(("Cc", "Cn", "Co", "Cs"))
_STRANGE_SHARE = 0.05
_SAMPLE = 256 * 1024
# Of all bytes beyond ASCII, how many may be wrong for the text still to be damaged UTF-8
_DAMAGED_UTF8_SHARE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A text, the encoding it was read by, and whether that was only a guess."""

    text: str
    encoding: str
    guessed: bool = False
    # Characters that could not be read and became U+FFFD
    replaced: int = 0


def decode(content: bytes, declared: str | None = None) -> Decoded:
    """Return the text of ``content``; never fails."""
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return _decoded(content[len(mark) :], encoding)
    # Before UTF-8, which allows zero bytes
    wide = wide_encoding(content)
    if wide is not None:
        return _decoded(content, wide)
    known = _known(declared)
    if not (content.isascii() and known is not None and known.startswith("iso2022")):
        try:
            return Decoded(text=content.decode("utf-8"), encoding="utf-8")
        except UnicodeDecodeError:
            pass
    if known is not None and known != "utf-8":
        try:
            return Decoded(text=content.decode(known), encoding=known)
        except UnicodeDecodeError:
            pass
    return _guessed(content, known)


def wide_encoding(content: bytes) -> str | None:
    """Return the UTF-16 or UTF-32 that ``content`` is written in without a mark, else None."""
    sample = content[:_WIDE_SAMPLE]
    if len(sample) < 4 or len(content) % 2 or b"\0" not in sample:
        return None
    encoding = _by_zeros(sample, is_whole_in_fours=len(content) % 4 == 0)
    return encoding if encoding and _is_of_letters(sample.decode(encoding, "replace")) else None


def _by_zeros(sample: bytes, *, is_whole_in_fours: bool) -> str | None:
    zeros = [sample[offset::4].count(0) / len(sample[offset::4]) for offset in range(4)]
    if is_whole_in_fours and min(zeros[1:]) > 0.9 and zeros[0] < 0.1:
        return "utf-32-le"
    if is_whole_in_fours and min(zeros[:3]) > 0.9 and zeros[3] < 0.1:
        return "utf-32-be"
    even, odd = (zeros[0] + zeros[2]) / 2, (zeros[1] + zeros[3]) / 2
    if odd > 0.3 and even < 0.05:
        return "utf-16-le"
    if even > 0.3 and odd < 0.05:
        return "utf-16-be"
    return None


def _is_of_letters(text: str) -> bool:
    """Tell a text from numbers of two bytes, which have as many zeros."""
    strange = sum(unicodedata.category(character) in _STRANGE for character in text)
    return strange - sum(map(text.count, "\t\n\r")) <= len(text) * _STRANGE_SHARE


def _known(declared: str | None) -> str | None:
    if not declared:
        return None
    try:
        name = codecs.lookup(declared.strip().strip("\"'")).name
    except (LookupError, ValueError):
        return None
    # A declaration that could be read is not in these, whatever it says
    if name.startswith(("utf-16", "utf-32")) or not _is_text_codec(name):
        return None
    return _SUPERSETS.get(name, name)


def _is_text_codec(name: str) -> bool:
    try:
        return isinstance(b"".decode(name), str)
    except (LookupError, ValueError):
        return False


def _guessed(content: bytes, known: str | None) -> Decoded:
    replaced = _decoded(content, "utf-8")
    beyond_ascii = len(content) - len(content.translate(None, bytes(range(128, 256))))
    if known == "utf-8" or replaced.replaced <= beyond_ascii * _DAMAGED_UTF8_SHARE:
        return replaced
    name = detect(content[:_SAMPLE])
    decoded = _decoded(content, _known(name) or "cp1252")
    return Decoded(
        text=decoded.text, encoding=decoded.encoding, guessed=True, replaced=decoded.replaced
    )


def _decoded(content: bytes, encoding: str) -> Decoded:
    text = content.decode(encoding, "replace")
    return Decoded(text=text, encoding=encoding, replaced=text.count("\ufffd"))
