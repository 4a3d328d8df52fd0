"""The file of a host copy: what it holds, written whole or not at all, checked before it is used.

A file starts with a magic, the SHA-256 of all that follows, and a JSON header that says of what
it is a copy and where its sections lie. It is written under another name and renamed when it is
whole; whoever opens it compares the digest of every byte and the header's key, so that half a
file, a damaged one or another snapshot's is never served.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
import time
import uuid
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval.bounded_scan import Codes, encode
from retrieval.vectors import Vector

FORMAT = 1
SUFFIX = ".copy"
PARTIAL = ".partial"

_MAGIC = b"hostcopy"
_DIGEST = slice(len(_MAGIC), len(_MAGIC) + 32)
_HEADER_BYTES = 4096
_PAGE = 4096
_NAME = re.compile(r"([0-9a-f]{32})-([0-9a-f]{64})-(0|[0-9a-f]{32})")
_READ_AT_ONCE = 8 * 1024 * 1024

# What ranks a chunk among equal scores, and finds its text: unique in a snapshot.
PLACE = np.dtype([("digest", "V32"), ("document", "V16"), ("ordinal", "<u4")])


class Unusable(Exception):
    """A file that is not, byte for byte, the copy its name says."""


class NotCopyable(Exception):
    """A snapshot whose rows do not have the form that a copy keeps."""


@dataclass(frozen=True, slots=True)
class Key:
    """Of what a file is a copy: a snapshot's content as it is after the last purge.

    Snapshots of one knowledge base with equal digests have the same documents and vectors, so
    they share a file; ``epoch`` is another after each purge.
    """

    knowledge_base: uuid.UUID
    digest: str
    epoch: uuid.UUID | None

    @property
    def name(self) -> str:
        epoch = "0" if self.epoch is None else self.epoch.hex
        return f"{self.knowledge_base.hex}-{self.digest.removeprefix('sha256:')}-{epoch}{SUFFIX}"

    @classmethod
    def of_name(cls, name: str) -> Key | None:
        """Return the key that a file's name says; None for a name of something else."""
        found = _NAME.fullmatch(name.removesuffix(SUFFIX))
        if found is None or not name.endswith(SUFFIX):
            return None
        epoch = None if found[3] == "0" else uuid.UUID(found[3])
        return cls(uuid.UUID(found[1]), f"sha256:{found[2]}", epoch)


def size_of(rows: int, dimensions: int) -> int:
    """Return how many bytes the copy of a snapshot takes."""
    return _layout(rows, dimensions)[2]


def _layout(rows: int, dimensions: int) -> tuple[dict[str, int], dict[str, int], int]:
    """Return how wide a row is in each section, where the sections begin, and where all ends."""
    widths = {
        "codes": dimensions,
        "scales": 4,
        "lost": 4,
        "vectors": 4 * dimensions,
        "places": PLACE.itemsize,
    }
    sections: dict[str, int] = {}
    end = _HEADER_BYTES
    for name, width in widths.items():
        sections[name] = end
        end += -(-rows * width // _PAGE) * _PAGE
    return widths, sections, end


class Copy:
    """A copy whose bytes were checked, mapped into memory and shared by all processes."""

    def __init__(self, path: Path, key: Key) -> None:
        """Open and check a file. Raises ``Unusable``, and OSError where it cannot be read."""
        self.key = key
        self.path = path
        self._file = os.open(path, os.O_RDONLY)
        # Not before the last user is done with it.
        weakref.finalize(self, os.close, self._file)
        self._stamp = self._stamp_now()
        self.size = self._stamp[0]
        if self.size <= _HEADER_BYTES:
            raise Unusable("too short")
        self._map = mmap.mmap(self._file, 0, access=mmap.ACCESS_READ)
        header = self._checked_header(key)
        rows, dimensions = int(header["rows"]), int(header["dimensions"])
        sections = header["sections"]
        self.table = Codes(
            self._section(sections, "codes", "i1", rows * dimensions).reshape(rows, dimensions),
            self._section(sections, "scales", "<f4", rows),
            self._section(sections, "lost", "<f4", rows),
            float(header["longest"]),
        )
        self.vectors: NDArray[np.float32] = self._section(
            sections, "vectors", "<f4", rows * dimensions
        ).reshape(rows, dimensions)
        self.places: NDArray[Any] = self._section(sections, "places", PLACE, rows)

    def is_intact(self) -> bool:
        """Say whether the file is still as it was checked; costs a microsecond.

        A removed one is: what is mapped stays until nobody uses it.
        """
        return self._stamp_now() == self._stamp

    def is_removed(self) -> bool:
        return os.fstat(self._file).st_nlink == 0

    def mark_used(self) -> None:
        """Let other processes see, by the time of the last access, that this is in use."""
        if self.is_intact():
            os.utime(self._file, ns=(time.time_ns(), self._stamp[1]))

    def _stamp_now(self) -> tuple[int, int]:
        state = os.fstat(self._file)
        return state.st_size, state.st_mtime_ns

    def _checked_header(self, key: Key) -> dict[str, Any]:
        start = self._map[:_HEADER_BYTES]
        if start[: len(_MAGIC)] != _MAGIC:
            raise Unusable("no host copy")
        checked = hashlib.sha256(memoryview(self._map)[_DIGEST.stop :])
        if checked.digest() != start[_DIGEST]:
            raise Unusable("its bytes are not those that were written")
        header: dict[str, Any] = json.loads(start[_DIGEST.stop :].rstrip(b"\0"))
        if (header["format"], header["name"]) != (FORMAT, key.name):
            raise Unusable("it is a copy of something else, or of another version")
        return header

    def _section(self, sections: dict[str, int], name: str, kind: Any, count: int) -> NDArray[Any]:
        return np.frombuffer(self._map, dtype=kind, count=count, offset=sections[name])


def write(
    folder: Path, key: Key, *, rows: int, dimensions: int, parts: Iterable[tuple[Any, Vector]]
) -> Path:
    """Write the copy of ``key`` from parts of (places, vectors), and return its path.

    ``rows`` is at least how many there are. Raises OSError, with nothing left behind, where the
    disk is full, and ``NotCopyable`` for vectors that have no codes.
    """
    target = folder / key.name
    partial = folder / f"{key.name}{PARTIAL}"
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        _write(descriptor, key, rows, dimensions, parts)
        partial.rename(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    return target


def _write(
    descriptor: int, key: Key, rows: int, dimensions: int, parts: Iterable[tuple[Any, Vector]]
) -> None:
    widths, sections, end = _layout(rows, dimensions)
    os.ftruncate(descriptor, end)
    done, longest = 0, 0.0
    for places, vectors in parts:
        try:
            table = encode(vectors)
        except ValueError as error:
            raise NotCopyable(str(error)) from error
        if done + len(places) > rows:
            raise NotCopyable("there are more rows than the snapshot says")
        for name, values in (
            ("codes", table.codes),
            ("scales", table.scales),
            ("lost", table.lost),
            ("vectors", vectors),
            ("places", places),
        ):
            _write_all(descriptor, values.tobytes(), sections[name] + done * widths[name])
        done += len(places)
        longest = max(longest, table.longest)
    header = {
        "format": FORMAT,
        "name": key.name,
        "rows": done,
        "dimensions": dimensions,
        "longest": longest,
        "sections": sections,
    }
    text = json.dumps(header).encode()
    _write_all(descriptor, text.ljust(_HEADER_BYTES - _DIGEST.stop, b"\0"), _DIGEST.stop)
    _write_all(descriptor, _MAGIC + _digest_after_itself(descriptor), 0)


def _digest_after_itself(descriptor: int) -> bytes:
    found, position = hashlib.sha256(), _DIGEST.stop
    while piece := os.pread(descriptor, _READ_AT_ONCE, position):
        found.update(piece)
        position += len(piece)
    return found.digest()


def _write_all(descriptor: int, content: bytes, position: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, position)
        view, position = view[written:], position + written
