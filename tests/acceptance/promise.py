"""The steps of the promise: fill a knowledge base, change everything in it, ask again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.acceptance.instance import Client
from tests.data import shared_data

Answers = dict[str, bytes]


def articles() -> dict[str, bytes]:
    """Return real help-centre articles by name."""
    root = shared_data("kb", "files", "Store-Support")
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*.md"))
    }


def questions() -> list[str]:
    lines = shared_data("kb", "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["question"] for line in lines]


@dataclass
class Shelf:
    """A knowledge base and the ids of its documents by name."""

    base: str
    contents: dict[str, bytes]
    documents: dict[str, str] = field(default_factory=dict)


def fill(client: Client, name: str, contents: dict[str, bytes]) -> Shelf:
    """Make a knowledge base of ``contents`` and wait until it can be searched."""
    shelf = Shelf(client.make_base(name), contents)
    for document, content in contents.items():
        shelf.documents[document] = client.upload(shelf.base, document, content).json()["id"]
    client.wait_for_build(shelf.base)
    return shelf


def change_everything(client: Client, shelf: Shelf) -> None:
    """Change the chunking; edit, rename and delete a quarter of the documents each."""
    at = f"/knowledge-bases/{shelf.base}"
    chunking = {"strategy": "recursive", "size": 80, "overlap": 10}
    client.call("PATCH", at, json={"chunking": chunking})
    names = sorted(shelf.documents)
    for name in names[0::4]:
        half = shelf.contents[name][: len(shelf.contents[name]) // 2]
        client.call("PUT", f"{at}/documents/{shelf.documents[name]}", files={"file": (name, half)})
    for name in names[1::4]:
        client.call(
            "PATCH", f"{at}/documents/{shelf.documents[name]}", json={"name": f"new {name}"}
        )
    for name in names[2::4]:
        client.call("DELETE", f"{at}/documents/{shelf.documents[name]}")
    client.wait_for_build(shelf.base)


def answers(client: Client, slug: str, version: int, asked: Sequence[str]) -> Answers:
    """Return the exact bytes of each answer."""
    return {question: client.answer_bytes(slug, version, question) for question in asked}
