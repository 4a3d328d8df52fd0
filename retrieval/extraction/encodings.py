"""Bytes of a text to characters, whatever wrote them.

In this order: a byte-order mark; UTF-16 or UTF-32 without a mark, by where the zero bytes are;
valid UTF-8; what the document declares; a guess from the bytes themselves (the detector of
the Firefox browser, good on very short texts).
"""

from __future__ import annotations

import codecs
import unicodedata
from collections import Counter
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
# Without zeros to go by, more is asked for
_STRANGE_IN_PAIRS_SHARE = 0.01
_LEAST_IN_PAIRS = 16
_LETTERS_SHARE = 0.5
_ONE_SCRIPT_SHARE = 0.85
# How Japanese mail switches from ASCII, all in bytes of ASCII
_ISO_2022 = (b"\x1b$B", b"\x1b$@", b"\x1b(J")
# What DOS and old Macs wrote, which no web page and so no detector knows
_BEFORE_THE_WEB = ("mac_roman", "cp850")
_USUAL_LETTERS = frozenset("äöüßéèêëàâáåãæçíîïìñóôòõöøœúûùÿÄÖÜÉÈÀÁÅÆÇÑÓØŒÚ")
_USUAL_SIGNS = frozenset("’‘“”„«»–—…•€£°©®")
_SAMPLE = 256 * 1024
# Of all bytes beyond ASCII, how many may be wrong for the text still to be damaged UTF-8
_DAMAGED_UTF8_SHARE = 0.05
# The same where the text says that it is UTF-8: above that it says what is not so
_DECLARED_UTF8_SHARE = 0.5


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
    if any(mark in content for mark in _ISO_2022):
        japanese = _strictly(content, "iso2022_jp")
        if japanese is not None:
            return Decoded(text=japanese, encoding="iso2022_jp", guessed=known is None)
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
    is_whole_in_fours = len(content) % 4 == 0
    encoding = _by_zeros(sample, is_whole_in_fours=is_whole_in_fours)
    if encoding is not None:
        return encoding if _is_of_letters(sample.decode(encoding, "replace")) else None
    for encoding in ("utf-32-le", "utf-32-be") if is_whole_in_fours else ():
        text = _strictly(sample, encoding)
        if text is not None and _is_of_letters(text):
            return encoding
    if len(sample) < _LEAST_IN_PAIRS:
        return None
    share, encoding = max(
        (_share_of_one_script(_strictly(sample, name)), name) for name in ("utf-16-le", "utf-16-be")
    )
    return encoding if share >= _ONE_SCRIPT_SHARE else None


def _by_zeros(sample: bytes, *, is_whole_in_fours: bool) -> str | None:
    """Tell by where the zero bytes are: texts in Latin letters have one in each character."""
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


def _strictly(sample: bytes, encoding: str) -> str | None:
    try:
        # The end of the sample may cut a pair of surrogates in two
        return codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return None


def _is_of_letters(text: str) -> bool:
    """Tell a text from numbers of two bytes, which have as many zeros."""
    return _strange(text) <= len(text) * _STRANGE_SHARE


def _share_of_one_script(text: str | None) -> float:
    """Return how many of the letters are of one script, 0 where it is no text.

    Of any bytes taken in pairs, most are some letter of some script.
    """
    if text is None or _strange(text) > len(text) * _STRANGE_IN_PAIRS_SHARE:
        return 0.0
    scripts = Counter(map(_script, filter(str.isalpha, text)))
    letters = scripts.total()
    if letters < len(text) * _LETTERS_SHARE:
        return 0.0
    return max(scripts.values()) / letters


def _strange(text: str) -> int:
    strange = sum(unicodedata.category(character) in _STRANGE for character in text)
    return strange - sum(map(text.count, "\t\n\r"))


def _script(letter: str) -> str:
    script = unicodedata.name(letter, "").partition(" ")[0]
    return "CJK" if script in ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA") else script


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
    share = _DECLARED_UTF8_SHARE if known == "utf-8" else _DAMAGED_UTF8_SHARE
    if replaced.replaced <= beyond_ascii * share:
        return replaced
    name = detect(content[:_SAMPLE])
    name = _known(name) or "cp1252"
    if name == "cp1252":
        name = max((name, *_BEFORE_THE_WEB), key=lambda one: _likeliness(content[:_SAMPLE], one))
    decoded = _decoded(content, name)
    return Decoded(
        text=decoded.text, encoding=decoded.encoding, guessed=True, replaced=decoded.replaced
    )


def _likeliness(sample: bytes, encoding: str) -> float:
    """Return how much the characters beyond ASCII look like those of a Western text."""
    text = f" {sample.decode(encoding, 'replace')} "
    points = 0.0
    for before, character, after in zip(text, text[1:], text[2:], strict=False):
        if character.isascii():
            continue
        inside = before.isalpha() and after.isalpha()
        if character in _USUAL_LETTERS:
            mixed = (before.islower() and character.isupper()) or (
                character.islower() and after.isupper()
            )
            alone = not (before.isalpha() or after.isalpha())
            points += -1 if mixed or alone else 2
        elif character in _USUAL_SIGNS:
            points += 1 if not inside or character == "’" else -2
        elif character.isalpha():
            points += 0.5
        else:
            points -= 3 if inside or unicodedata.category(character) in _STRANGE else 1
    return points


def _decoded(content: bytes, encoding: str) -> Decoded:
    text = content.decode(encoding, "replace")
    return Decoded(text=text, encoding=encoding, replaced=text.count("\ufffd"))
