"""OLE files, the containers of Office 97 and Outlook: what is at their top, and how streams begin.

Read within bounds and without trust: a chain that is broken or leads in a circle ends.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

SIGNATURE = bytes.fromhex("d0cf11e0a1b11ae1")
_ENTRY = 128
_MOST_ENTRIES = 20_000
_NONE = 0xFFFFFFFA
_ROOT = 0
_STREAM = 2
_SMALL_STREAM = 4096
_SMALL_SECTOR = 64


class BrokenOle(Exception):
    """The file's directory cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    name: str
    kind: int
    left: int
    right: int
    child: int
    start: int
    size: int


class OleFile:
    """The streams at the top of an OLE file, by their names in lower case.

    What is in storages below (embedded documents, attachments) is not among them. Raises
    BrokenOle.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        try:
            self._sector = 1 << struct.unpack_from("<H", content, 0x1E)[0]
            if self._sector not in (512, 4096):
                raise BrokenOle
            self._table = self._read_table()
            directory = b"".join(self._chain(self._number(0x30), _MOST_ENTRIES * _ENTRY))
            self._entries = [
                _entry(directory, at) for at in range(0, len(directory) - _ENTRY + 1, _ENTRY)
            ]
            self.streams = {
                entry.name.lower(): entry
                for entry in self._siblings(self._entries[_ROOT].child)
                if entry.kind == _STREAM
            }
        except (struct.error, IndexError) as error:
            raise BrokenOle from error

    def beginning(self, name: str) -> bytes:
        """Return some bytes from the start of a stream at the top, 64 or more where it has them.

        None where it is missing.
        """
        entry = self.streams.get(name.lower())
        if entry is None:
            return b""
        if entry.size < _SMALL_STREAM:
            return self._small_beginning(entry)
        return next(self._chain(entry.start, self._sector), b"")[:512]

    def _small_beginning(self, entry: _Entry) -> bytes:
        """Return the first 64 bytes of a small stream: these share the stream of the root."""
        index, at = divmod(entry.start * _SMALL_SECTOR, self._sector)
        root = self._chain(self._entries[_ROOT].start, (index + 1) * self._sector)
        block = next(islice(root, index, None), b"")
        return block[at : at + min(entry.size, _SMALL_SECTOR)]

    def _read_table(self) -> tuple[int, ...]:
        """Return which sector follows which; the header has the places of a table of 7 MB or so."""
        per_sector = self._sector // 4
        table: list[int] = []
        for at in range(0x4C, 0x200, 4):
            number = self._number(at)
            if number >= _NONE:
                break
            block = self._block(number)
            table.extend(struct.unpack_from(f"<{per_sector}I", block.ljust(self._sector, b"\xff")))
        return tuple(table)

    def _chain(self, start: int, most: int) -> Iterator[bytes]:
        number, seen = start, 0
        while number < _NONE and seen < most:
            block = self._block(number)
            if not block:
                return
            yield block
            seen += self._sector
            number = self._table[number] if number < len(self._table) else _NONE

    def _block(self, number: int) -> bytes:
        start = (number + 1) * self._sector
        return self._content[start : start + self._sector]

    def _siblings(self, first: int) -> Iterator[_Entry]:
        waiting, seen = [first], set[int]()
        while waiting:
            number = waiting.pop()
            if number in seen or number >= len(self._entries):
                continue
            seen.add(number)
            entry = self._entries[number]
            yield entry
            waiting += [entry.left, entry.right]

    def _number(self, at: int) -> int:
        return int(struct.unpack_from("<I", self._content, at)[0])


def _entry(directory: bytes, at: int) -> _Entry:
    length = min(struct.unpack_from("<H", directory, at + 0x40)[0], 64)
    name = directory[at : at + max(length - 2, 0)].decode("utf-16-le", "replace")
    left, right, child = struct.unpack_from("<3I", directory, at + 0x44)
    start, size = struct.unpack_from("<II", directory, at + 0x74)
    return _Entry(
        name=name,
        kind=directory[at + 0x42],
        left=left,
        right=right,
        child=child,
        start=start,
        size=size,
    )
