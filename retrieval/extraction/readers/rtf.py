"""Rich Text: paragraphs, lists, tables and notes, under their headings.

Left out: hidden and deleted text, comments, running heads, pictures, and whatever stands in a
group that says of itself that readers may pass over it.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, replace

from retrieval.extraction.reader import Reading
from retrieval.extraction.readers.rtf_blocks import Blocks

_TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})?[ ]?|\\'([0-9a-fA-F]{2})|\\(\r\n|[^a-zA-Z])|([{}])"
    rb"|[\r\n]+|([^\\{}\r\n]+)",
    re.S,
)
_CODE_PAGES = {
    77: "mac_roman",
    128: "cp932",
    129: "cp949",
    130: "johab",
    134: "gb18030",
    136: "cp950",
    161: "cp1253",
    162: "cp1254",
    163: "cp1258",
    177: "cp1255",
    178: "cp1256",
    186: "cp1257",
    204: "cp1251",
    222: "cp874",
    238: "cp1250",
    255: "cp437",
}
_SHOWN = {
    "tab": "\t",
    "line": "\n",
    "lbr": "\n",
    "emdash": "—",
    "endash": "–",
    "lquote": "‘",
    "rquote": "’",
    "ldblquote": "“",
    "rdblquote": "”",
    "bullet": "•",
    "emspace": " ",
    "enspace": " ",
    "qmspace": " ",
}
_SYMBOLS = {b"~": " ", b"_": "-", b"{": "{", b"}": "}", b"\\": "\\"}
# Groups that are not text of the document
_PASSED_OVER = frozenset(
    re.findall(
        r"\w+",
        "colortbl info pict header headerl headerr headerf footer footerl footerr footerf fldinst"
        " bkmkstart bkmkend annotation atnid atnauthor atnref atntime atnicn objdata objclass"
        " nonshppict shprslt sp listtable listoverridetable rsidtbl xmlnstbl themedata datastore"
        " ftnsep ftnsepc ftncn aftnsep aftnsepc aftncn nonesttables xe tc txe rxe private",
    )
)
# Those marked as optional that hold text of the document all the same
_READ_THOUGH_OPTIONAL = frozenset(("shpinst", "shptxt", "ud", "cs", "listtag", "footnote"))
_HEADING = re.compile(r"heading (\d)\b", re.I)
_BODY_LEVEL = 10
_MOST_GROUPS = 1_000_000


@dataclass(slots=True)
class _State:
    """What holds inside a group and ends with it."""

    passed_over: bool = False
    # In the table of fonts, or in that of styles
    table: str = ""
    hidden: bool = False
    font: int | None = None
    # How many characters after \\u stand for it elsewhere
    substitutes: int = 1
    in_table: bool = False
    style: int | None = None
    level: int | None = None
    # Where text goes: the paragraph, a note, the marker of a list item
    target: str = "paragraph"
    # Nothing but its first control word makes a group a destination
    is_new: bool = True
    # Of its groups only the one in Unicode counts
    is_choice: bool = False


def read_rtf(content: bytes, reading: Reading) -> None:
    """Read a document; one that breaks off is read as far as it goes."""
    _Reader(content, reading).read()


class _Reader:
    def __init__(self, content: bytes, reading: Reading) -> None:
        self._content = content
        self._reading = reading
        self._blocks = Blocks(reading.outline)
        self._state = _State()
        self._states: list[_State] = []
        self._default = "cp1252"
        self._default_font: int | None = None
        self._fonts: dict[int, str] = {}
        self._styles: dict[int, int] = {}
        # Bytes that are not yet characters: two may make one
        self._bytes = bytearray()
        self._skip = 0
        self._optional = False
        self._style_name = ""
        self._style_number = 0

    def read(self) -> None:
        at, end = 0, len(self._content)
        while at < end:
            match = _TOKEN.match(self._content, at)
            if match is None:
                at += 1
                continue
            at = match.end()
            word, number, code, symbol, brace, text = match.groups()
            if text is not None:
                self._plain(text)
            elif brace is not None:
                self._brace(brace)
            elif code is not None:
                self._plain(bytes([int(code, 16)]))
            elif symbol is not None:
                self._symbol(symbol)
            elif word == b"bin":
                length = int(number or 0)
                at += length if 0 < length <= end - at else 0
            elif word is not None:
                self._word(word.decode("ascii"), None if number is None else int(number))
        self._flush()
        self._blocks.end()

    # -- groups ------------------------------------------------------------------------------

    def _brace(self, brace: bytes) -> None:
        self._flush()
        self._skip = 0
        self._optional = False
        if brace == b"{":
            if len(self._states) < _MOST_GROUPS:
                self._states.append(self._state)
                parent = self._state
                self._state = replace(
                    parent,
                    is_new=True,
                    is_choice=False,
                    passed_over=parent.passed_over or parent.is_choice,
                )
            return
        ended = self._state
        if ended.table == "style" and not ended.passed_over:
            self._note_style(ended)
        if self._states:
            self._state = self._states.pop()
        if ended.target != self._state.target:
            self._blocks.close(ended.target)

    def _note_style(self, state: _State) -> None:
        name = self._style_name.strip().rstrip(";").strip()
        heading = _HEADING.match(name)
        if heading:
            self._styles[self._style_number] = int(heading[1])
        elif name.lower() == "title":
            self._styles[self._style_number] = 0
        elif state.level is not None:
            self._styles[self._style_number] = state.level
        self._style_name = ""
        self._style_number = 0

    # -- control words ---------------------------------------------------------------------------

    def _symbol(self, symbol: bytes) -> None:
        if symbol == b"*":
            self._optional = self._state.is_new
        elif symbol in (b"\n", b"\r", b"\r\n"):
            self._flush()
            self._end_paragraph()
        elif symbol in _SYMBOLS:
            self._show(_SYMBOLS[symbol])

    def _word(self, word: str, number: int | None) -> None:
        state = self._state
        is_new, state.is_new = state.is_new, False
        optional, self._optional = self._optional, False
        if is_new and self._opens_destination(word, optional=optional):
            return
        if word == "u" and number is not None:
            self._flush()
            self._write(chr(number % 0x10000))
            self._skip = state.substitutes
        elif word == "uc":
            state.substitutes = max(0, number or 0)
        elif word in _SHOWN:
            self._show(_SHOWN[word])
        elif word in ("v", "deleted"):
            self._flush()
            state.hidden = number != 0
        elif word in ("par", "sect", "page", "column"):
            self._flush()
            self._end_paragraph()
        elif word in ("cell", "nestcell", "row"):
            self._flush()
            if not state.passed_over:
                self._blocks.table(word)
        else:
            self._set(word, number)

    def _opens_destination(self, word: str, *, optional: bool) -> bool:
        state = self._state
        if word in ("fonttbl", "stylesheet"):
            state.table = "font" if word == "fonttbl" else "style"
            return True
        if word == "upr":
            state.is_choice = True
        elif word == "ud":
            state.passed_over = bool(self._states) and self._states[-1].passed_over
        elif word in _PASSED_OVER or (optional and word not in _READ_THOUGH_OPTIONAL):
            if word == "annotation" and not state.passed_over:
                self._reading.notices.append(
                    "The document has review comments; they were left out."
                )
            # What styles are called stands in groups of their own
            state.passed_over = state.table != "style" or not optional or word != "cs"
        elif word == "footnote":
            state.target = "note"
            self._blocks.open()
        elif word in ("listtext", "pntext"):
            state.target = "marker"
            self._blocks.open()
        else:
            return False
        return word != "cs"

    def _set(self, word: str, number: int | None) -> None:
        state = self._state
        if word == "f":
            self._flush()
            state.font = number
        elif word == "fcharset" and state.table == "font":
            if state.font is not None and number in _CODE_PAGES:
                self._fonts[state.font] = _CODE_PAGES[number]
        elif word == "cpg" and state.table == "font":
            if state.font is not None and _is_code_page(f"cp{number}"):
                self._fonts[state.font] = f"cp{number}"
        elif word in ("ansicpg", "mac", "pc", "pca"):
            self._flush()
            named = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850"}.get(word, f"cp{number}")
            self._default = named if _is_code_page(named) else self._default
        elif word == "deff":
            self._default_font = number
        elif word == "s" and state.table == "style":
            self._style_number = number or 0
        elif word == "s":
            state.style = number
        elif word == "outlinelevel":
            state.level = (number or 0) + 1 if (number or 0) < _BODY_LEVEL - 1 else None
        elif word == "intbl":
            state.in_table = True
        elif word == "pard":
            self._flush()
            state.in_table = False
            state.style = state.level = None
        elif word == "plain":
            self._flush()
            state.hidden = False
            state.font = self._default_font

    # -- text ------------------------------------------------------------------------------------

    def _plain(self, text: bytes) -> None:
        if self._skip:
            skipped = min(self._skip, len(text))
            self._skip -= skipped
            text = text[skipped:]
        if text:
            self._state.is_new = False
            if not self._state.passed_over:
                self._bytes += text

    def _show(self, text: str) -> None:
        if self._skip:
            self._skip -= 1
            return
        self._state.is_new = False
        self._flush()
        self._write(text)

    def _flush(self) -> None:
        if self._bytes:
            code_page = self._default
            if self._state.font is not None:
                code_page = self._fonts.get(self._state.font, code_page)
            text = self._bytes.decode(code_page, "replace")
            self._bytes.clear()
            self._write(text)

    def _write(self, text: str) -> None:
        state = self._state
        if state.passed_over or state.hidden or state.table == "font":
            return
        if state.table == "style":
            self._style_name += text
        else:
            self._blocks.write(text)

    def _end_paragraph(self) -> None:
        state = self._state
        if state.passed_over or state.table:
            return
        level = state.level
        if level is None and state.style is not None:
            level = self._styles.get(state.style)
        self._blocks.paragraph(level=level, in_table=state.in_table)


def _is_code_page(name: str) -> bool:
    try:
        return bool(codecs.lookup(name))
    except LookupError:
        return False
