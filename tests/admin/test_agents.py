from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from agents.drafting import draft_of, update_agent
from agents.models import Agent, AgentVersion
from retrieval.knowledge_bases import find
from retrieval.models import KnowledgeBase
from tests import builders
from tests.admin.conftest import Audited
from tests.admin.pages import address_of, sent_by, text_of
from tests.traces import kept_traces

pytestmark = pytest.mark.django_db

ADD = "/admin/agents/agent/add/"


@pytest.fixture
def base() -> KnowledgeBase:
    return builders.base_with("Returns")


@pytest.fixture
def agent(base: KnowledgeBase) -> Agent:
    """An agent with a draft that can be published."""
    agent = builders.make_agent("support")
    builders.edit(
        agent,
        prompt="Answer from the passages.",
        contextVariables=[{"name": "region", "type": "string", "values": ["EU", "UK"]}],
        bindings=[
            {"knowledgeBase": str(base.pk), "expression": "region == 'EU'", "label": "EU"},
            {"knowledgeBase": str(base.pk), "enabled": False, "label": "Off"},
        ],
        tools=[builders.rag_tool(base)],
    )
    return agent


def test_creating__by_the_form__makes_an_agent_and_leads_to_its_draft(
    browser: Client, audited: Audited
) -> None:
    with audited("agent.created"):
        answer = browser.post(ADD, {"slug": "support", "name": ""})

    agent = Agent.objects.get(slug="support")
    assert agent.name == "support"
    assert answer.headers["Location"] == address_of(agent, "draft")


@pytest.mark.parametrize("slug", ["", "Support", "a b", "-a", "ä", "support"])
def test_creating__a_slug_that_cannot_be__is_said_at_the_field(
    browser: Client, audited: Audited, slug: str
) -> None:
    builders.make_agent("support")

    with audited(""):
        answer = browser.post(ADD, {"slug": slug, "name": "x"})

    assert answer.status_code == 200
    assert answer.context["adminform"].form.errors
    assert Agent.objects.count() == 1


def test_settings__renamed_and_archived__is_one_change(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    with audited("agent.updated"):
        browser.post(address_of(agent, "settings"), {"name": "Customer support", "archived": "on"})

    agent.refresh_from_db()
    assert agent.name == "Customer support"
    assert "Archived" in text_of(browser.get(address_of(agent, "change")))


def test_agent__its_address__also_knows_the_slug(browser: Client, agent: Agent) -> None:
    page = browser.get("/admin/agents/agent/support/change/")

    assert page.context["original"] == agent


def test_trying_a_context__against_the_draft__says_what_applies_and_why(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    with audited(""):
        page = browser.post(
            address_of(agent, "context"), {"context": '{"region": "EU"}', "version": "draft"}
        )

    decisions = [(one["label"], one["applies"], one["reason"]) for one in _bindings(page)]
    assert decisions == [("EU", True, "TRUE"), ("Off", False, "DISABLED")]
    assert "Attached to this conversation, in this order: Returns" in text_of(page)
    assert not kept_traces().exists()


def _bindings(page: Any) -> Any:
    return page.context["answer"]["bindings"]


def test_trying_a_context__that_is_not_as_declared__says_so(browser: Client, agent: Agent) -> None:
    page = browser.post(
        address_of(agent, "context"), {"context": '{"region": "FR"}', "version": "draft"}
    )

    said = text_of(page)
    assert "The context is not as declared:" in said
    assert "allowed: EU, UK" in said
    assert "No knowledge base is attached to this conversation." in said


def test_trying_a_context__a_published_version__decides_by_its_own_bindings(
    browser: Client, agent: Agent
) -> None:
    builders.publish(agent)
    builders.edit(agent, bindings=[])
    typed = {"context": '{"region": "EU"}'}

    draft = browser.post(address_of(agent, "context"), {**typed, "version": "draft"})
    version = browser.post(address_of(agent, "context"), {**typed, "version": "1"})

    assert _bindings(draft) == []
    assert len(_bindings(version)) == 2


@pytest.mark.parametrize("context", ["", "[]", "{", '{"a": 1, "a": 2}', '{"a": "\\u0000"}', "1"])
def test_trying_a_context__that_is_no_object__is_said_at_the_field(
    browser: Client, agent: Agent, context: str
) -> None:
    page = browser.post(address_of(agent, "context"), {"context": context, "version": "draft"})

    assert list(page.context["adminform"].form.errors) == ["context"]


def test_trying_a_context__the_page_itself__starts_from_the_declared_values(
    browser: Client, agent: Agent
) -> None:
    typed = sent_by(browser.get(address_of(agent, "context")), "context")

    page = browser.post(address_of(agent, "context"), typed)

    assert _bindings(page)[0]["applies"] is True


def test_publishing__by_the_button__makes_a_version_that_can_be_read(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    url = address_of(agent, "publish")

    with audited("version.published"):
        answer = browser.post(url, sent_by(browser.get(url), "revision", notes="First.\nNew."))

    version = AgentVersion.objects.get(agent=agent, number=1)
    assert (version.notes, version.published_by) == ("First.\nNew.", "ada")
    assert answer.headers["Location"] == address_of(version, "change")
    said = text_of(browser.get(address_of(version, "change")))
    for shown in (version.digest, "Answer from the passages.", "region == 'EU'", "search", "#1"):
        assert shown in said


def test_publishing__a_snapshot_that_lacks_changes__wants_to_be_told(
    browser: Client, audited: Audited, agent: Agent, base: KnowledgeBase
) -> None:
    builders.add_text(base, "new.md", "# New\n\nSomething new.\n")
    url = address_of(agent, "publish")
    page = browser.get(url)

    with audited(""):
        refused = browser.post(url, sent_by(page, "revision"))
    with audited("version.published"):
        browser.post(url, sent_by(page, "revision", accept_outdated="on"))

    assert "1 change is not in its snapshot." in text_of(page)
    assert "Changes are not yet in the snapshots." in text_of(refused)
    assert AgentVersion.objects.filter(agent=agent, number=1).exists()


def test_publishing__outdated_only_when_the_button_is_pressed__offers_the_consent(
    browser: Client, agent: Agent, base: KnowledgeBase
) -> None:
    url = address_of(agent, "publish")
    page = browser.get(url)
    builders.add_text(base, "new.md", "# New\n")

    refused = browser.post(url, sent_by(page, "revision"))

    assert b'name="accept_outdated"' not in page.content
    assert b'name="accept_outdated"' in refused.content


def test_publishing__no_snapshot_yet__is_refused(browser: Client, audited: Audited) -> None:
    empty = builders.make_base("Empty")
    agent = builders.make_agent("support")
    builders.edit(agent, bindings=[{"knowledgeBase": str(empty.pk)}])
    url = address_of(agent, "publish")
    page = browser.get(url)

    with audited(""):
        refused = browser.post(url, sent_by(page, "revision"))

    assert "has no snapshot yet" in text_of(page)
    assert "Empty has no ready snapshot to pin yet." in text_of(refused)


def test_publishing__nothing_new__is_refused(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    builders.publish(agent)
    url = address_of(agent, "publish")

    with audited(""):
        refused = browser.post(url, sent_by(browser.get(url), "revision"))

    assert "The draft is equal to version 1." in text_of(refused)


def test_publishing__a_draft_edited_meanwhile__has_to_be_looked_at_again(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    url = address_of(agent, "publish")
    typed = sent_by(browser.get(url), "revision")
    builders.edit(agent, prompt="Another one slipped in.")

    with audited(""):
        answer = browser.post(url, typed, follow=True)

    assert "The draft was edited since this page was opened" in text_of(answer)
    assert not AgentVersion.objects.filter(state="published").exists()


def test_publishing__the_page__shows_what_changed_since_the_last_version(
    browser: Client, agent: Agent, base: KnowledgeBase
) -> None:
    builders.publish(agent)
    builders.edit(agent, prompt="Now in verse.")
    builders.add_text(base, "new.md", "# New\n\nSomething new.\n")
    builders.build(find(base.pk))

    changes = browser.get(address_of(agent, "publish")).context["publication"].changes

    assert [change.what for change in changes] == [
        "prompt",
        "knowledgeBases “Returns” snapshotDigest",
    ]
    assert (changes[0].before, changes[0].after) == ("Answer from the passages.", "Now in verse.")


def test_version__restored__makes_the_draft_a_copy_of_it(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    version = builders.publish(agent)
    builders.edit(agent, prompt="Now in verse.")
    url = address_of(version, "restore")
    page = browser.get(url)

    with audited("draft.restored"):
        browser.post(url, sent_by(page, "revision"))

    assert draft_of(agent).prompt == "Answer from the passages."


def test_version__restored_over_an_edit_that_nobody_saw__is_refused(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    version = builders.publish(agent)
    url = address_of(version, "restore")
    typed = sent_by(browser.get(url), "revision")
    builders.edit(agent, prompt="Now in verse.")

    with audited(""):
        answer = browser.post(url, typed, follow=True)

    assert "The draft is at revision" in text_of(answer)
    assert draft_of(agent).prompt == "Now in verse."


def test_versions__the_list__holds_published_ones_and_no_draft(
    browser: Client, agent: Agent
) -> None:
    builders.publish(agent)

    page = browser.get("/admin/agents/agentversion/", {"agent__id__exact": str(agent.pk)})

    assert [row.number for row in page.context["cl"].result_list] == [1]
    draft = browser.get(address_of(draft_of(agent), "change"))
    assert draft.headers["Location"] == address_of(agent, "draft")


def test_alias__made_and_moved__has_its_history(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    builders.publish(agent)
    builders.edit(agent, prompt="Now in verse.")
    builders.publish(agent)
    url = address_of(agent, "aliases")

    with audited("alias.moved"):
        browser.post(url, {"name": "production", "version": "2", "expected": ""})
    with audited("alias.moved"):
        browser.post(url, {"name": "production", "version": "1", "expected": "2"})

    page = browser.get(url)
    assert [(alias.name, alias.version.number) for alias in page.context["aliases"]] == [
        ("production", 1)
    ]
    moves = [(move.from_number, move.to_number, move.actor) for move in page.context["moves"]]
    assert moves == [(2, 1, "ada"), (None, 2, "ada")]


def test_alias__moved_by_another_meanwhile__is_not_moved(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    builders.publish(agent)
    builders.edit(agent, prompt="Now in verse.")
    builders.publish(agent)
    url = address_of(agent, "aliases")
    browser.post(url, {"name": "production", "version": "1", "expected": ""})

    with audited(""):
        answer = browser.post(url, {"name": "production", "version": "2", "expected": "2"})

    assert "The alias 'production' points to version 1, not to version 2." in text_of(answer)


@pytest.mark.parametrize(
    "typed",
    [
        {"name": "Not a name", "version": "1"},
        {"name": "", "version": "1"},
        {"name": "production", "version": "9"},
        {"name": "production", "version": "x"},
        {"name": "production"},
        {"name": "production", "version": "1", "expected": "x"},
        {"name": "production", "version": "1", "expected": "9" * 5000},
    ],
)
def test_alias__a_bad_name_or_version__moves_nothing(
    browser: Client, audited: Audited, agent: Agent, typed: dict[str, str]
) -> None:
    builders.publish(agent)

    with audited(""):
        answer = browser.post(address_of(agent, "aliases"), typed)

    assert answer.status_code == 200
    assert answer.context["adminform"].form.errors
    assert not agent.aliases.exists()


@pytest.mark.parametrize("page", ["change", "draft", "history", "delete"])
def test_agent__an_address_with_nul__is_refused(browser: Client, page: str) -> None:
    assert browser.get(f"/admin/agents/agent/a%00b/{page}/").status_code == 400


def test_agent__archived_by_another_meanwhile__is_not_brought_back_by_a_rename(
    browser: Client, agent: Agent
) -> None:
    url = address_of(agent, "settings")
    typed = sent_by(browser.get(url), "initial-archived", name="Renamed")
    update_agent(actor=builders.ACTOR, agent=agent, values={"archived": True})

    browser.post(url, typed)

    agent.refresh_from_db()
    assert agent.name == "Renamed"
    assert agent.archived_at is not None
