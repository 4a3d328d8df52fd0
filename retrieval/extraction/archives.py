"""ZIP containers from strangers: opened within bounds, read only as far as allowed."""

from __future__ import annotations

import io
import posixpath
import struct
import zipfile
import zlib
from urllib.parse import unquote

from retrieval.extraction.results import Damaged, PasswordRequired, TextTooLarge

SIGNATURE = b"PK\x03\x04"
MOST_PARTS = 20_000
_MIB = 1024 * 1024
MOST_PART_BYTES = 64 * _MIB
MOST_WHOLE_BYTES = 256 * _MIB
_END = b"PK\x05\x06"
_END_SEARCHED = 66_000
_ENCRYPTED = 0x1


class BrokenArchive(Exception):
    """The bytes are not a ZIP archive that can be opened."""


class Archive:
    """A ZIP archive whose parts are read by name; raises BrokenArchive when it cannot be opened."""

    def __init__(self, content: bytes) -> None:
        # Counted before anything is built: each entry costs half a kilobyte of memory
        if _entries_claimed(content) > MOST_PARTS:
            raise BrokenArchive(f"it has more than {MOST_PARTS:,} parts")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except (
            zipfile.BadZipFile,
            ValueError,
            OSError,
            NotImplementedError,
            struct.error,
        ) as error:
            raise BrokenArchive("its directory of parts is damaged") from error
        if len(self._zip.filelist) > MOST_PARTS:
            raise BrokenArchive(f"it has more than {MOST_PARTS:,} parts")
        self._entries = {_clean(entry.filename): entry for entry in self._zip.filelist}
        self._left = MOST_WHOLE_BYTES

    @property
    def names(self) -> frozenset[str]:
        """The names of all parts, without a leading slash."""
        return frozenset(self._entries)

    @property
    def whole_size(self) -> int:
        """What all parts unfold to, in bytes, as the directory says."""
        return sum(entry.file_size for entry in self._zip.filelist)

    def find(self, name: str) -> bytes | None:
        """Return a part, None where there is none; raises what ``read`` raises."""
        return self.read(name) if _clean(name) in self._entries else None

    def read(self, name: str, *, most: int = MOST_PART_BYTES) -> bytes:
        """Return a part. Raises Damaged, PasswordRequired or TextTooLarge."""
        entry = self._entries.get(_clean(name))
        if entry is None:
            raise Damaged(f"The document is incomplete: its part {name!r} is missing.")
        if entry.flag_bits & _ENCRYPTED:
            raise PasswordRequired
        if entry.file_size > min(most, self._left):
            raise TextTooLarge(
                f"The document unfolds to more than is read, {most // _MIB:,} MiB for its part "
                f"{name!r} and {MOST_WHOLE_BYTES // _MIB:,} MiB in all: "
                "split it, or save a smaller copy."
            )
        self._left -= entry.file_size
        try:
            return self._zip.read(entry)
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            OSError,
            ValueError,
            NotImplementedError,
        ) as error:
            raise Damaged(f"The document is damaged: its part {name!r} cannot be read.") from error


def resolve(base: str, target: str) -> str:
    """Return the name of the part that ``target`` means where the part ``base`` refers to it."""
    target = unquote(target.split("#", 1)[0])
    if target.startswith("/"):
        return _clean(target)
    return _clean(posixpath.normpath(posixpath.join(posixpath.dirname(base), target)))


def _clean(name: str) -> str:
    return name.replace("\\", "/").lstrip("/")


def _entries_claimed(content: bytes) -> int:
    at = content.rfind(_END, max(0, len(content) - _END_SEARCHED))
    if at < 0 or len(content) < at + 12:
        raise BrokenArchive("it is cut short")
    return int(struct.unpack_from("<H", content, at + 10)[0])
