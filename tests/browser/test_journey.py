from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Surfer
from tests.builders import RETURNS, WARRANTY

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_journey__by_clicking_alone__leads_from_files_to_a_published_version(
    surfer: Surfer, tmp_path: Path
) -> None:
    page = surfer.page
    (tmp_path / "returns.md").write_text(RETURNS)
    (tmp_path / "warranty.md").write_text(WARRANTY)
    (tmp_path / "broken.pdf").write_text("%PDF-1.4 nothing")

    # a knowledge base with documents
    surfer.open("/admin/retrieval/knowledgebase/add/")
    page.fill("#id_name", "Returns")
    page.fill("#id_size", "300")
    surfer.press("Create")
    expect(page.locator(".field-size .errorlist")).to_contain_text("from 1 to 254")
    page.fill("#id_size", "100")
    surfer.press("Create")
    page.set_input_files("#id_uploads", sorted(tmp_path.iterdir()))
    surfer.press("Upload")
    expect(page.locator("table.registry-table .registry-tag.good")).to_have_count(3)
    surfer.tab("Overview")
    expect(page.locator("[data-done]")).to_be_visible()
    expect(page.locator("#content")).to_contain_text("2 documents, ")
    expect(page.locator("#content")).to_contain_text("1 document failed")
    expect(page.get_by_role("link", name="broken.pdf")).to_be_visible()

    # what it finds
    surfer.tab("Test box")
    page.fill("#id_query", "How many days do I have to send a parcel back?")
    page.fill("#id_confidence_threshold", "0.5")
    surfer.press("Ask")
    expect(page.locator("#candidates")).to_contain_text("Send the parcel back within 30 days")
    expect(page.locator(".registry-floor")).to_contain_text("The floor of 0.5 cuts here")

    # an agent with a binding and a tool
    surfer.open("/admin/agents/agent/add/")
    page.fill("#id_slug", "support")
    surfer.press("Create")
    page.fill("#id_prompt", "Answer from the passages.\n\nCite them.")
    surfer.press("Add a variable")
    page.fill("#id_variables-0-name", "region")
    page.fill("#id_variables-0-values", "EU, UK, US")
    surfer.press("Add a binding")
    page.select_option("#id_bindings-0-knowledge_base", label="Returns")
    page.fill("#id_bindings-0-expression", 'regoin == "EU"')
    surfer.press("Add a tool")
    page.fill("#id_tools-0-name", "search_returns")
    page.select_option("#id_tools-0-knowledge_base", label="Returns")
    surfer.press("Save the draft")
    expect(page.locator("#bindings .errorlist")).to_contain_text("did you mean `region`?")
    page.fill("#id_bindings-0-expression", 'region == "EU"')
    surfer.press("Save the draft")
    expect(page.locator(".messagelist")).to_contain_text("The draft is saved as revision 2.")
    surfer.press("Save the draft")
    expect(page.locator(".messagelist")).to_contain_text("Nothing had changed.")

    # which knowledge bases apply
    surfer.tab("Try a context")
    surfer.press("Which knowledge bases apply?")
    expect(page.locator("#decisions")).to_contain_text("applies TRUE")
    page.fill("#id_context", '{"region": "UK"}')
    surfer.press("Which knowledge bases apply?")
    expect(page.locator("#decisions")).to_contain_text("does not apply FALSE")

    # a version, and an alias that points to it
    surfer.tab("Publish")
    page.fill("#id_notes", "The first one.")
    surfer.press("Publish as version 1")
    expect(page.locator(".messagelist")).to_contain_text("Version 1 is published.")
    expect(page.locator("#content")).to_contain_text("Version 1: published, never changes")
    expect(page.locator("#content input[type=text], #content textarea")).to_have_count(0)
    surfer.open("/admin/agents/agent/support/aliases/")
    page.fill("#id_name", "production")
    surfer.press("Create the alias")
    expect(page.get_by_role("row", name="production – version 1 ada")).to_be_visible()

    # a change that the version does not see
    surfer.open("/admin/retrieval/document/")
    page.get_by_role("link", name="returns.md").click()
    page.get_by_role("link", name="Delete").click()
    surfer.press("Yes, delete it")
    expect(page.locator(".messagelist")).to_contain_text("Deleted returns.md")
    surfer.tab("Overview")
    expect(page.locator("#content")).to_contain_text("1 document, ")
    expect(page.locator("#content")).to_contain_text("support v1")

    # a key, shown once
    surfer.open("/admin/registry/apikey/add/")
    page.fill("#id_name", "shop")
    surfer.press("Create the key")
    expect(page.locator("#key")).to_contain_text("reg_")

    assert surfer.complaints == []
