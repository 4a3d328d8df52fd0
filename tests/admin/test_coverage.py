from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from agents.models import Agent
from tests import builders
from tests.admin.conftest import Audited
from tests.admin.pages import address_of, sent_by, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent() -> Agent:
    base = builders.base_with("Returns")
    agent = builders.make_agent("support")
    builders.edit(
        agent,
        contextVariables=[
            {"name": "items", "type": "string", "values": ["EU", "<b>"], "required": True}
        ],
        bindings=[
            {"knowledgeBase": str(base.pk), "label": "Europe", "expression": "items == 'EU'"}
        ],
        sampleContexts=[{"name": "Nobody", "context": {"items": "<b>"}}],
    )
    return agent


def _rows(page: Any) -> list[tuple[str | None, list[Any], int]]:
    return [
        (one.name, list(one.shown), len(one.attached)) for one in page.context["coverage"].contexts
    ]


def test_coverage__of_the_draft__shows_each_context_with_what_applies(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    with audited(""):
        page = browser.get(address_of(agent, "coverage"))

    assert _rows(page) == [
        (None, [("items", "EU")], 1),
        (None, [("items", "<b>")], 0),
        ("Nobody", [("items", "<b>")], 0),
    ]
    said = text_of(page)
    assert "All 2 combinations of the declared values." in said
    assert "In 2 of 3 contexts no knowledge base applies" in said
    assert "&lt;b&gt;" in page.content.decode()
    assert "items <b>" not in page.content.decode()


def test_coverage__of_a_version__is_chosen_by_its_number(browser: Client, agent: Agent) -> None:
    builders.publish(agent)
    builders.edit(agent, bindings=[], contextVariables=[], sampleContexts=[])

    version = browser.get(address_of(agent, "coverage"), {"version": "1"})
    draft = browser.get(address_of(agent, "coverage"))
    unknown = browser.get(address_of(agent, "coverage"), {"version": "7"}, follow=True)

    assert len(_rows(version)) == 3
    assert "what applies never changes" in text_of(draft)
    assert "Support has no version 7." in text_of(unknown)


def test_publish__warnings_of_the_coverage__are_shown_and_refused_where_the_draft_says_so(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    page = browser.get(address_of(agent, "publish"))
    builders.edit(agent, coverageErrors=True)
    strict = browser.get(address_of(agent, "publish"))

    with audited(""):
        refused = browser.post(address_of(agent, "publish"), sent_by(strict, "revision"))
    builders.edit(agent, coverageErrors=False)
    with audited("version.published"):
        browser.post(
            address_of(agent, "publish"),
            sent_by(browser.get(address_of(agent, "publish")), "revision"),
        )

    assert "Is this meant? Publishing goes ahead all the same." in text_of(page)
    assert "no knowledge base applies" in text_of(page)
    assert "is not published while its coverage has warnings" in text_of(strict)
    assert "is not published while its coverage has warnings: In 2 of 3" in text_of(refused)
