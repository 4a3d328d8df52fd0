"""The promise, through HTTP alone: a published version answers as it did."""

from __future__ import annotations

import json

import redis

from registry.embedded.instance import Instance as Paths
from tests.acceptance.instance import Client, Instance
from tests.data import shared_data

_SLUG = "promise"


def _articles() -> dict[str, bytes]:
    root = shared_data("kb", "files", "Store-Support")
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*.md"))
    }


def _questions() -> list[str]:
    lines = shared_data("kb", "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["question"] for line in lines]


def test_version__knowledge_base_changes_and_server_restarts__answers_byte_for_byte_as_before(
    instance: Instance, publisher: Client
) -> None:
    articles, questions = _articles(), _questions()
    base = publisher.make_base("Store support")
    documents = {}
    for name, content in articles.items():
        documents[name] = publisher.upload(base, name, content).json()["id"]
    publisher.wait_for_build(base)
    assert publisher.publish_tool(_SLUG, base) == 1
    before = {question: publisher.answer_bytes(_SLUG, 1, question) for question in questions}

    names = sorted(documents)
    at = f"/knowledge-bases/{base}"
    publisher.call(
        "PATCH", at, json={"chunking": {"strategy": "recursive", "size": 80, "overlap": 10}}
    )
    for name in names[:5]:
        publisher.call(
            "PUT",
            f"{at}/documents/{documents[name]}",
            files={"file": (name, articles[name][: len(articles[name]) // 2])},
        )
    for name in names[5:8]:
        publisher.call("PATCH", f"{at}/documents/{documents[name]}", json={"name": f"new {name}"})
    for name in names[8:12]:
        publisher.call("DELETE", f"{at}/documents/{documents[name]}")
    publisher.wait_for_build(base)
    assert publisher.call("POST", f"/agents/{_SLUG}/publish", json={})["number"] == 2

    changed = {question: publisher.answer_bytes(_SLUG, 1, question) for question in questions}
    second = {question: publisher.answer_bytes(_SLUG, 2, question) for question in questions}
    instance.stop()
    instance.start()
    restarted = {question: publisher.answer_bytes(_SLUG, 1, question) for question in questions}
    redis.Redis(unix_socket_path=str(Paths(instance.data_dir).valkey_socket)).flushall()
    flushed = {question: publisher.answer_bytes(_SLUG, 1, question) for question in questions}

    assert changed == before
    assert restarted == before
    assert flushed == before
    assert all(second[question] != before[question] for question in questions)
