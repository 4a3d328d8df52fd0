"""The promise, through HTTP alone: a published version answers as it did."""

from __future__ import annotations

import redis

from registry.embedded.instance import Instance as Paths
from tests.acceptance.instance import Client, Instance
from tests.acceptance.promise import answers, articles, change_everything, fill, questions

_SLUG = "promise"


def test_version__knowledge_base_changes_and_server_restarts__answers_byte_for_byte_as_before(
    instance: Instance, publisher: Client
) -> None:
    asked = questions()
    shelf = fill(publisher, "Store support", articles())
    assert publisher.publish_tool(_SLUG, shelf.base) == 1
    before = answers(publisher, _SLUG, 1, asked)

    change_everything(publisher, shelf)
    assert publisher.call("POST", f"/agents/{_SLUG}/publish", json={})["number"] == 2

    changed = answers(publisher, _SLUG, 1, asked)
    second = answers(publisher, _SLUG, 2, asked)
    instance.stop()
    instance.start()
    restarted = answers(publisher, _SLUG, 1, asked)
    redis.Redis(unix_socket_path=str(Paths(instance.data_dir).valkey_socket)).flushall()
    flushed = answers(publisher, _SLUG, 1, asked)

    assert changed == before
    assert restarted == before
    assert flushed == before
    assert all(second[question] != before[question] for question in asked)
