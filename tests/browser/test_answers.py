"""The test box and evaluation at a browser, with JavaScript and without."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests import builders
from tests.browser.conftest import Surfer
from tests.endpoint import Endpoint

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def base_id(transactional_db: None) -> str:
    """Built before Playwright starts: in its event loop Django would open another connection."""
    return str(builders.base_with("Returns").pk)


def test_answers__asked_and_cancelled__come_after_the_passages(
    base_id: str, endpoint: Endpoint, surfer: Surfer, request: pytest.FixtureRequest
) -> None:
    page = surfer.page
    with_script = "no javascript" not in request.node.name
    surfer.open(f"/admin/retrieval/knowledgebase/{base_id}/test-box/")
    page.fill("#id_query", "How long are lamps covered?")
    endpoint.text = "Lamps are covered for two years [1]. Our hotline is in Berlin [8]."

    surfer.press("Ask")
    expect(page.locator("#candidates")).to_contain_text("covered for two years")
    if not with_script:
        expect(page.locator("[data-answer]")).to_have_count(0)
        surfer.press("Write the answer now")
    expect(page.locator("[data-answer]")).to_contain_text("Written by a-model")
    expect(page.locator("[data-answer] a")).to_have_text("1")
    expect(page.locator("[data-finding]")).to_contain_text("Our hotline is in Berlin")
    expect(page.locator("#candidates")).to_contain_text("covered for two years")

    if with_script:
        endpoint.delay = 240
        surfer.press("Ask")
        expect(page.locator("[data-waiting]")).to_be_visible()
        expect(page.locator("#candidates")).to_contain_text("covered for two years")
        surfer.press("Cancel")
        expect(page.locator("[data-notice]")).to_contain_text("No answer")
    assert surfer.complaints == []


def test_evaluation__set_imported_and_run__shows_the_result(
    base_id: str, surfer: Surfer, tmp_path: Path
) -> None:
    page = surfer.page
    questions = tmp_path / "set.csv"
    questions.write_text(
        "query,document\nHow long are lamps covered?,warranty.md\n"
        "Who pays the postage of a return?,returns.md\nDo you sell gift cards?,\n"
    )
    surfer.open(f"/admin/retrieval/knowledgebase/{base_id}/change/")
    surfer.tab("Evaluation")
    page.get_by_role("link", name="Import questions").click()
    page.set_input_files("#id_file", questions)
    surfer.press("Import")
    expect(page.locator("#questions")).to_contain_text("Do you sell gift cards?")
    page.get_by_label("reranked").check()
    surfer.press("Evaluate")

    expect(page.locator("#scores")).to_contain_text("1.0000")
    expect(page.locator("#content")).to_contain_text("From #1 dense to #1 reranked")
    assert surfer.complaints == []
