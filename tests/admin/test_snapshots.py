from __future__ import annotations

import pytest
from django.test import Client

from tests import builders
from tests.admin.pages import address_of, text_of

pytestmark = pytest.mark.django_db


def test_snapshots__some_held_by_versions__say_by_whom_and_how_much(browser: Client) -> None:
    base = builders.base_with("Returns")
    agent, _ = builders.published(base, slug="support")
    builders.edit(agent, prompt="Again.")
    builders.publish(agent)
    builders.published(base, slug="sales")
    builders.add_text(base, "new.md", "New.")
    builders.build(base)
    oldest, newest = base.snapshots.order_by("number")

    listed = text_of(browser.get("/admin/retrieval/indexsnapshot/"))
    held = text_of(browser.get(address_of(oldest, "change")))
    free = text_of(browser.get(address_of(newest, "change")))

    for said in (listed, held):
        assert "v1 of sales; v1, v2 of support" in said
    assert "2 documents, 2 chunks, 3.4 KB of texts and vectors" in held.replace("\xa0", " ")
    assert "no published version: it is pruned once it is neither current" in free


def test_snapshots__however_many__take_as_many_queries(
    browser: Client, django_assert_max_num_queries: object
) -> None:
    base = builders.base_with("Returns")
    for number in range(4):
        builders.add_text(base, f"{number}.md", f"Number {number}.")
        builders.build(base)
    builders.published(base)

    with django_assert_max_num_queries(10):  # type: ignore[operator]
        browser.get("/admin/retrieval/indexsnapshot/")
