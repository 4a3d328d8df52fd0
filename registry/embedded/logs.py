"""Log files of the children: rotated when a child starts, read for what people must see."""

from __future__ import annotations

import re
from pathlib import Path
from typing import IO

ROTATE_AT_BYTES = 10_000_000

_READ_AT_MOST = 64_000
_SHOWN_LINE = 300


def open_log(path: Path) -> IO[bytes]:
    """Open a log for appending, first moving one of over 10 MB to ``<name>.1``."""
    if path.exists() and path.stat().st_size > ROTATE_AT_BYTES:
        path.replace(path.with_name(f"{path.name}.1"))
    return path.open("ab")


def size_of(path: Path) -> int:
    """Return the length of a log in bytes, 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


def last_line(path: Path, *, since: int = 0) -> str:
    """Return the last line that says something, of what was written after byte ``since``."""
    if not path.exists():
        return ""
    size = size_of(path)
    with path.open("rb") as log:
        # A smaller file than before is a new one: the old one was rotated away.
        log.seek(max(since if since <= size else 0, size - _READ_AT_MOST))
        lines = log.read().decode("utf-8", "replace").splitlines()
    return next((line.strip()[:_SHOWN_LINE] for line in reversed(lines) if line.strip()), "")


class LogWatch:
    """Reads a growing log and returns the new lines that match a pattern."""

    def __init__(self, path: Path, pattern: re.Pattern[str]) -> None:
        self._path = path
        self._pattern = pattern
        self._offset = size_of(path)

    def news(self) -> list[str]:
        """Return matching lines written since the last call; whole lines only."""
        size = size_of(self._path)
        if size < self._offset:
            self._offset = 0
        if size == self._offset:
            return []
        with self._path.open("rb") as log:
            log.seek(max(self._offset, size - _READ_AT_MOST))
            start = log.tell()
            data = log.read(_READ_AT_MOST)
        end = data.rfind(b"\n") + 1
        self._offset = start + end
        lines = data[:end].decode("utf-8", "replace").splitlines()
        return [line[:_SHOWN_LINE] for line in lines if self._pattern.search(line)]
