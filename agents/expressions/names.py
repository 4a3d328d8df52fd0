"""Names such as `customer.tier`: their keys, and reading them from JSON objects."""

from __future__ import annotations

import copy
import json
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from agents.expressions.limits import ELEMENT_WORK
from agents.expressions.values import Work

MISSING: Final = object()

_STEP: Final = re.compile(r'([^.\[\]"]+)|\[("(?:[^"\\]|\\.)*")\]')


def dotted(keys: Iterable[str]) -> str:
    """Return the one way to write a name: `customer.tier`, `customer["first name"]`."""
    parts: list[str] = []
    for key in keys:
        if not parts:
            parts.append(key)
        elif key.isidentifier():
            parts.append(f".{key}")
        else:
            parts.append(f"[{json.dumps(key, ensure_ascii=False)}]")
    return "".join(parts)


@lru_cache(maxsize=4096)
def keys_of(name: str) -> tuple[str, ...]:
    """Return the keys of a name that `dotted` wrote."""
    return tuple(json.loads(quoted) if quoted else plain for plain, quoted in _STEP.findall(name))


def look_up(value: Any, key: str, work: Work | None = None) -> Any:
    """Return what a JSON object has under ``key`` (in NFC), else ``MISSING``."""
    if type(value) is not dict:
        return MISSING
    found = value.get(key, MISSING)
    if found is MISSING and not key.isascii():
        if work is not None:
            work.spend(ELEMENT_WORK * len(value))
        for other in value:
            if isinstance(other, str) and unicodedata.normalize("NFC", other) == key:
                return value[other]
    return found


def narrowed(context: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return a copy of a context with the given names only.

    With the names that a decision has read, it is what a trace keeps and what decides alike.
    """
    narrow: dict[str, Any] = {}
    whole: set[tuple[str, ...]] = set()
    for keys in sorted(map(keys_of, names), key=len):
        if any(keys[:n] in whole for n in range(1, len(keys) + 1)):
            continue
        value: Any = context
        for key in keys:
            value = look_up(value, key)
        if value is MISSING:
            continue
        whole.add(keys)
        target = narrow
        for key in keys[:-1]:
            target = target.setdefault(key, {})
        target[keys[-1]] = copy.deepcopy(value)
    return narrow
