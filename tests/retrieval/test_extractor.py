"""How an installation reads documents: with or without OCR, and anew on request only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retrieval import extractor
from retrieval.build_control import reindex
from retrieval.document_states import document_states
from retrieval.documents import Upload, add_document, extracted_segments
from retrieval.encoders import encoder_for
from retrieval.extraction import ExtractionFailed, installed_ocr
from retrieval.extractor import installed_recipe, read_by_another
from retrieval.indexing import start_build
from retrieval.knowledge_bases import find
from retrieval.models import Document, Extraction, IndexSnapshot, KnowledgeBase
from tests import builders
from tests.retrieval import documents

pytestmark = pytest.mark.django_db

TESSERACT = installed_ocr("eng")
needs_tesseract = pytest.mark.skipif(
    TESSERACT is None, reason="tesseract's English language data are not installed"
)


def _add(base: KnowledgeBase, name: str, content: bytes) -> Document:
    upload = Upload(name=name, content=content)
    return add_document(actor=builders.ACTOR, base=base, upload=upload)[0]


def _state(document: Document) -> Any:
    return document_states([document])[document.pk]


def _other_extractor(settings: Any, folder: Path) -> None:
    """Make the installed recipe another one: OCR with language data of its own."""
    (folder / "eng.traineddata").write_bytes(b"no such engine reads this")
    settings.OCR, settings.OCR_DATA_DIR = "auto", str(folder)


@needs_tesseract
def test_scanned_document__with_tesseract__is_read_and_says_how(settings: Any) -> None:
    settings.OCR = "auto"
    base = builders.make_base()
    scanned = _add(base, "scan.pdf", documents.scan("Parcels are returned\nwithin thirty days", ""))

    builders.build(find(base.pk))

    state = _state(scanned)
    assert state.status == "indexed", state.error
    assert "Read by OCR: page 1." in state.notices
    first, second = extracted_segments(scanned)
    assert (first["page"], " ".join(first["text"].split())) == (
        1,
        "Parcels are returned within thirty days",
    )
    assert second["text"] == "This page was written, not scanned."
    assert f"ocr:tesseract:eng:{TESSERACT.name.rpartition(':')[2] if TESSERACT else ''}" in (
        Extraction.objects.get().recipe
    )


def test_scanned_document__without_ocr__says_which_pages_have_no_text(settings: Any) -> None:
    settings.OCR = "off"
    base = builders.make_base()
    scanned = _add(base, "scan.pdf", documents.scan("One", "Two", "Three"))
    mixed = _add(base, "mixed.pdf", documents.scan("", "Two"))

    builders.build(find(base.pk))

    assert _state(scanned).error == {
        "code": "extraction.no_text",
        "message": "No text on pages 1–3: scanned?",
    }
    assert _state(mixed).status == "indexed"
    assert _state(mixed).notices == ["No text on page 2: scanned?"]


def test_scanned_document__where_the_engine_fails__is_read_as_without_it(
    settings: Any, tmp_path: Path
) -> None:
    _other_extractor(settings, tmp_path)
    base = builders.make_base()
    mixed = _add(base, "mixed.pdf", documents.scan("", "Two"))

    builders.build(find(base.pk))

    assert (_state(mixed).status, _state(mixed).notices) == (
        "indexed",
        ["No text on page 2: scanned?"],
    )


def test_ocr__languages_of_which_some_are_there__uses_these(tmp_path: Path) -> None:
    (tmp_path / "deu.traineddata").write_bytes(b"x")

    found = installed_ocr("eng+deu", str(tmp_path))

    assert found is not None
    assert found.languages == "deu"
    assert installed_ocr("fra", str(tmp_path)) is None


def test_newer_extractor__of_indexed_documents__changes_nothing_by_itself(
    settings: Any, tmp_path: Path
) -> None:
    settings.OCR = "off"
    base = builders.base_with()
    assert read_by_another([base]) == {}
    before = installed_recipe()

    _other_extractor(settings, tmp_path)

    assert installed_recipe() != before
    assert read_by_another([base]) == {base.pk: 2}
    assert start_build(base.pk) is None
    reindex(actor=builders.ACTOR, base=base)
    builders.build(base)
    assert set(Extraction.objects.values_list("recipe", flat=True)) == {before}


def test_newer_extractor__asked_to_read_anew__reads_each_document_and_embeds_nothing_equal(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.OCR = "off"
    base = builders.base_with()
    _other_extractor(settings, tmp_path)

    def embed(*_: object) -> None:
        raise AssertionError("a text was embedded that is known")

    monkeypatch.setattr(type(encoder_for(base.model.name)), "encode_passages", embed)
    reindex(actor=builders.ACTOR, base=base, reextract=True)
    snapshot = builders.build(base)

    assert snapshot.state == "unchanged"
    assert Extraction.objects.filter(recipe=installed_recipe(), status="sealed").count() == 2
    assert read_by_another([find(base.pk)]) == {}


def test_newer_extractor__that_fails_on_a_document__leaves_the_earlier_reading(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.OCR = "off"
    base = builders.base_with()
    digest = IndexSnapshot.objects.get().digest
    _other_extractor(settings, tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise ExtractionFailed("extraction.crashed", "The newer reader breaks on it.")

    monkeypatch.setattr(extractor, "extract", fail)
    reindex(actor=builders.ACTOR, base=base, reextract=True)
    builders.build(base)

    document = Document.objects.get(name="returns.md")
    assert _state(document).status == "indexed"
    assert IndexSnapshot.objects.get(state="ready").digest == digest
    assert Extraction.objects.filter(recipe=installed_recipe(), status="failed").count() == 2
    assert read_by_another([find(base.pk)]) == {}
