"""The head of a Markdown file between ``---`` (or ``+++``) lines: its title and description.

Read line by line, not as YAML: only plain texts are wanted, and a document must not be able to
make a parser unfold references.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCES = ("---", "+++")
_MOST_LINES = 200
_FIELD = re.compile(r"^([A-Za-z_][\w-]*)\s*[:=]\s*(.*)$")
_QUOTED = re.compile(r"""^(?:"((?:[^"\\]|\\.)*)"|'((?:[^']|'')*)')\s*(?:#.*)?$""")
_FOLDED = re.compile(r"^[|>][+-]?\d?\s*$")
_SHOWN = ("subtitle", "description", "summary", "abstract", "excerpt")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontMatter:
    """What a reader of the document wants to know of its front matter."""

    title: str = ""
    lines: tuple[str, ...] = ()


def split_front_matter(text: str) -> tuple[FrontMatter, str]:
    """Return the front matter and the rest; a text without any has an empty one."""
    lines = text.split("\n", _MOST_LINES)
    if not lines or lines[0].strip() not in _FENCES:
        return FrontMatter(), text
    fence = lines[0].strip()
    for at, line in enumerate(lines[1:_MOST_LINES], start=1):
        if line.rstrip() in (fence, "..."):
            head = lines[1:at]
            break
    else:
        return FrontMatter(), text
    # A horizontal rule with a paragraph after it is no front matter
    if not all(_is_of_front_matter(line) for line in head):
        return FrontMatter(), text
    fields = _fields(head)
    shown = tuple(value for name in _SHOWN if (value := _plain(fields.get(name, ""))))
    front = FrontMatter(title=_plain(fields.get("title", "")), lines=shown)
    return front, "\n".join(lines[at + 1 :])


def _fields(head: list[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    folded = ""
    for line in head:
        match = _FIELD.match(line)
        if match:
            folded = match[1].lower() if _FOLDED.match(match[2]) else ""
            fields[match[1].lower()] = "" if folded else match[2]
        elif folded and line.startswith((" ", "\t")):
            fields[folded] = f"{fields[folded]} {line.strip()}".strip()
    return fields


def _is_of_front_matter(line: str) -> bool:
    return (
        not line.strip()
        or line.startswith((" ", "\t", "-", "#", "[", "]", "}"))
        or bool(_FIELD.match(line))
    )


def _plain(value: str) -> str:
    value = value.strip()
    quoted = _QUOTED.match(value)
    if quoted:
        if quoted[1] is not None:
            return re.sub(r"\\(.)", r"\1", quoted[1])
        return quoted[2].replace("''", "'")
    # Lists, mappings and texts of several lines are not shown
    return "" if value.startswith(("[", "{", "|", ">", "&", "*", "!")) else value
