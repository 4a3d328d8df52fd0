"""The first gate: only the tokens of the language, in bounded nesting, reach Python's parser.

So what the parser sees cannot make it slow, exhaust its stack, or depend on warning filters, and
the usual slips (`=`, `&&`, `true`, curly quotes) get an answer that says what to write.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Mapping
from typing import Final

from agents.expressions.errors import ExpressionError
from agents.expressions.limits import (
    MAX_BRACKETS,
    MAX_LENGTH,
    MAX_NUMBER_LENGTH,
    MAX_PREFIXES,
    MAX_STEPS,
)

_TOKEN: Final = re.compile(
    r"""
    (?P<space>[ \t\r\n]+)
  | (?P<string>"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')
  | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![\w.])
  | (?P<name>[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)
  | (?P<operator>==|!=|<=|>=|[<>()\[\],.+-])
    """,
    re.VERBOSE,
)
# Control characters, lone surrogates, and marks that make a text read in another order than it is.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x85\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LINE_BREAK: Final = re.compile(r"[\r\n]")
_ESCAPES: Final = frozenset("\\\"'nrt")

_WORDS: Final[Mapping[str, str]] = {word: word for word in ("and", "or", "not", "in")}
_CONSTANTS: Final = frozenset({"True", "False", "None"})
_SLIPS: Final[Mapping[str, str]] = {
    "=": "write == to compare",
    "&": "write and",
    "|": "write or",
    "!": "write not",
    "“": 'write straight quotes: "EU"',
    "”": 'write straight quotes: "EU"',
    "„": 'write straight quotes: "EU"',
    "‘": "write straight quotes: 'EU'",
    "’": "write straight quotes: 'EU'",
    '"': "the text that starts here is not closed on its line",
    "'": "the text that starts here is not closed on its line",
    "`": 'write straight quotes: "EU"',
    "is": "write == to compare, also with None",
    "true": "write True",
    "false": "write False",
    "null": "write None",
    "none": "write None",
    **{
        variant: f"write {word}"
        for word in sorted(_WORDS)
        for variant in (word.upper(), word.capitalize())
    },
}
RESERVED: Final = frozenset(keyword.kwlist) | {word for word in _SLIPS if word.isidentifier()}


def tokenised(text: str) -> str:
    """Return the text on one line, positions kept; raise ``ExpressionError`` for what is foreign."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(
            "expression.too_long",
            f"The expression has {len(text)} characters; at most {MAX_LENGTH} are allowed.",
            text,
            MAX_LENGTH,
        )
    if not text.strip():
        raise ExpressionError(
            "expression.blank",
            "The expression is blank. Use null for a binding that always applies.",
            text,
        )
    if unseen := _UNSEEN.search(text):
        raise _refusal(
            text, unseen.start(), f"the invisible character U+{ord(unseen[0]):04X} is not allowed"
        )
    _Scanner(text).scan()
    return _LINE_BREAK.sub(" ", text)


class _Scanner:
    """Looks at each token: whether it belongs to the language, and how deep the text nests."""

    def __init__(self, text: str) -> None:
        self.text = text
        # The kind of the last token, or the token itself for an operator.
        self.previous = ""
        self.brackets = 0
        self.prefixes = 0
        self.steps = 0

    def scan(self) -> None:
        end = 0
        for match in _TOKEN.finditer(self.text):
            start, token, kind = match.start(), match[0], match.lastgroup or ""
            if start != end:
                break
            end = match.end()
            if kind == "name":
                self.take_name(token, start)
            elif kind == "operator":
                self.take_operator(token, start)
            elif kind != "space":
                self.take_literal(kind, token, start)
        if end != len(self.text):
            raise _foreign(self.text, end)

    def take_name(self, token: str, start: int) -> None:
        kind = _WORDS.get(token, "name")
        if kind == "name":
            _check_name(self.text, token, start, after_dot=self.previous == ".")
        self.prefixes = self.prefixes + 1 if kind == "not" else 0
        self.steps = self.steps if self.previous == "." else 0
        self.previous = kind
        self.check_depth(start)

    def take_operator(self, token: str, start: int) -> None:
        self.prefixes = self.prefixes + 1 if token in ("-", "+") else 0
        if token in (".", "[", "("):
            self.steps += 1
            self.brackets += token != "."  # noqa: S105
        elif token in ("]", ")"):
            self.brackets -= 1
        else:
            self.steps = 0
        self.previous = token
        self.check_depth(start)

    def take_literal(self, kind: str, token: str, start: int) -> None:
        if kind == "number" and len(token) > MAX_NUMBER_LENGTH:
            problem = f"a number has at most {MAX_NUMBER_LENGTH} characters"
            raise _refusal(self.text, start, problem)
        if kind == "string":
            if self.previous == "string":
                raise _refusal(self.text, start, "a comma is missing between two texts")
            if self.previous in ("name", "number") and not self.text[start - 1].isspace():
                problem = "a text begins with its quote; prefixes are not available"
                raise _refusal(self.text, start, problem, "not_allowed")
            _check_escapes(self.text, token, start)
        self.prefixes = 0
        self.previous = kind

    def check_depth(self, start: int) -> None:
        if self.brackets > MAX_BRACKETS or self.prefixes > MAX_PREFIXES or self.steps > MAX_STEPS:
            problem = "the expression is nested too deeply"
            raise _refusal(self.text, start, problem, "too_complex")


def _check_name(text: str, token: str, start: int, *, after_dot: bool) -> None:
    if token in _CONSTANTS:
        return
    if token in _SLIPS and not after_dot:
        raise _refusal(text, start, f"`{token}` is not available; {_SLIPS[token]}")
    if keyword.iskeyword(token):
        hint = f'; write ["{token}"] to read a key of that name' if after_dot else ""
        raise _refusal(text, start, f"`{token}` is not available{hint}", "not_allowed")
    if token.startswith("_"):
        raise _refusal(text, start, f"`{token}`: a name cannot begin with _", "not_allowed")
    if not token.isascii() and (problem := name_problem(token)):
        character = next((c for c in token if c in _SLIPS), None)
        raise _refusal(text, start, _SLIPS[character] if character else problem)


def name_problem(name: str) -> str | None:
    """Say why a text cannot be a name, or return None. Names count in their NFC form."""
    composed = unicodedata.normalize("NFC", name)
    if not composed.isidentifier():
        return f"`{name}` is not a name: use letters, digits and _"
    # Python reads names in NFKC, where different letters become one: `ﬁ` would read `fi`.
    if unicodedata.normalize("NFKC", name) != composed:
        return f"`{name}` has characters that only look like letters"
    return None


def _check_escapes(text: str, token: str, start: int) -> None:
    if "\\" not in token:
        return
    for escape in _ESCAPE.finditer(token):
        if escape[1] not in _ESCAPES and len(escape[1]) == 1:
            problem = f"`{escape[0]}` is unknown; write \\\\ for a backslash"
            raise _refusal(text, start + escape.start(), problem, "not_allowed")


def _foreign(text: str, position: int) -> ExpressionError:
    character = text[position]
    if character in _SLIPS:
        return _refusal(text, position, _SLIPS[character])
    if character.isdigit() or character == ".":
        return _refusal(text, position, "this is not a number; other values stand in quotes")
    return _refusal(text, position, f"`{character}` is not available", "not_allowed")


def _refusal(text: str, start: int, problem: str, code: str = "syntax") -> ExpressionError:
    return ExpressionError(f"expression.{code}", f"At character {start + 1}: {problem}.", text)
