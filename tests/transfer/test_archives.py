"""An archive that is cut off, changed or made to do harm is refused by name, and nothing is left."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.archives import open_archive, write_archive
from registry.errors import Invalid

DOCUMENTS = [{"name": "a", "text": "é" * 50}, {"name": "b"}]
BYTES = bytes(range(256)) * 40


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "one.agent"
    with write_archive(path) as writer:
        writer.write_json("version.json", {"number": 1})
        writer.write_lines("knowledge-bases/x/documents.jsonl", iter(DOCUMENTS))
        with writer.member("knowledge-bases/x/vectors.bin") as target:
            target.write(BYTES[:1000])
            target.write(BYTES[1000:])
    return path


def refusal(path: Path) -> Invalid:
    with pytest.raises(Invalid) as raised, open_archive(path):
        pass
    return raised.value


def rewritten(path: Path, change: Callable[[dict[str, bytes]], None], **options: Any) -> None:
    """Write the archive anew with other members, its index as before unless changed."""
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as new:
        for name, content in members.items():
            new.writestr(name, content, **options)


def indexed(members: dict[str, bytes]) -> None:
    """Give the members an index that fits, as somebody who tampers would."""
    said = {
        name: {"size": len(content), "sha256": "sha256:" + hashlib.sha256(content).hexdigest()}
        for name, content in members.items()
        if name != "archive.json"
    }
    index = {"format": "agent-registry/archive", "schema": 1, "members": said}
    members["archive.json"] = json.dumps(index).encode()


def test_archive__written__is_read_as_it_was(archive: Path) -> None:
    with open_archive(archive) as reader:
        assert reader.read_json("version.json") == {"number": 1}
        assert list(reader.lines("knowledge-bases/x/documents.jsonl")) == DOCUMENTS
        with reader.stream("knowledge-bases/x/vectors.bin") as stream:
            assert stream.read() == BYTES
    assert archive.stat().st_mode & 0o777 == 0o600
    assert zipfile.ZipFile(archive).testzip() is None


def test_archive__of_the_same_content__is_the_same_file(archive: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.agent"
    with open_archive(archive) as reader, write_archive(other) as writer:
        writer.write_json("version.json", reader.read_json("version.json"))
        writer.write_lines("knowledge-bases/x/documents.jsonl", iter(DOCUMENTS))
        with writer.member("knowledge-bases/x/vectors.bin") as target:
            target.write(BYTES)
    assert other.read_bytes() == archive.read_bytes()


def test_archive__whose_writing_fails__leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), write_archive(tmp_path / "one.agent") as writer:
        writer.write_json("version.json", 1 // 0)
    assert list(tmp_path.iterdir()) == []


def test_archive__cut_off_anywhere__is_refused(archive: Path) -> None:
    whole = archive.read_bytes()
    for length in {0, 1, 100, len(whole) // 2, len(whole) - 30, len(whole) - 1}:
        archive.write_bytes(whole[:length])
        assert refusal(archive).code in {"archive.not_an_archive", "archive.damaged"}, length


def test_archive__with_any_byte_flipped__is_refused_or_unharmed(tmp_path: Path) -> None:
    buffer = tmp_path / "one.agent"
    with write_archive(buffer) as writer:
        writer.write_json("version.json", {"number": 1})
        writer.write_lines("a/documents.jsonl", iter(DOCUMENTS))
    whole = buffer.read_bytes()
    with open_archive(buffer) as reader:
        digest = reader.digest

    @settings(max_examples=400, deadline=None, database=None)
    @given(st.integers(0, len(whole) - 1), st.integers(1, 255))
    def flip(position: int, change: int) -> None:
        flipped = bytearray(whole)
        flipped[position] ^= change
        buffer.write_bytes(flipped)
        with suppress(Invalid), open_archive(buffer) as reader:
            # Times and other notes of the ZIP itself may change; what it holds may not.
            assert reader.digest == digest
            assert list(reader.lines("a/documents.jsonl")) == DOCUMENTS

    flip()


@pytest.mark.parametrize(
    ("name", "content"),
    [("version.json", b'{"number":2}'), ("knowledge-bases/x/vectors.bin", BYTES[::-1])],
)
def test_member__changed__is_named(archive: Path, name: str, content: bytes) -> None:
    rewritten(archive, lambda members: members.update({name: content}))
    error = refusal(archive)
    assert (error.code, error.data["member"]) == ("archive.damaged", name)
    assert name in error.detail


def test_member__missing_or_added__is_named(archive: Path) -> None:
    rewritten(archive, lambda members: members.update({"extra.json": b"{}"}))
    error = refusal(archive)
    assert (error.code, error.data["member"]) == ("archive.incomplete", "extra.json")

    def drop(members: dict[str, bytes]) -> None:
        del members["extra.json"], members["version.json"]

    rewritten(archive, drop)
    error = refusal(archive)
    assert (error.code, error.data["member"]) == ("archive.incomplete", "version.json")


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/etc/passwd", "a/../b.json", "a\\b.json", "a/", ".bin", "a.json\x00"],
)
def test_member__with_a_name_that_leads_elsewhere__is_refused(archive: Path, name: str) -> None:
    def add(members: dict[str, bytes]) -> None:
        members[name] = b"{}"
        indexed(members)

    before = sorted(archive.parent.iterdir())
    rewritten(archive, add)
    assert refusal(archive).code in {"archive.unsafe", "archive.incomplete"}
    assert sorted(archive.parent.iterdir()) == before


def test_archive__that_would_grow_when_unpacked__is_refused_unread(archive: Path) -> None:
    def bomb(members: dict[str, bytes]) -> None:
        members["version.json"] = b" " * 50_000_000
        indexed(members)

    rewritten(archive, bomb, compress_type=zipfile.ZIP_DEFLATED)
    assert archive.stat().st_size < 100_000
    error = refusal(archive)
    assert error.code == "archive.unsafe"
    assert "compressed" in error.detail


def test_archive__whose_directory_claims_more_than_it_has__is_refused(archive: Path) -> None:
    content = bytearray(archive.read_bytes())
    with zipfile.ZipFile(archive) as opened:
        names = [info.filename for info in opened.infolist()]
    # Sizes in the central directory, both of them, for the first member.
    start = content.rindex(b"PK\x01\x02", 0, content.rindex(names[0].encode()))
    content[start + 20 : start + 28] = b"\xf0\xff\xff\x7f" * 2
    archive.write_bytes(content)
    assert refusal(archive).code in {"archive.unsafe", "archive.damaged"}


def test_member__that_stands_twice__is_refused(archive: Path) -> None:
    with zipfile.ZipFile(archive, "a") as opened, pytest.warns(UserWarning, match="Duplicate"):
        opened.writestr("version.json", b'{"number":2}')
    assert refusal(archive).code == "archive.unsafe"


def test_archive__of_another_schema__says_which_is_read(archive: Path) -> None:
    def newer(members: dict[str, bytes]) -> None:
        index = json.loads(members["archive.json"])
        members["archive.json"] = json.dumps({**index, "schema": 2}).encode()

    rewritten(archive, newer)
    error = refusal(archive)
    assert (error.code, error.data) == ("archive.schema", {"schema": 2, "supported": [1]})


@pytest.mark.parametrize(
    "index", [b"", b"{", b"[]", b"{}", b'{"format":"other"}', b"[" * 100_000, b"\xff"]
)
def test_archive__with_an_index_of_something_else__is_refused(archive: Path, index: bytes) -> None:
    rewritten(archive, lambda members: members.update({"archive.json": index}))
    assert refusal(archive).code in {"archive.not_an_archive", "archive.damaged"}


def test_file__that_is_none_or_no_archive__is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "missing").code == "archive.not_readable"
    assert refusal(tmp_path).code == "archive.not_readable"
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as opened:
        opened.writestr("readme.json", b"{}")
    assert refusal(other).code == "archive.not_an_archive"
    other.write_bytes(BytesIO(b"not a zip").getvalue())
    assert refusal(other).code == "archive.not_an_archive"
