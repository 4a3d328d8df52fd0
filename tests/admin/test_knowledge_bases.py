from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django.fixtures import Settings

from registry.models import AuditEvent
from retrieval.indexing import start_build
from retrieval.knowledge_bases import find, update_knowledge_base
from retrieval.models import Document, KnowledgeBase
from tests import builders
from tests.admin.conftest import Audited
from tests.admin.pages import address_of, sent_by, text_of
from tests.builders import RETURNS, WARRANTY

pytestmark = pytest.mark.django_db

ADD = "/admin/retrieval/knowledgebase/add/"


def _files(**texts: str | bytes) -> list[SimpleUploadedFile]:
    return [
        SimpleUploadedFile(
            name.replace("__", "."), text.encode() if isinstance(text, str) else text
        )
        for name, text in texts.items()
    ]


def test_creating__by_the_form__makes_a_base_and_leads_to_its_upload(
    browser: Client, audited: Audited
) -> None:
    typed = sent_by(browser.get(ADD), "strategy", name="Returns", size="120", default_top_k="7")

    with audited("knowledge_base.created"):
        answer = browser.post(ADD, typed)

    base = KnowledgeBase.objects.get(name="Returns")
    assert answer.headers["Location"] == address_of(base, "upload")
    assert (base.chunk_size, base.chunk_overlap, base.default_top_k) == (120, 20, 7)
    assert base.similarity_threshold is None
    assert base.settings_mode == "recorded"


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("size", "255", "Must be a whole number from 1 to 254."),
        ("overlap", "200", "Must be a whole number from 0 to 199 (less than size)."),
        ("default_top_k", "51", "Must be a whole number from 1 to 50."),
        ("similarity_threshold", "1.5", "Must be a number from 0 to 1."),
        ("max_context_length", "499", "Must be a whole number from 500 to 16000."),
        ("name", "x" * 201, "Is over 200 characters."),
    ],
)
def test_creating__out_of_range__says_so_at_the_field_and_makes_nothing(
    browser: Client, audited: Audited, field: str, value: str, sentence: str
) -> None:
    typed = sent_by(browser.get(ADD), "strategy", **{"name": "Returns", field: value})

    with audited(""):
        answer = browser.post(ADD, typed)

    assert answer.status_code == 200
    assert answer.context["adminform"].form.errors[field] == [sentence]
    assert not KnowledgeBase.objects.exists()


def test_creating__a_name_that_is_taken__says_so(browser: Client) -> None:
    builders.make_base("Returns")
    typed = sent_by(browser.get(ADD), "strategy", name="Returns")

    answer = browser.post(ADD, typed)

    assert list(answer.context["adminform"].form.errors) == ["name"]
    assert KnowledgeBase.objects.count() == 1


def test_settings__saved_as_they_are__change_nothing(browser: Client, audited: Audited) -> None:
    base = builders.make_base(settings={"similarityThreshold": 0.25})
    url = address_of(base, "settings")

    with audited(""):
        answer = browser.post(url, sent_by(browser.get(url), "strategy"))

    assert answer.status_code == 302
    assert find(base.pk).content_revision == base.content_revision


def test_settings__another_chunking__is_not_applied_until_built(
    browser: Client, audited: Audited
) -> None:
    base = builders.base_with()
    url = address_of(base, "settings")

    with audited("knowledge_base.updated"):
        browser.post(url, sent_by(browser.get(url), "strategy", size="40", overlap="0"))

    waiting = text_of(browser.get(address_of(base, "change")))
    assert "Snapshot 2 is waiting for a worker." in waiting
    assert "Chunking recursive, 40 tokens, overlap 0 is not yet applied" in waiting
    assert "Meanwhile snapshot 1 is searched." in waiting
    builders.build(find(base.pk))
    built = text_of(browser.get(address_of(base, "change")))
    assert "not yet applied" not in built
    assert "No build is running. Snapshot 2 is searched" in built


def test_settings__each_mode__says_which_settings_act(browser: Client) -> None:
    base = builders.make_base()
    recorded = browser.get(address_of(base, "change"))
    url = address_of(base, "settings")

    browser.post(url, sent_by(browser.get(url), "strategy", settings_mode="applied"))

    applied = browser.get(address_of(base, "change"))
    assert [one["effect"] for one in recorded.context["standing"].settings] == [
        "read",
        "recorded",
        "recorded",
        "recorded",
        "recorded",
    ]
    assert [one["effect"] for one in applied.context["standing"].settings] == ["read"] * 5


def test_settings__reranking_that_cannot_run__is_refused_at_the_field(
    browser: Client, settings: Settings
) -> None:
    settings.RERANK_MODEL = "no-such-reranker"
    base = builders.make_base()
    url = address_of(base, "settings")

    answer = browser.post(
        url,
        sent_by(browser.get(url), "strategy", settings_mode="applied", rerank_enabled="on"),
    )

    assert "rerank_enabled" in answer.context["adminform"].form.errors
    assert find(base.pk).settings_mode == "recorded"


def test_upload__several_files__are_each_one_document_and_one_audit_row(browser: Client) -> None:
    base = builders.make_base()

    answer = browser.post(
        address_of(base, "upload"),
        {"uploads": _files(returns__md=RETURNS, warranty__md=WARRANTY), "folder": "eu"},
    )

    assert [one.kind for one, _ in answer.context["outcomes"]] == ["created", "created"]
    names = Document.objects.order_by("name").values_list("name", flat=True)
    assert list(names) == ["eu/returns.md", "eu/warranty.md"]
    rows = AuditEvent.objects.filter(action="document.created", actor="ada", actor_kind="user")
    assert rows.count() == 2


def test_upload__one_bad_file__stops_no_other(browser: Client) -> None:
    base = builders.make_base()
    picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0"

    answer = browser.post(
        address_of(base, "upload"),
        {"uploads": _files(a__md="", b__png=picture, c__md=RETURNS)},
    )

    outcomes = answer.context["outcomes"]
    assert [one.kind for one, _ in outcomes] == ["failed", "failed", "created"]
    assert "empty" in outcomes[0][1]
    assert "PNG picture" in outcomes[1][1]
    assert list(Document.objects.values_list("name", flat=True)) == ["c.md"]


def test_upload__over_the_limit__is_refused(browser: Client, settings: Any) -> None:
    settings.MAX_UPLOAD_BYTES = 1000
    base = builders.make_base()

    answer = browser.post(address_of(base, "upload"), {"uploads": _files(a__md="x" * 1001)})

    [(outcome, sentence)] = answer.context["outcomes"]
    assert outcome.kind == "failed"
    assert "The file has 1,001 bytes; allowed are 1,000." in sentence


def test_upload__a_name_that_is_taken__is_replaced_only_when_asked_for(
    browser: Client, audited: Audited
) -> None:
    base = builders.make_base()
    document = builders.add_text(base, "returns.md", RETURNS)
    url = address_of(base, "upload")

    with audited(""):
        same = browser.post(url, {"uploads": _files(returns__md=RETURNS)})
        refused = browser.post(url, {"uploads": _files(returns__md=WARRANTY)})
    with audited("document.replaced"):
        replaced = browser.post(url, {"uploads": _files(returns__md=WARRANTY), "replace": "on"})

    kinds = [one.context["outcomes"][0][0].kind for one in (same, refused, replaced)]
    assert kinds == ["unchanged", "failed", "replaced"]
    assert document.revisions.count() == 2


@pytest.mark.parametrize(
    "typed", [{}, {"metadata": '["a"]'}, {"metadata": '{"a": NaN}'}, {"metadata": "{"}]
)
def test_upload__without_files_or_with_bad_metadata__adds_nothing(
    browser: Client, audited: Audited, typed: dict[str, str]
) -> None:
    base = builders.make_base()
    files = {"uploads": _files(a__md=RETURNS)} if typed else {}

    with audited(""):
        answer = browser.post(address_of(base, "upload"), {**files, **typed})

    assert answer.status_code == 200
    assert not Document.objects.exists()


def test_overview__a_document_that_cannot_be_read__is_listed_with_the_reason(
    browser: Client,
) -> None:
    base = builders.base_with()
    browser.post(address_of(base, "upload"), {"uploads": _files(broken__pdf=b"%PDF-1.4\nnothing")})
    builders.build(find(base.pk))

    page = browser.get(address_of(base, "change"))

    failed = page.context["standing"].failures
    assert [one.document.name for one in failed] == ["broken.pdf"]
    assert failed[0].state.error["message"] in text_of(page)
    assert "1 document failed" in text_of(page)


def test_progress_panel__after_and_before_a_build__says_whether_it_is_done(
    browser: Client,
) -> None:
    base = builders.make_base()
    builders.add_text(base, "returns.md", RETURNS)
    due = browser.get(address_of(base, "build"))
    builders.build(base)

    done = browser.get(address_of(base, "build"))

    assert b"data-done" not in due.content
    assert b"data-done" in done.content
    assert b"<html" not in done.content
    assert "no-store" in done.headers["Cache-Control"]


def test_test_box__a_question__shows_where_the_floor_cuts(browser: Client) -> None:
    base = builders.base_with()
    url = address_of(base, "test_box")

    page = browser.post(
        url,
        {"query": "How many days do I have to send a parcel back?", "confidence_threshold": "0.5"},
    )

    answer = page.context["answer"]
    fates = [row.fate for row in answer.rows]
    assert answer.kept >= 1
    assert fates == ["kept"] * answer.kept + ["floor"] * (len(fates) - answer.kept)
    assert answer.cut_before == answer.kept + 1
    said = text_of(page)
    assert "The floor of 0.5 cuts here" in said
    assert "0.82 is about what you asked" in said
    applied = {name: source for name, _, source in answer.applied}
    assert applied["Confidence threshold (the floor)"] == "this question"
    assert applied["Top K"] == "the knowledge base's settings"


def test_test_box__an_earlier_snapshot__is_asked_as_it_was(browser: Client) -> None:
    base = builders.base_with()
    builders.add_text(base, "new.md", "# New\n\nA page about aardvarks in the garden.\n")
    builders.build(find(base.pk))
    asked = {"query": "aardvarks in the garden", "top_k": "1", "confidence_threshold": "0"}

    now = browser.post(address_of(base, "test_box"), asked).context["answer"]
    before = browser.post(address_of(base, "test_box"), {**asked, "snapshot": "1"}).context[
        "answer"
    ]

    assert (now.snapshot, before.snapshot) == (2, 1)
    assert now.rows[0].passage["document"]["name"] == "new.md"
    assert before.rows[0].passage["document"]["name"] != "new.md"


@pytest.mark.parametrize(
    ("field", "value"),
    [("query", ""), ("top_k", "0"), ("top_k", "51"), ("confidence_threshold", "1.5")],
)
def test_test_box__a_bad_value__is_said_at_its_field(
    browser: Client, field: str, value: str
) -> None:
    base = builders.base_with()

    page = browser.post(address_of(base, "test_box"), {"query": "parcels", field: value})

    assert list(page.context["adminform"].form.errors) == [field]
    assert page.context["answer"] is None


def test_test_box__no_snapshot_yet__says_so(browser: Client) -> None:
    base = builders.make_base("Empty")

    page = browser.post(address_of(base, "test_box"), {"query": "parcels"})

    assert "Empty has no ready snapshot yet." in text_of(page)


def test_building_again__by_the_button__asks_for_a_build(browser: Client, audited: Audited) -> None:
    base = builders.base_with()

    with audited("knowledge_base.reindexed"):
        browser.post(address_of(base, "reindex"))

    assert "Snapshot 2 is waiting for a worker." in text_of(browser.get(address_of(base, "change")))


def test_deleting__one_that_nobody_holds__takes_everything(
    browser: Client, audited: Audited
) -> None:
    base = builders.base_with()
    asked = browser.get(address_of(base, "delete"))

    with audited("knowledge_base.deleted"):
        browser.post(address_of(base, "delete"))

    assert "This cannot be undone." in text_of(asked)
    assert not KnowledgeBase.objects.exists()


def test_deleting__one_in_use__is_refused_naming_who_holds_it(
    browser: Client, audited: Audited
) -> None:
    base = builders.base_with()
    builders.published(base, slug="support")

    with audited(""):
        answer = browser.post(address_of(base, "delete"), follow=True)

    assert "is in use by support v1, draft of support" in text_of(answer)
    assert KnowledgeBase.objects.filter(pk=base.pk).exists()


def test_snapshot__a_running_build__can_be_cancelled(browser: Client, audited: Audited) -> None:
    base = builders.make_base()
    builders.add_text(base, "returns.md", RETURNS)
    snapshot = start_build(base.pk)
    assert snapshot is not None

    with audited("snapshot.cancelled"):
        browser.post(address_of(snapshot, "cancel"))

    snapshot.refresh_from_db()
    assert snapshot.state == "cancelled"
    assert "Snapshot 1 cancelled." in text_of(browser.get(address_of(base, "change")))


def test_list__more_bases__costs_no_more_queries(browser: Client) -> None:
    url = reverse("admin:retrieval_knowledgebase_changelist")
    builders.base_with()
    browser.get(url)
    with CaptureQueriesContext(connection) as few:
        browser.get(url)
    for _ in range(3):
        builders.make_base()

    with CaptureQueriesContext(connection) as many:
        page = browser.get(url)

    assert len(many) == len(few)
    assert "up to date" in text_of(page)


def test_overview__newer_extractor__says_so_and_reads_anew_when_asked(
    browser: Client, audited: Audited, settings: Any, tmp_path: Path
) -> None:
    settings.OCR = "off"
    base = builders.base_with()
    assert "Newer extractor available" not in text_of(browser.get(address_of(base, "change")))
    (tmp_path / "eng.traineddata").write_bytes(b"data of another engine")
    settings.OCR, settings.OCR_DATA_DIR = "auto", str(tmp_path)

    page = text_of(browser.get(address_of(base, "change")))
    with audited("knowledge_base.reindexed"):
        browser.post(address_of(base, "reindex"), {"reextract": "Read them anew"})
    builders.build(find(base.pk))

    assert "Newer extractor available. 2 documents were read by another version" in page
    assert "Newer extractor available" not in text_of(browser.get(address_of(base, "change")))


def test_settings__preview_of_the_chunks__shows_them_and_saves_nothing(
    browser: Client, audited: Audited
) -> None:
    base = builders.base_with()
    url = address_of(base, "settings")
    form = sent_by(browser.get(url), "size")

    with audited(""):
        page = browser.post(
            url,
            {
                **form,
                "size": "12",
                "overlap": "3",
                "preview_document": "warranty.md",
                "_preview": "Preview the chunks",
            },
        )

    preview = page.context["preview"]
    assert preview.document.name == "warranty.md"
    assert (preview.figures["chunks"] > 3, preview.figures["currentChunks"]) == (True, 1)
    assert "now 1 are searched" in text_of(page)
    assert "Lamps are covered for two years" in text_of(page)
    assert find(base.pk).chunk_size == 200


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"preview_document": "other.md"}, "preview_document"),
        ({"preview_document": "new.md"}, "preview_document"),
        ({"size": "999"}, "size"),
    ],
)
def test_settings__preview_that_cannot_be__says_why_at_the_field(
    browser: Client, typed: dict[str, str], field: str
) -> None:
    base = builders.base_with()
    builders.add_text(base, "new.md", "# Not read yet")
    url = address_of(base, "settings")

    page = browser.post(url, {**sent_by(browser.get(url), "size"), **typed, "_preview": "1"})

    forms = page.context["adminform"].form, page.context["preview_fields"].form
    assert [list(form.errors) for form in forms if form.errors] == [[field]]
    assert page.context["preview"] is None


def test_settings__changed_by_another_meanwhile__keep_what_this_page_did_not_change(
    browser: Client,
) -> None:
    base = builders.base_with()
    url = address_of(base, "settings")
    typed = sent_by(browser.get(url), "strategy", name="Renamed", rerank_enabled="on")
    chunking = {"strategy": "markdown", "size": 77, "overlap": 7}
    update_knowledge_base(
        actor=builders.ACTOR,
        knowledge_base_id=base.pk,
        values={"chunking": chunking, "settings": {"defaultTopK": 9}},
    )

    answer = browser.post(url, typed)

    assert answer.status_code == 302
    base.refresh_from_db()
    assert (base.name, base.rerank_enabled) == ("Renamed", True)
    assert (base.chunking_strategy, base.chunk_size, base.chunk_overlap) == ("markdown", 77, 7)
    assert base.default_top_k == 9
