from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from agents.configuration import configuration_of
from agents.drafting import draft_of
from agents.models import Agent
from registry.fields import dump_received
from registry.models import AuditEvent
from retrieval.models import KnowledgeBase
from tests import builders
from tests.admin.conftest import Audited
from tests.admin.pages import address_of, sent_by, text_of

pytestmark = pytest.mark.django_db

VARIABLES: list[dict[str, Any]] = [
    {"type": "string", "name": "region", "values": ["EU", "UK", "US"], "required": True},
    {"name": "customer.tier", "type": "string", "description": "", "example": "gold"},
    {"name": "age", "type": "number", "values": [18, 65.5]},
    {"name": "tags", "type": "list", "values": ["a, b", "c"], "sensitive": False},
]


def _as_text(agent: Agent) -> str:
    return dump_received(configuration_of(draft_of(agent)).as_json())


@pytest.fixture
def base() -> KnowledgeBase:
    return builders.make_base("Returns")


@pytest.fixture
def agent(base: KnowledgeBase) -> Agent:
    """An agent whose draft a client of the API has written in its own way."""
    agent = builders.make_agent("support")
    builders.edit(
        agent,
        prompt="\n Answer.\r\nCite \tyour sources.\n\n",
        model=" some-model ",
        parameters={"z": 1.0, "a": [1e-7, {"é": None}], "stop": ["\r\n"]},
        contextVariables=VARIABLES,
        bindings=[
            {
                "knowledgeBase": str(base.pk),
                "expression": "region == 'EU'\r\nand age > 18",
                "label": " EU ",
                "instruction": "Use for\nreturns.\n",
            },
            {"knowledgeBase": str(base.pk), "enabled": False},
        ],
        tools=[
            builders.rag_tool(base),
            {
                "type": "function",
                "name": "open_ticket",
                "description": "Line 1\r\nLine 2",
                "parameters": {"type": "object", "properties": {"z": {}, "a": {}}},
            },
        ],
    )
    return agent


def test_draft__saved_as_it_is__stays_as_the_api_wrote_it(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    before = _as_text(agent)
    typed = sent_by(browser.get(address_of(agent, "draft")), "revision")

    with audited(""):
        answer = browser.post(address_of(agent, "draft"), typed, follow=True)

    assert "Nothing had changed." in text_of(answer)
    assert _as_text(agent) == before
    assert draft_of(agent).revision == 2


def test_draft__one_member_changed__leaves_the_others_as_they_were(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    before = configuration_of(draft_of(agent))
    typed = sent_by(
        browser.get(address_of(agent, "draft")),
        "revision",
        **{"variables-0-values": "EU, UK, US, CH", "bindings-0-instruction": "Use always."},
    )

    with audited("draft.edited"):
        browser.post(address_of(agent, "draft"), typed)

    after = configuration_of(draft_of(agent))
    assert set(before.differences(after)) == {"contextVariables", "bindings"}
    assert after.context_variables == [
        {**VARIABLES[0], "values": ["EU", "UK", "US", "CH"]},
        *VARIABLES[1:],
    ]
    assert [binding.id for binding in after.bindings] == [b.id for b in before.bindings]
    assert after.bindings[0].expression == "region == 'EU'\r\nand age > 18"
    assert after.bindings[0].instruction == "Use always."


def test_draft__rows_added_ordered_and_removed__are_saved_at_once(
    browser: Client, audited: Audited, agent: Agent, base: KnowledgeBase
) -> None:
    page = browser.post(
        address_of(agent, "draft"),
        {**sent_by(browser.get(address_of(agent, "draft")), "revision"), "add": "bindings"},
    )
    page = browser.post(address_of(agent, "draft"), {**sent_by(page, "revision"), "add": "tools"})
    typed = sent_by(
        page,
        "revision",
        **{
            "bindings-2-knowledge_base": str(base.pk),
            "bindings-2-label": "Third",
            "bindings-2-ORDER": "1",
            "bindings-0-ORDER": "2",
            "bindings-1-DELETE": "on",
            "tools-0-DELETE": "on",
            "tools-2-name": "search_all",
            "tools-2-knowledge_base": str(base.pk),
        },
    )

    with audited("draft.edited"):
        browser.post(address_of(agent, "draft"), typed)

    after = configuration_of(draft_of(agent))
    assert [binding.label for binding in after.bindings] == ["Third", " EU "]
    assert after.bindings[0].enabled
    assert after.bindings[0].expression is None
    assert [tool.name for tool in after.tools] == ["open_ticket", "search_all"]


def test_draft__a_row_added_and_left_empty__is_no_binding(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    page = browser.get(address_of(agent, "draft"))
    for rows in ("variables", "bindings", "tools"):
        page = browser.post(address_of(agent, "draft"), {**sent_by(page, "revision"), "add": rows})

    with audited(""):
        answer = browser.post(address_of(agent, "draft"), sent_by(page, "revision"), follow=True)

    assert "Nothing had changed." in text_of(answer)


def test_draft__adding_a_row__says_nothing_of_errors_and_saves_nothing(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    typed = sent_by(
        browser.get(address_of(agent, "draft")), "revision", parameters="{", prompt="New"
    )

    with audited(""):
        page = browser.post(address_of(agent, "draft"), {**typed, "add": "bindings"})

    assert b"errorlist" not in page.content
    assert sent_by(page, "revision")["prompt"] == "New"


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("bindings-0-expression", "regoin == 'EU'", "did you mean `region`?"),
        ("bindings-0-expression", "region ==", ""),
        ("bindings-0-expression", "__import__('os')", ""),
        ("bindings-0-expression", " ", ""),
        ("bindings-0-knowledge_base", "", "This field is required."),
        ("bindings-0-label", "x" * 201, "Is over 200 characters."),
        ("tools-0-name", "no spaces", "Must start with a letter"),
        ("tools-1-name", "search", "Stands twice in tools."),
        ("tools-0-knowledge_base", "", "Choose the knowledge base that it searches."),
        ("tools-0-parameters", "{}", "Does not belong to a rag tool."),
        ("tools-1-parameters", "[]", "Must be a JSON object."),
        ("tools-1-parameters", "{'a': 1}", "This is not JSON"),
        ("variables-0-name", "a b", ""),
        ("variables-0-values", '[1, "EU"]', "Must be of type string"),
        ("variables-2-values", "18, many", "This is not JSON"),
        ("variables-2-example", "17", "allowed: 18, 65.5"),
        ("parameters", "[]", "Must be a JSON object."),
        ("parameters", '{"a": 1, "a": 2}', "stands twice"),
        ("parameters", '{"a": NaN}', "NaN is not a JSON number."),
        ("model", "x" * 201, "Is over 200 characters."),
    ],
)
def test_draft__a_bad_value__is_said_at_its_field_and_nothing_saved(
    browser: Client, audited: Audited, agent: Agent, field: str, value: str, sentence: str
) -> None:
    before = _as_text(agent)
    typed = sent_by(browser.get(address_of(agent, "draft")), "revision", **{field: value})

    with audited(""):
        page = browser.post(address_of(agent, "draft"), typed)

    errors = _errors_at(page, field)
    assert len(errors) >= 1
    assert sentence in errors[0]
    assert "Nothing is saved yet." in text_of(page)
    assert _as_text(agent) == before
    assert sent_by(page, "revision")[field] == value


def _errors_at(page: Any, field: str) -> list[str]:
    editor = page.context["editor"]
    rows, _, rest = field.partition("-")
    if not rest:
        return list(editor.form.errors.get(field, []))
    position, _, name = rest.partition("-")
    return list(getattr(editor, rows).forms[int(position)].errors.get(name, []))


def test_draft__several_bad_expressions__are_all_marked(browser: Client, agent: Agent) -> None:
    typed = sent_by(
        browser.get(address_of(agent, "draft")),
        "revision",
        **{"bindings-0-expression": "nope == 1", "bindings-1-expression": "region =="},
    )

    page = browser.post(address_of(agent, "draft"), typed)

    assert _errors_at(page, "bindings-0-expression")
    assert _errors_at(page, "bindings-1-expression")


def test_draft__edited_by_another_meanwhile__is_not_saved_and_says_so(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    typed = sent_by(browser.get(address_of(agent, "draft")), "revision", prompt="Mine")
    builders.edit(agent, prompt="Theirs")

    with audited(""):
        page = browser.post(address_of(agent, "draft"), typed)

    said = text_of(page)
    assert "Someone else edited the draft since you opened this page." in said
    assert "It is at revision 3, you started from 2." in said
    assert draft_of(agent).prompt == "Theirs"
    assert sent_by(page, "revision")["prompt"] == "Mine"


def test_draft__saved_over_the_others_edit__is_what_was_typed(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    typed = sent_by(browser.get(address_of(agent, "draft")), "revision", prompt="Mine")
    builders.edit(agent, prompt="Theirs", bindings=[], contextVariables=[])
    page = browser.post(address_of(agent, "draft"), typed)

    with audited("draft.edited"):
        browser.post(address_of(agent, "draft"), {**sent_by(page, "revision"), "over": "3"})

    after = configuration_of(draft_of(agent))
    assert after.prompt == "Mine"
    assert [binding.label for binding in after.bindings] == [" EU ", "Returns"]
    assert after.context_variables == VARIABLES


def test_draft__moved_on_once_more__is_not_saved_over(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    typed = sent_by(browser.get(address_of(agent, "draft")), "revision", prompt="Mine")
    builders.edit(agent, prompt="Theirs")
    page = browser.post(address_of(agent, "draft"), typed)
    builders.edit(agent, prompt="Theirs again")

    with audited(""):
        browser.post(address_of(agent, "draft"), {**sent_by(page, "revision"), "over": "3"})

    assert draft_of(agent).prompt == "Theirs again"


def test_draft__of_an_archived_agent__cannot_be_saved(browser: Client, agent: Agent) -> None:
    typed = sent_by(browser.get(address_of(agent, "draft")), "revision", prompt="Mine")
    settings = address_of(agent, "settings")
    browser.post(settings, sent_by(browser.get(settings), "name", archived="on"))

    page = browser.post(address_of(agent, "draft"), typed)

    assert "The agent 'support' is archived." in text_of(page)


def test_draft__an_expression_that_is_never_true__is_remarked(
    browser: Client, base: KnowledgeBase
) -> None:
    agent = builders.make_agent("other")
    builders.edit(
        agent,
        accept_warnings=True,
        contextVariables=VARIABLES[:1],
        bindings=[{"knowledgeBase": str(base.pk), "expression": "region == 'FR'"}],
    )

    page = browser.get(address_of(agent, "draft"))

    assert "can never be true" in text_of(page)
    assert "hardly meant" not in text_of(page)


def test_draft__an_expression_that_is_hardly_meant__is_saved_once_the_box_is_ticked(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    typed = sent_by(
        browser.get(address_of(agent, "draft")),
        "revision",
        **{"bindings-0-expression": "region == 'FR'"},
    )

    with audited(""):
        page = browser.post(address_of(agent, "draft"), typed)
    assert "accept_warnings" not in sent_by(page, "revision")
    with audited("draft.edited"):
        browser.post(
            address_of(agent, "draft"), {**sent_by(page, "revision"), "accept_warnings": "on"}
        )

    assert "Some expressions are valid and hardly meant" in text_of(page)
    assert "`region` is never `FR`" in _errors_at(page, "bindings-0-expression")[0]
    assert configuration_of(draft_of(agent)).bindings[0].expression == "region == 'FR'"
    after = AuditEvent.objects.latest("id").after
    assert after is not None
    assert "The expression can never be true." in after["acceptedWarnings"]


def test_draft__samples_and_coverage_errors__are_edited_with_the_rest(
    browser: Client, audited: Audited, agent: Agent
) -> None:
    page = browser.post(
        address_of(agent, "draft"),
        {**sent_by(browser.get(address_of(agent, "draft")), "revision"), "add": "samples"},
    )
    typed = sent_by(
        page,
        "revision",
        **{
            "samples-0-name": "A Briton",
            "samples-0-context": '{"z": 1.0, "a": {"b": null}}',
            "coverage_errors": "on",
        },
    )

    with audited("draft.edited"):
        browser.post(address_of(agent, "draft"), typed)
    again = sent_by(browser.get(address_of(agent, "draft")), "revision")
    with audited(""):
        browser.post(address_of(agent, "draft"), again)
    wrong = browser.post(address_of(agent, "draft"), {**again, "samples-0-context": "[1]"})

    after = configuration_of(draft_of(agent))
    sample = {"name": "A Briton", "context": {"z": 1.0, "a": {"b": None}}}
    assert dump_received(after.sample_contexts) == dump_received([sample])
    assert after.coverage_errors
    assert _errors_at(wrong, "samples-0-context") == ["Must be a JSON object."]


@pytest.mark.parametrize("count", ["x", "-1", "0", "1", "99999999999"])
@pytest.mark.parametrize("adds", ["", "bindings"])
def test_draft__broken_row_counters__are_an_error_and_delete_nothing(
    browser: Client, audited: Audited, agent: Agent, count: str, adds: str
) -> None:
    typed = sent_by(browser.get(address_of(agent, "draft")), "revision")

    with audited(""):
        page = browser.post(
            address_of(agent, "draft"), {**typed, "bindings-TOTAL_FORMS": count, "add": adds}
        )

    assert page.status_code == 200
    assert draft_of(agent).bindings.count() == 2


@pytest.mark.parametrize("count", ["-1", "0"])
@pytest.mark.parametrize("rows", ["variables", "bindings", "tools", "samples"])
def test_draft__rows_said_to_be_new__are_those_of_the_draft(
    browser: Client, audited: Audited, agent: Agent, rows: str, count: str
) -> None:
    builders.edit(agent, sampleContexts=[{"name": "One", "context": {"region": "EU"}}])
    typed = sent_by(browser.get(address_of(agent, "draft")), "revision")
    assert typed[f"{rows}-INITIAL_FORMS"] != "0"
    before = configuration_of(draft_of(agent))

    with audited(""):
        page = browser.post(address_of(agent, "draft"), {**typed, f"{rows}-INITIAL_FORMS": count})

    assert page.status_code == 302
    assert configuration_of(draft_of(agent)) == before
