"""One file with named, checksummed members: what an export writes and an import reads.

A plain ZIP that any tool lists, its members stored as they are. ``archive.json`` names each with
its size and SHA-256; the digest of ``archive.json`` therefore stands for the whole, and is shown
by export and import. Nothing is ever unpacked to disk, nothing is compressed (so a small file
cannot hold a large one), and a member is read piece by piece.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from registry.canonical import PREFIX, digest_bytes
from registry.errors import Conflict, Invalid

FORMAT = "agent-registry/archive"
SCHEMA = 1
INDEX = "archive.json"

_NAME = re.compile(r"[a-z0-9-]+(/[a-z0-9-]+)*\.(json|jsonl|bin)")
_LARGEST_INDEX = 16 * 2**20
_MOST_MEMBERS = 10_000
_LONGEST_LINE = 512 * 2**20
_BLOCK = 2**20
# What the library raises where a directory or a header says what cannot be.
_UNREADABLE = (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError)
# So that equal contents give equal files, whenever they are written.
_TIME = (1980, 1, 1, 0, 0, 0)


def refused(sentence: str, *, code: str, **data: Any) -> Invalid:
    """Return the error for an archive that is not taken."""
    return Invalid(sentence, code=f"archive.{code}", **data)


def differs(sentence: str, **data: Any) -> Conflict:
    """Return the error for an archive that contradicts what is here; ``sentence`` says in what."""
    return Conflict(f"{sentence} than in the archive.", code="import.differs", **data)


@dataclass(slots=True)
class _Sealed:
    """The bytes of one member as they pass."""

    target: IO[bytes]
    size: int
    hashed: Any

    def write(self, content: bytes) -> None:
        self.target.write(content)
        self.hashed.update(content)
        self.size += len(content)


class ArchiveWriter:
    """Writes one member after the other; ``write_archive`` makes it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True)
        self._members: dict[str, dict[str, Any]] = {}
        self.digest = ""

    @contextmanager
    def member(self, name: str) -> Iterator[_Sealed]:
        """Open the next member for writing."""
        with self._zip.open(zipfile.ZipInfo(name, _TIME), "w", force_zip64=True) as target:
            sealed = _Sealed(target, 0, hashlib.sha256())
            yield sealed
        self._members[name] = {"size": sealed.size, "sha256": PREFIX + sealed.hashed.hexdigest()}

    def write_json(self, name: str, value: Any) -> None:
        """Write a member that is one JSON value."""
        with self.member(name) as target:
            target.write(_dump(value))

    def write_lines(self, name: str, values: Iterator[Any]) -> int:
        """Write a member with one JSON value a line; return how many."""
        count = 0
        with self.member(name) as target:
            for value in values:
                target.write(_dump(value) + b"\n")
                count += 1
        return count

    def finish(self) -> None:
        index = _dump({"format": FORMAT, "schema": SCHEMA, "members": self._members})
        self._zip.writestr(zipfile.ZipInfo(INDEX, _TIME), index)
        self._zip.close()
        self.digest = digest_bytes(index)


@contextmanager
def write_archive(path: Path) -> Iterator[ArchiveWriter]:
    """Write an archive to ``path``: whole and synced to disk, or not at all.

    Raises Conflict (``archive.exists``) rather than to overwrite a file.
    """
    if path.exists():
        raise Conflict(f"{path} exists already.", code="archive.exists")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    # Readable by its owner alone: documents are in it.
    descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            writer = ArchiveWriter(file)
            yield writer
            writer.finish()
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


class ArchiveReader:
    """A checked archive; ``open_archive`` makes it."""

    def __init__(self, opened: zipfile.ZipFile, digest: str) -> None:
        self._zip = opened
        self.digest = digest

    def read_json(self, name: str) -> Any:
        """Return a member that is one JSON value. Raises Invalid."""
        return _load(name, self._info(name), self.stream(name).read(_LONGEST_LINE))

    def lines(self, name: str) -> Iterator[Any]:
        """Yield the JSON value of each line of a member."""
        info = self._info(name)
        with self._zip.open(info) as stream:
            while line := stream.readline(_LONGEST_LINE):
                yield _load(name, info, line)

    def batches(self, name: str, size: int) -> Iterator[list[Any]]:
        """Yield the JSON values of a member's lines, at most ``size`` at a time."""
        lines = self.lines(name)
        while batch := list(islice(lines, size)):
            yield batch

    def stream(self, name: str) -> IO[bytes]:
        """Open a member for reading from its beginning."""
        return self._zip.open(self._info(name))

    def _info(self, name: str) -> zipfile.ZipInfo:
        try:
            return self._zip.getinfo(name)
        except KeyError:
            raise refused(f"The archive has no {name}.", code="incomplete", member=name) from None


def read_exactly(stream: IO[bytes], size: int, name: str) -> bytes:
    """Return the next ``size`` bytes of a member. Raises Invalid where it ends before."""
    content = stream.read(size)
    if len(content) != size:
        raise refused(f"{name} ends too early.", code="damaged", member=name)
    return content


@contextmanager
def open_archive(path: Path) -> Iterator[ArchiveReader]:
    """Open ``path`` and check that it is whole, before anything in it is used.

    Raises Invalid: ``archive.not_readable``, ``archive.not_an_archive`` (also one that was cut
    off), ``archive.unsafe`` (compressed, encrypted, overlapping or oddly named members),
    ``archive.schema``, ``archive.incomplete``, ``archive.damaged``.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise refused(f"{path} cannot be read: {error.strerror}.", code="not_readable") from error
    with file:
        try:
            opened = zipfile.ZipFile(file)
        except (*_UNREADABLE, ValueError) as error:
            raise refused(
                f"{path} is not an archive of this kind, or its end is missing.",
                code="not_an_archive",
            ) from error
        with opened:
            try:
                digest = _check(opened, os.fstat(file.fileno()).st_size)
            except _UNREADABLE as error:
                raise refused(f"The archive is damaged: {error}.", code="damaged") from error
            yield ArchiveReader(opened, digest)


def _check(opened: zipfile.ZipFile, file_size: int) -> str:
    """Check directory, index and every byte; return the digest of the index."""
    infos = opened.infolist()
    if len(infos) > _MOST_MEMBERS:
        raise refused(f"The archive has {len(infos)} members.", code="unsafe")
    names = [info.filename for info in infos]
    for info in infos:
        _check_safe(info, names)
    if sum(info.file_size for info in infos) > file_size:
        raise refused("The archive's members overlap.", code="unsafe")
    if INDEX not in names:
        raise refused(f"The archive has no {INDEX}.", code="not_an_archive", member=INDEX)
    if opened.getinfo(INDEX).file_size > _LARGEST_INDEX:
        raise refused(f"{INDEX} is too long.", code="unsafe", member=INDEX)
    index = opened.read(INDEX)
    members = _members(_load(INDEX, opened.getinfo(INDEX), index))
    for name in [*members, *names]:
        if (name in members) != (name in names) and name != INDEX:
            where = f"stands in {INDEX} alone" if name in members else f"is not in {INDEX}"
            raise refused(f"The member {name} {where}.", code="incomplete", member=name)
    for name, said in members.items():
        found = {"size": opened.getinfo(name).file_size, "sha256": _digest(opened, name)}
        if found != said:
            raise refused(
                f"The member {name} is not what was exported: its size or checksum differs.",
                code="damaged",
                member=name,
            )
    return digest_bytes(index)


def _check_safe(info: zipfile.ZipInfo, names: list[str]) -> None:
    name = info.filename
    problem = ""
    if not _NAME.fullmatch(name):
        problem = "has a name that no export gives"
    elif names.count(name) > 1:
        problem = "stands twice in it"
    elif info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
        problem = "is compressed; an export stores its members as they are"
    elif info.flag_bits & 0x1:
        problem = "is encrypted"
    if problem:
        raise refused(f"The archive's member {name!r} {problem}.", code="unsafe", member=name)


def _members(index: Any) -> Mapping[str, Any]:
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise refused("This is not an archive of an agent.", code="not_an_archive")
    if index.get("schema") != SCHEMA:
        raise refused(
            f"The archive has schema {index.get('schema')!r}; this software reads {SCHEMA}.",
            code="schema",
            schema=index.get("schema"),
            supported=[SCHEMA],
        )
    members = index.get("members")
    if not isinstance(members, dict):
        raise refused(f"{INDEX} names no members.", code="damaged", member=INDEX)
    return members


def _digest(opened: zipfile.ZipFile, name: str) -> str:
    hashed = hashlib.sha256()
    try:
        with opened.open(name) as stream:
            while block := stream.read(_BLOCK):
                hashed.update(block)
    except _UNREADABLE as error:
        raise refused(
            f"The member {name} is damaged: {error}.", code="damaged", member=name
        ) from error
    return PREFIX + hashed.hexdigest()


def _dump(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8")


def _load(name: str, info: zipfile.ZipInfo, content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise refused(
            f"{name} does not hold the JSON it should ({info.file_size} bytes).",
            code="damaged",
            member=name,
        ) from error
