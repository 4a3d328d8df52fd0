"""The chunks that a configuration would give: as the build cuts them, and nothing is written."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from fpdf import FPDF

from retrieval.chunking import STRATEGIES
from retrieval.documents import Upload, add_document
from retrieval.knowledge_bases import find, update_knowledge_base
from retrieval.models import Chunk, Document, EmbeddingModel, IndexSnapshot, KnowledgeBase
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written
from tests.retrieval import documents

LONG = "\n\n".join(
    f"## Part {n}\n\nA paragraph about parcels number {n}. It has two sentences, and a list:\n\n"
    f"- one of {n}\n- two of {n}\n\n| a | b |\n|---|---|\n| {n} | x |"
    for n in range(12)
)


@pytest.fixture
def base(db: None) -> KnowledgeBase:
    return builders.base_with(long_md="# Handbook\n\n" + LONG)


def _ask(api: CheckedClient, base: KnowledgeBase, **body: Any) -> Any:
    return api.post(f"/api/v1/knowledge-bases/{base.pk}/chunking/preview", body, format="json")


def _document() -> Document:
    return Document.objects.get()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_preview__of_a_document__is_what_the_build_then_makes(
    api: CheckedClient, base: KnowledgeBase, strategy: str
) -> None:
    chunking = {"strategy": strategy, "size": 60, "overlap": 12}
    with nothing_written():
        shown = _ask(api, base, chunking=chunking, document=str(_document().pk), limit=1000).json()

    update_knowledge_base(
        actor=builders.ACTOR, knowledge_base_id=base.pk, values={"chunking": chunking}
    )
    snapshot = builders.build(find(base.pk))
    members = snapshot.members.values("indexed_document")
    built = Chunk.objects.filter(indexed_document__in=members).order_by("ordinal")
    assert [
        {key: one[key] for key in ("ordinal", "text", "page", "section", "start", "end")}
        for one in shown["chunks"]
    ] == list(built.values("ordinal", "text", "page", "section", "start", "end"))
    assert [one["truncated"] for one in shown["chunks"]] == [one.truncated for one in built]
    assert shown["chunking"] == chunking
    assert shown["figures"]["chunks"] == snapshot.chunk_count


def test_preview__its_figures__are_those_of_all_chunks(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    chunking = {"strategy": "recursive", "size": 40, "overlap": 10}

    whole = _ask(api, base, chunking=chunking, document=str(_document().pk), limit=1000).json()
    part = _ask(
        api, base, chunking=chunking, document=str(_document().pk), limit=2, **{"from": 3}
    ).json()

    tokens = [one["tokens"] for one in whole["chunks"]]
    assert whole["figures"] == part["figures"]
    assert part["chunks"] == whole["chunks"][3:5]
    assert (whole["figures"]["shortest"], whole["figures"]["longest"]) == (min(tokens), max(tokens))
    assert max(tokens) <= 40
    assert sum(whole["figures"]["cuts"].values()) == len(tokens) == whole["figures"]["chunks"]
    assert whole["figures"]["currentChunks"] == IndexSnapshot.objects.get().chunk_count
    assert whole["complete"] is True
    assert whole["document"]["revision"] == 1


def test_preview__of_a_text__tells_where_each_chunk_ends(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    text = (
        "# First\n\nOne sentence about parcels and lamps. Another sentence about returns here.\n\n"
        "A paragraph on warranty of lamps and more.\n\n# Second\n\n" + "abcdefghij" * 40
    )

    body = _ask(
        api,
        base,
        chunking={"strategy": "recursive", "size": 12, "overlap": 0},
        text=text,
        limit=999,
    ).json()

    cuts = [one["cut"] for one in body["chunks"]]
    assert cuts[0] == "sentence"
    assert {"paragraph", "section", "character"} <= set(cuts)
    assert cuts[-1] == "end"
    assert body["document"] is None
    assert body["figures"]["currentChunks"] is None
    assert body["chunks"][0]["section"] == "First"


def test_preview__overlap__is_counted_in_the_chunk_that_repeats(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    text = "Parcels go back by post within thirty days of their delivery to the house. " * 5

    chunks = _ask(
        api, base, chunking={"strategy": "recursive", "size": 20, "overlap": 8}, text=text
    ).json()["chunks"]

    assert chunks[0]["shared"] == 0
    for before, one in pairwise(chunks):
        assert one["shared"] == before["end"] - one["start"] > 0
        assert before["text"].endswith(one["text"][: one["shared"]].strip())


def test_preview__a_whole_document_over_the_limit__says_that_it_is_cut(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    body = _ask(api, base, chunking={"strategy": "document"}, document=str(_document().pk)).json()

    assert body["figures"]["truncated"] == 1
    assert [one["cut"] for one in body["chunks"]] == ["limit"]


def test_preview__of_pages__ends_chunks_at_them(api: CheckedClient, base: KnowledgeBase) -> None:
    def fill(file: FPDF) -> None:
        for number in (1, 2):
            file.add_page()
            file.cell(text=f"On page {number}")

    content = documents.pdf(fill)
    paged = add_document(
        actor=builders.ACTOR, base=base, upload=Upload(name="a.pdf", content=content)
    )[0]
    builders.build(find(base.pk))

    chunks = _ask(api, base, document=str(paged.pk)).json()["chunks"]

    assert [(one["page"], one["cut"]) for one in chunks] == [(1, "page"), (2, "end")]


def test_preview__of_what_is_not_read__says_why(api: CheckedClient, base: KnowledgeBase) -> None:
    pending = builders.add_text(base, "new.md", "# New")
    assert_problem(_ask(api, base, document=str(pending.pk)), 409, "document.pending")

    broken = builders.add_text(base, "broken.pdf", "%PDF-1.4 nothing")
    builders.build(find(base.pk))
    answer = _ask(api, base, document=str(broken.pk))

    assert_problem(answer, 409, "document.failed")
    assert answer.json()["reason"]["code"] == "extraction.damaged"


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({}, "document", "preview.source"),
        ({"document": "0" * 32, "text": "x"}, "document", "preview.source"),
        ({"document": "x"}, "document", "invalid"),
        ({"text": " \n"}, "text", "invalid"),
        ({"text": 5}, "text", "invalid"),
        ({"text": "---\nx: 1\n---\n"}, "text", "extraction.no_text"),
        ({"text": "x", "chunking": {"size": 0}}, "chunking.size", "chunking.invalid"),
        ({"text": "x", "chunking": {"size": 255}}, "chunking.size", "chunking.invalid"),
        ({"text": "x", "chunking": {"strategy": "best"}}, "chunking.strategy", "chunking.invalid"),
        (
            {"text": "x", "chunking": {"size": 9, "overlap": 9}},
            "chunking.overlap",
            "chunking.invalid",
        ),
        ({"text": "x", "embeddingModel": "none"}, "embeddingModel", "model.unknown"),
        ({"text": "x", "limit": 0}, "limit", "invalid"),
        ({"text": "x", "from": -1}, "from", "invalid"),
        ({"text": "x", "size": 9}, "size", "request.unknown_field"),
    ],
)
def test_preview__bad_request__names_the_field(
    api: CheckedClient, base: KnowledgeBase, body: Any, field: str, code: str
) -> None:
    with nothing_written():
        response = _ask(api, base, **body)

    assert_problem(response, 422, code)
    assert response.json()["errors"][0]["field"] == field


def test_preview__document_of_another_base__is_not_found(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    other = builders.make_base()

    assert_problem(_ask(api, other, document=str(_document().pk)), 404, "document.not_found")
    assert EmbeddingModel.objects.count() == 1


def test_preview__of_a_document_with_a_chunking_of_its_own__starts_from_that(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    own = {"strategy": "sentence", "size": 30, "overlap": 0}
    address = f"/api/v1/knowledge-bases/{base.pk}/documents/{_document().pk}"
    assert api.patch(address, {"chunking": own}, format="json").status_code == 200

    assert _ask(api, base, document=str(_document().pk)).json()["chunking"] == own
    assert _ask(api, base, text="x").json()["chunking"]["strategy"] == "recursive"
