"""One form for all text: what a reader sees is kept, what only machines see is not.

Unicode NFC with ``\\n`` line ends; ligatures and presentation forms are written as the letters
they show; soft hyphens, byte-order marks, direction marks and other invisible characters are
dropped, joiners only where no script needs them; NUL and other control characters go, lone
surrogates become U+FFFD. The same text gives the same result, and normalising twice changes
nothing.
"""

from __future__ import annotations

import re
import unicodedata

# A line's end in any of the ways that Unicode knows, the form feed included
_LINE_ENDS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_CONTROLS = "".join(
    chr(code) for code in [*range(0x20), *range(0x7F, 0xA0)] if chr(code) not in "\t\n"
)
_INVISIBLE = (
    "\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
_DROPPED = re.compile(f"[{re.escape(_CONTROLS)}{_INVISIBLE}]")
# Persian, the scripts of India and emoji need the joiners; between ASCII they are debris
_IDLE_JOINERS = re.compile("(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])")
# Latin and Armenian ligatures, Arabic presentation forms (but the phrases written as one
# character), Kangxi radicals, as fonts and PDF files use them
_SHOWN_AS_LETTERS = re.compile(
    "[\ufb00-\ufb17\ufb1d-\ufb4f\ufb50-\ufdef\ufe70-\ufefc\u2f00-\u2fdf]"
)
_NOT_EXPANDED = "\ufd3e\ufd3f"
_SURROGATES = re.compile("[\ud800-\udfff]")
_NARROW_SPACES = re.compile("[\u00a0\u2007\u202f]")
# Bullets of the symbol fonts that Word and PowerPoint use
_SYMBOL_BULLETS = re.compile("[\uf0b7\uf0a7\uf076\uf0d8\uf0fc\uf0a8]")
# Looks behind, so that a long run of spaces is walked once and not from each of its spaces
_TRAILING_SPACE = re.compile("(?<![ \t])[ \t]+\n")
_MANY_EMPTY_LINES = re.compile("\n{3,}")
_FIRST_EMPTY_LINES = re.compile(r"\A(?:[ \t]*\n)+")


def normalise(text: str) -> str:
    """Return ``text`` in the form described above, without empty lines around it."""
    if not text.isascii():
        text = _SURROGATES.sub("\ufffd", text)
        text = _SHOWN_AS_LETTERS.sub(_letters, text)
        text = _SYMBOL_BULLETS.sub("•", _NARROW_SPACES.sub(" ", text))
    text = _DROPPED.sub("", _LINE_ENDS.sub("\n", text))
    if not text.isascii():
        if "\u200c" in text or "\u200d" in text:
            text = _IDLE_JOINERS.sub("", text)
        text = unicodedata.normalize("NFC", text)
    if " \n" in text or "\t\n" in text:
        text = _TRAILING_SPACE.sub("\n", text)
    text = _MANY_EMPTY_LINES.sub("\n\n", text)
    return _FIRST_EMPTY_LINES.sub("", text).rstrip()


def one_line(text: str) -> str:
    """Return ``text`` normalised, with every run of white space as one space."""
    return " ".join(normalise(text).split())


def _letters(match: re.Match[str]) -> str:
    character = match[0]
    if character in _NOT_EXPANDED:
        return character
    letters = unicodedata.normalize("NFKC", character)
    # A lone vowel sign is written over a space there: keep such a form as it is
    return character if " " in letters else letters
