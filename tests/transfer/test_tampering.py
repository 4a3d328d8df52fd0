"""What somebody changed in an archive, checksums included, is found before anything is written."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from registry.errors import Conflict, Invalid
from tests.transfer.conftest import Elsewhere
from tests.transfer.test_archives import indexed
from tests.transfer.world import World, bring, export, row_counts

pytestmark = pytest.mark.django_db(transaction=True)

OTHER_CHUNKING = '{"overlap":7,"recipe":1,"size":77,"strategy":"recursive"}'
Change = Callable[[Any], None]


def tampered(path: Path, ending: str, change: Callable[[bytes], bytes]) -> None:
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    (name,) = [one for one in members if one.endswith(ending)][:1]
    members[name] = change(members[name])
    indexed(members)
    with zipfile.ZipFile(path, "w") as new:
        for one, content in members.items():
            new.writestr(one, content)


def with_json(change: Change) -> Callable[[bytes], bytes]:
    def apply(content: bytes) -> bytes:
        value = json.loads(content)
        change(value)
        return json.dumps(value, ensure_ascii=False).encode()

    return apply


def with_first_line(change: Change) -> Callable[[bytes], bytes]:
    def apply(content: bytes) -> bytes:
        first, rest = content.split(b"\n", 1)
        return with_json(change)(first) + b"\n" + rest

    return apply


def set_to(*keys: Any, value: Any) -> Change:
    def change(target: Any) -> None:
        for key in keys[:-1]:
            target = target[key]
        target[keys[-1]] = value

    return change


def flipped(content: bytes) -> bytes:
    return bytes([content[0] ^ 1]) + content[1:]


TAMPERED = {
    "a text": ("chunks.jsonl", with_first_line(set_to(0, value="Within 90 days."))),
    "a page": ("chunks.jsonl", with_first_line(set_to(1, value=7))),
    "an offset": ("chunks.jsonl", with_first_line(set_to(3, value=1))),
    "a chunk's digest": ("chunks.jsonl", with_first_line(set_to(6, value="sha256:0"))),
    "a vector": ("vectors.bin", flipped),
    "bytes of a document": ("contents.bin", flipped),
    "segments": ("segments.jsonl", with_first_line(set_to(0, "text", value="Other."))),
    "a document's name": ("documents.jsonl", with_first_line(set_to("name", value="b.md"))),
    "metadata": ("documents.jsonl", with_first_line(set_to("metadata", value={"x": 1}))),
    "a revision": ("documents.jsonl", with_first_line(set_to("revision", "number", value=9))),
    "a chunking": (
        "documents.jsonl",
        with_first_line(set_to("indexed", "chunking", value=OTHER_CHUNKING)),
    ),
    "the prompt": ("version.json", with_json(set_to("configuration", "prompt", value="Obey."))),
    "a tool": ("version.json", with_json(set_to("configuration", "tools", 0, "name", value="x"))),
    "a binding": (
        "version.json",
        with_json(set_to("configuration", "bindings", 0, "expression", value="region == 'UK'")),
    ),
    "the version's digest": ("version.json", with_json(set_to("digest", value="sha256:0"))),
    "a snapshot's digest": (
        "version.json",
        with_json(set_to("knowledgeBases", 0, "snapshot", "digest", value="sha256:0")),
    ),
}
MALFORMED = {
    "a line too few": ("chunks.jsonl", lambda content: content.split(b"\n", 1)[1]),
    "a line too many": ("chunks.jsonl", lambda content: content + content),
    "no documents": ("documents.jsonl", lambda _: b""),
    "other types": ("documents.jsonl", with_first_line(set_to("revision", value=[1]))),
    "a number of chunks": (
        "documents.jsonl",
        with_first_line(set_to("indexed", "chunks", value=-1)),
    ),
    "a vector too short": ("vectors.bin", lambda content: content[:-4]),
    "bytes left over": ("contents.bin", lambda content: content + b"x"),
    "a member missing in the version": (
        "version.json",
        with_json(lambda value: value.pop("agent")),
    ),
    "no JSON": ("version.json", lambda content: content[:-1]),
    "a list": ("version.json", lambda _: b"[]"),
    "an id of no form": ("version.json", with_json(set_to("agent", "id", value="x"))),
    "NUL in a text": ("chunks.jsonl", with_first_line(set_to(0, value="a\x00b"))),
    "a base less": ("version.json", with_json(lambda value: value["knowledgeBases"].pop())),
    "a manifest of no form": ("version.json", with_json(set_to("manifest", value="{}"))),
    "a configuration that is a list": (
        "version.json",
        with_json(set_to("configuration", value=[])),
    ),
    "bindings that are an object": (
        "version.json",
        with_json(set_to("configuration", "bindings", value={"a": 1})),
    ),
    "a tool that is a text": (
        "version.json",
        with_json(set_to("configuration", "tools", 0, value="search")),
    ),
    "a snapshot that is nothing": (
        "version.json",
        with_json(set_to("knowledgeBases", 0, "snapshot", value=None)),
    ),
    "a number beyond all bounds": (
        "version.json",
        with_json(set_to("knowledgeBases", 0, "snapshot", "chunks", value=10**30)),
    ),
    "a model that is a list": (
        "version.json",
        with_json(set_to("knowledgeBases", 0, "model", value=["x"])),
    ),
    "an agent without a name": ("version.json", with_json(set_to("agent", "name", value=None))),
    "a slug that is a list": ("version.json", with_json(set_to("agent", "slug", value=["x"]))),
    "nesting without end": ("version.json", lambda _: b"[" * 100_000),
    "a chunk that is a number": ("chunks.jsonl", lambda content: b"1\n" + content),
    "a page that is a text": ("chunks.jsonl", with_first_line(set_to(1, value="x"))),
    "an offset beyond all bounds": ("chunks.jsonl", with_first_line(set_to(3, value=10**30))),
    "a document's name that is a list": (
        "documents.jsonl",
        with_first_line(set_to("name", value=["x"])),
    ),
    "a document without a name": ("documents.jsonl", with_first_line(set_to("name", value=None))),
    "purges that are a number": ("documents.jsonl", with_first_line(set_to("purges", value=7))),
    "segments that are a text": ("segments.jsonl", with_first_line(set_to(0, value="x"))),
    "a vector that is no number": ("vectors.bin", lambda content: b"\xff" * 4 + content[4:]),
}


def test_import__of_tampered_archives__refuses_each_and_leaves_nothing(
    world: World, archive: Path, elsewhere: Elsewhere
) -> None:
    export(archive, world.agent)
    whole = archive.read_bytes()
    with elsewhere():
        counts = row_counts()
        for what, (ending, change) in {**TAMPERED, **MALFORMED}.items():
            archive.write_bytes(whole)
            tampered(archive, ending, change)
            with pytest.raises((Invalid, Conflict)) as refused:
                bring(archive)
            if what in TAMPERED:
                assert refused.value.code == "import.not_verified", what
            assert row_counts() == counts, what
        archive.write_bytes(whole)
        assert bring(archive).version.digest == world.version.digest
