"""The pages of evaluation, and the test box's answers, as a person uses them."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from retrieval.admin.test_box import Cancellable
from retrieval.evaluation import start_evaluation
from retrieval.knowledge_bases import find
from retrieval.models import Evaluation, EvaluationQuestion, KnowledgeBase
from tests import builders
from tests.admin.pages import address_of, sent_by, text_of
from tests.endpoint import Endpoint
from tests.worker import wait_until

COVERED = "How long are lamps covered?"


@pytest.fixture(autouse=True)
def time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is, it evaluates a small set at once."""
    defaults: dict[str, Any] = start_evaluation.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "at_once", 60.0)


@pytest.fixture
def base(db: None) -> KnowledgeBase:
    base = builders.base_with()
    builders.rechunk(base, 12)
    builders.build(base)
    return find(base.pk)


def _import(browser: Client, base: KnowledgeBase, name: str, content: str) -> Any:
    page = browser.get(address_of(base, "evaluation_import"))
    typed = sent_by(page, "csrfmiddlewaretoken")
    upload = SimpleUploadedFile(name, content.encode())
    return browser.post(
        address_of(base, "evaluation_import"), {**typed, "file": upload}, follow=True
    )


def test_questions__imported_changed_and_deleted__are_listed(
    browser: Client, base: KnowledgeBase
) -> None:
    page = _import(
        browser,
        base,
        "set.csv",
        f"query,document,page,grade\n{COVERED},warranty.md,3,2\nDo you sell gift cards?,,,",
    )
    assert "2 questions were added" in text_of(page)
    assert "warranty.md , page 3, grade 2" in text_of(page)
    assert "none: nothing here answers it" in text_of(page)

    row = EvaluationQuestion.objects.get(query=COVERED)
    edit = address_of(base, "evaluation_question", row.pk)
    form = browser.get(edit)
    assert sent_by(form, "query")["documents"] == "warranty.md | pages 3 | grade 2"
    typed = sent_by(form, "query", documents="returns.md\nwarranty.md | grade 5 | pages 1; 2")
    browser.post(edit, typed)
    row.refresh_from_db()
    assert [(one["name"], one["pages"], one["grade"]) for one in row.documents] == [
        ("returns.md", None, 1),
        ("warranty.md", [1, 2], 5),
    ]

    browser.post(address_of(base, "evaluation_delete", row.pk))
    assert list(EvaluationQuestion.objects.values_list("query", flat=True)) == [
        "Do you sell gift cards?"
    ]


def test_question__of_an_unknown_document__is_said_at_its_field(
    browser: Client, base: KnowledgeBase
) -> None:
    page = browser.post(
        address_of(base, "evaluation_add"), {"query": COVERED, "documents": "waranty.md"}
    )

    assert "Is no document of this knowledge base" in text_of(page)
    assert "Allowed: warranty.md" in text_of(page)
    assert EvaluationQuestion.objects.count() == 0


def test_import__mistakes__are_listed_by_their_lines(browser: Client, base: KnowledgeBase) -> None:
    page = _import(browser, base, "set.csv", f"query,document\n{COVERED},a.md\nB?,b.md\n")

    assert "rows.2.documents.0.name" in text_of(page)
    assert "rows.3.documents.0.name" in text_of(page)
    assert EvaluationQuestion.objects.count() == 0


def test_evaluation__run_from_the_page__shows_snapshots_side_by_side(
    browser: Client, base: KnowledgeBase
) -> None:
    _import(browser, base, "set.csv", f"query,document\n{COVERED},warranty.md\nGifts?,\n")
    page = browser.get(address_of(base, "evaluation"))
    assert "#2, current: 2 documents, recursive 12/0" in text_of(page)

    result = browser.post(
        address_of(base, "evaluation"),
        {"snapshots": ["2", "1"], "rankings": ["dense"]},
        follow=True,
    )

    assert result.redirect_chain[-1][0] == address_of(
        base, "evaluation_result", Evaluation.objects.get().pk
    )
    shown = text_of(result)
    assert "From #1 dense to #2 dense: 0 lost, 0 gained, 1 as before" in shown
    assert "nDCG@10" in shown
    assert "1.0000" in shown
    assert "Of 1 questions that nothing answers" in shown
    assert "done" in text_of(browser.get(address_of(base, "evaluation")))


def test_evaluation__without_questions_or_snapshots__says_so(
    browser: Client, base: KnowledgeBase
) -> None:
    page = browser.get(address_of(base, "evaluation"))
    refused = browser.post(
        address_of(base, "evaluation"), {"snapshots": ["1"], "rankings": ["dense"]}
    )
    nothing = browser.post(address_of(base, "evaluation"), {"rankings": ["dense"]})

    assert "There are no questions yet." in text_of(page)
    assert "has no evaluation questions yet" in text_of(refused)
    assert "This field is required." in text_of(nothing)


def test_test_box__question__shows_passages_first_and_fetches_the_answer(
    browser: Client, base: KnowledgeBase, endpoint: Endpoint
) -> None:
    endpoint.text = "Two <b>years</b> [1], [9]. Our hotline is in Berlin, day and night."
    typed = {"query": COVERED, "answer": "on"}

    page = browser.post(address_of(base, "test_box"), typed)
    answer = browser.post(address_of(base, "test_box_answer"), typed)

    # The passages are there before the model was asked.
    assert len(endpoint.requests) == 1
    assert f'data-answer-url="{address_of(base, "test_box_answer")}"' in page.content.decode()
    assert "a-model on 127.0.0.1 is writing an answer" in text_of(page)
    shown = answer.content.decode()
    assert '[<a href="#passage-1">1</a>]' in shown
    assert 'id="passage-1"' in page.content.decode()
    assert "Two &lt;b&gt;years&lt;/b&gt;" in shown
    assert "#passage-9" not in shown
    assert "data-finding=" in shown
    assert "<html" not in shown


def test_test_box__answer_not_wanted__asks_no_model(
    browser: Client, base: KnowledgeBase, endpoint: Endpoint
) -> None:
    page = browser.post(address_of(base, "test_box"), {"query": COVERED})

    assert "data-answer-url" not in page.content.decode()
    assert endpoint.requests == []


def test_test_box__without_a_model__says_so_beside_the_passages(
    browser: Client, base: KnowledgeBase, settings: Any
) -> None:
    settings.ANSWER_MODEL = "none"

    page = browser.post(address_of(base, "test_box"), {"query": COVERED, "answer": "on"})

    assert "No answer. Answering is switched off" in text_of(page)
    assert "covered for two years" in text_of(page)


def test_test_box__local_model__is_called_weak(
    browser: Client, base: KnowledgeBase, local_model: None
) -> None:
    typed = {"query": COVERED, "top_k": "1", "now": "1", "answer": "on"}

    page = text_of(browser.post(address_of(base, "test_box"), typed))

    assert "Written by SmolLM2-135M-Instruct" in page
    assert "This small model is weak" in page


def test_test_box__answer_cancelled_from_the_page__ends(
    browser: Client, base: KnowledgeBase, endpoint: Endpoint, settings: Any
) -> None:
    settings.CACHES = {"default": {**settings.CACHES["default"], "KEY_PREFIX": str(uuid.uuid4())}}
    endpoint.delay = settings.ANSWER_TIMEOUT_SECONDS
    token = str(uuid.uuid4())
    url = address_of(base, "test_box_answer")

    def cancel() -> None:
        wait_until(lambda: bool(endpoint.requests))
        Cancellable.of(user, token).cancel()

    user = browser.session["_auth_user_id"]
    thread = threading.Thread(target=cancel)
    thread.start()
    answer = browser.post(url, {"query": COVERED, "token": token})
    thread.join()

    assert "The answer was cancelled." in text_of(answer)
    assert browser.post(url, {"cancel": "1", "token": str(uuid.uuid4())}).status_code == 204


def test_settings__choice_of_a_model__says_that_the_bundled_one_is_english(
    browser: Client, base: KnowledgeBase
) -> None:
    page = text_of(browser.get(address_of(base, "settings")))

    assert "all-MiniLM-L6-v2 is English only" in page
    assert "0.24" in page
