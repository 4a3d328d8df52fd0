"""Builds as people steer them: paused, resumed, failed, held back, tried again."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from registry.models import AuditEvent
from retrieval.build_control import pause_build
from retrieval.claims import claim_piece
from retrieval.embedding_models import ensure_model
from retrieval.encoders.graph import bundled_model_dir
from retrieval.indexing import due_knowledge_bases, finish_build, start_build
from retrieval.models import BuildPiece, Chunk, Document, IndexSnapshot, KnowledgeBase
from retrieval.pieces import work_on
from tests import builders
from tests.api.contract import CheckedClient
from tests.api.problems import assert_problem, nothing_written
from tests.api.test_document_status import BROKEN_PDF
from tests.builders import RETURNS, WARRANTY

HOLD = {"failurePolicy": "holdBack"}


def _url(base: KnowledgeBase, *more: str) -> str:
    return "/".join([f"/api/v1/knowledge-bases/{base.pk}", *more])


def _shown(api: CheckedClient, base: KnowledgeBase) -> dict[str, Any]:
    body: dict[str, Any] = api.get(_url(base)).json()
    return body


def _upload_broken(api: CheckedClient, base: KnowledgeBase, name: str = "broken.pdf") -> str:
    response = api.post(_url(base, "documents"), {"file": SimpleUploadedFile(name, BROKEN_PDF)})
    return str(response.json()["id"])


def _actions() -> list[str]:
    return list(AuditEvent.objects.order_by("id").values_list("action", flat=True))


@pytest.fixture
def base(db: None) -> KnowledgeBase:
    made = builders.make_base()
    builders.add_text(made, "returns.md", RETURNS)
    builders.add_text(made, "warranty.md", WARRANTY)
    return made


# -- pausing ---------------------------------------------------------------------------------


def test_pause__running_build__finishes_what_is_held_and_begins_nothing(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    snapshot = start_build(base.pk)
    assert snapshot is not None
    held = claim_piece(snapshot.pk)
    assert held is not None

    response = api.post(_url(base, "build", "pause"))

    assert (response.status_code, response.json()["build"]["paused"]) == (200, True)
    assert claim_piece(snapshot.pk) is None
    work_on(held)
    assert _shown(api, base)["build"]["progress"]["done"] == 1
    assert start_build(base.pk) is None
    assert due_knowledge_bases() == []
    assert _actions()[-1] == "build.paused"


def test_pause__all_documents_done__seals_nothing_until_resumed(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    snapshot = builders.build_unsealed(base)
    api.post(_url(base, "build", "pause"))

    ended = finish_build(snapshot.pk)

    assert ended is False
    assert _shown(api, base)["currentSnapshot"] is None
    api.post(_url(base, "build", "resume"))
    assert finish_build(snapshot.pk) is True
    assert _shown(api, base)["currentSnapshot"]["number"] == 1


def test_resume__paused_build__goes_on_where_it_stopped(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    snapshot = start_build(base.pk)
    assert snapshot is not None
    first = claim_piece(snapshot.pk)
    assert first is not None
    work_on(first)
    api.post(_url(base, "build", "pause"))
    chunks = set(Chunk.objects.values_list("pk", flat=True))

    response = api.post(_url(base, "build", "resume"))

    assert (response.status_code, response.json()["build"]["paused"]) == (200, False)
    assert builders.build(base).number == 1
    assert chunks < set(Chunk.objects.values_list("pk", flat=True))
    assert _actions()[-1] == "build.resumed"


def test_pause__twice__is_one_change(api: CheckedClient, base: KnowledgeBase) -> None:
    api.post(_url(base, "build", "pause"))

    with nothing_written():
        again = api.post(_url(base, "build", "pause"))

    assert (again.status_code, again.json()["build"]["state"]) == (200, "pending")


def test_pause__nothing_to_build__is_a_conflict(api: CheckedClient) -> None:
    base = builders.base_with()

    with nothing_written():
        response = api.post(_url(base, "build", "pause"))
        resumed = api.post(_url(base, "build", "resume"))

    assert_problem(response, 409, "build.none")
    assert (resumed.status_code, resumed.json()["build"]) == (200, None)


def test_upload__while_paused__is_accepted_and_waits(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    api.post(_url(base, "build", "pause"))

    response = api.post(_url(base, "documents"), {"name": "new.md", "text": "New."}, format="json")

    assert response.status_code == 202
    build = _shown(api, base)["build"]
    assert (build["state"], build["paused"]) == ("pending", True)
    assert start_build(base.pk) is None


def test_cancel__paused_build__leaves_no_pause_where_nothing_waits(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    start_build(base.pk)
    api.post(_url(base, "build", "pause"))

    response = api.post(_url(base, "snapshots", "1", "cancel"))

    assert response.status_code == 200
    assert _shown(api, base)["build"] is None
    builders.add_text(base, "new.md", "New.")
    assert _shown(api, base)["build"]["paused"] is False


def test_cancel__paused_build_with_changes_behind_it__keeps_them_waiting(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    start_build(base.pk)
    api.post(_url(base, "build", "pause"))
    builders.add_text(base, "new.md", "New.")

    api.post(_url(base, "snapshots", "1", "cancel"))

    build = _shown(api, base)["build"]
    assert (build["state"], build["paused"]) == ("pending", True)


# -- progress --------------------------------------------------------------------------------


def test_progress__some_documents_done__estimates_the_rest_by_their_bytes(
    api: CheckedClient,
) -> None:
    base = builders.make_base()
    for name in ("a.md", "b.md", "c.md"):
        builders.add_text(base, name, "word " * 100)
    builders.add_text(base, "d.md", "word " * 300)
    snapshot = start_build(base.pk)
    assert snapshot is not None
    claim = claim_piece(snapshot.pk)
    assert claim is not None
    work_on(claim)
    done = BuildPiece.objects.get(pk=claim.piece_id)
    now = timezone.now()
    BuildPiece.objects.filter(pk=done.pk).update(
        claimed_at=now - timedelta(seconds=8), ended_at=now
    )

    alone = _shown(api, base)["build"]["progress"]
    claim_piece(snapshot.pk)
    claim_piece(snapshot.pk)
    shared = _shown(api, base)["build"]["progress"]
    pause_build(actor=builders.ACTOR, base=base)
    paused = _shown(api, base)["build"]["progress"]

    assert (alone["documents"], alone["done"], alone["percent"]) == (4, 1, 25.0)
    assert alone["chunks"] >= 1
    assert alone["secondsLeft"] == 40
    assert shared["secondsLeft"] == 20
    assert paused["secondsLeft"] is None


def test_progress__nearly_everything_shared__does_not_count_it_as_work(
    api: CheckedClient,
) -> None:
    base = builders.base_with()
    builders.add_text(base, "new.md", "New.")
    start_build(base.pk)

    progress = _shown(api, base)["build"]["progress"]

    assert (progress["documents"], progress["done"], progress["secondsLeft"]) == (3, 2, None)


# -- failures --------------------------------------------------------------------------------


def test_build__with_failures__becomes_current_and_says_so(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    _upload_broken(api, base)

    builders.build(base)

    shown = _shown(api, base)
    assert shown["currentSnapshot"]["documents"] == 2
    assert (shown["lastBuild"]["state"], shown["lastBuild"]["failedDocuments"]) == ("ready", 1)


def test_build__with_failures_held_back__leaves_what_is_searched_and_says_why(
    api: CheckedClient,
) -> None:
    base = builders.base_with()
    api.patch(_url(base), HOLD, format="json")
    builders.add_text(base, "new.md", "New.")
    _upload_broken(api, base)

    held = builders.build(base)

    assert held.state == "failed"
    assert held.members.count() == 0
    shown = _shown(api, base)
    assert (shown["currentSnapshot"]["number"], shown["build"]) == (1, None)
    last = shown["lastBuild"]
    assert (last["snapshot"], last["state"], last["failedDocuments"]) == (2, "failed", 1)
    assert "broken.pdf (extraction." in last["detail"]
    snapshot = api.get(_url(base, "snapshots", "2")).json()
    assert (snapshot["state"], snapshot["detail"]) == ("failed", last["detail"])


def test_build__held_back_and_then_repaired__becomes_current(api: CheckedClient) -> None:
    base = builders.base_with()
    api.patch(_url(base), HOLD, format="json")
    broken = _upload_broken(api, base)
    builders.build(base)
    api.put(_url(base, "documents", broken), {"text": "Now it is text."}, format="json")

    repaired = builders.build(base)

    assert (repaired.number, repaired.state, repaired.document_count) == (3, "ready", 3)


def test_build__held_back_and_let_go__becomes_current_embedding_nothing(
    api: CheckedClient,
) -> None:
    base = builders.base_with()
    api.patch(_url(base), HOLD, format="json")
    builders.add_text(base, "new.md", "New.")
    _upload_broken(api, base)
    builders.build(base)
    chunks = Chunk.objects.count()

    body = api.patch(_url(base), {"failurePolicy": "becomeCurrent"}, format="json").json()

    assert body["build"]["state"] == "pending"
    let_go = builders.build(base)
    assert (let_go.state, let_go.document_count) == ("ready", 3)
    assert Chunk.objects.count() == chunks


def test_publish__after_a_build_was_held_back__needs_to_be_told(api: CheckedClient) -> None:
    base = builders.base_with()
    api.patch(_url(base), HOLD, format="json")
    agent = builders.make_agent("support")
    builders.edit(agent, bindings=[{"knowledgeBase": str(base.pk)}])
    _upload_broken(api, base)
    builders.build(base)

    response = api.post("/api/v1/agents/support/publish", {}, format="json")

    assert_problem(response, 409, "publish.snapshot_outdated")


@pytest.mark.parametrize("value", ["never", None, 1])
def test_policy__unknown__is_refused(api: CheckedClient, base: KnowledgeBase, value: Any) -> None:
    with nothing_written():
        response = api.patch(_url(base), {"failurePolicy": value}, format="json")

    problem = assert_problem(response, 422, "invalid", field="failurePolicy", value=value)
    assert problem["errors"][0]["allowed"] == ["becomeCurrent", "holdBack"]


# -- failed documents ------------------------------------------------------------------------


def test_documents__by_status__are_those_that_stand_so(api: CheckedClient) -> None:
    base = builders.base_with()
    builders.base_with("Another")
    off = Document.objects.get(knowledge_base=base, name="warranty.md")
    api.patch(_url(base, "documents", str(off.pk)), {"enabled": False}, format="json")
    _upload_broken(api, base, "b.pdf")
    _upload_broken(api, base, "a.pdf")
    builders.build(base)
    builders.add_text(base, "new.md", "New.")

    listed = {
        status: [
            document["name"]
            for document in api.get(_url(base, "documents"), {"status": status}).json()["results"]
        ]
        for status in ("pending", "extracted", "indexed", "failed")
    }

    assert listed == {
        "pending": ["new.md"],
        "extracted": ["warranty.md"],
        "indexed": ["returns.md"],
        "failed": ["a.pdf", "b.pdf"],
    }
    everything = api.get(_url(base, "documents")).json()["results"]
    assert {document["name"]: document["status"] for document in everything} == {
        name: status for status, names in listed.items() for name in names
    }
    failed = api.get(_url(base, "documents"), {"status": "failed"}).json()["results"][0]
    assert failed["error"]["code"].startswith("extraction.")
    assert failed["error"]["message"]


def test_documents__by_an_unknown_status__are_refused(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    response = api.get(_url(base, "documents"), {"status": "lost"})

    assert_problem(response, 422, "invalid", field="status", value="lost")


def test_retry__one_of_two_failed_documents__tries_that_one(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    first, second = _upload_broken(api, base, "a.pdf"), _upload_broken(api, base, "b.pdf")
    builders.build(base)

    response = api.post(_url(base, "documents", first, "retry"))

    assert (response.status_code, response.json()["status"]) == (202, "pending")
    assert api.get(_url(base, "documents", second)).json()["status"] == "failed"
    assert _shown(api, base)["build"]["state"] == "pending"
    assert _actions()[-1] == "document.retried"
    builders.build(base)
    assert api.get(_url(base, "documents", first)).json()["status"] == "failed"


def test_retry__all_by_reindexing__tries_every_failed_document(
    api: CheckedClient, base: KnowledgeBase
) -> None:
    _upload_broken(api, base, "a.pdf")
    _upload_broken(api, base, "b.pdf")
    builders.build(base)

    api.post(_url(base, "reindex"))

    failed = api.get(_url(base, "documents"), {"status": "failed"}).json()["results"]
    assert failed == []


def test_retry__document_that_did_not_fail__is_a_conflict(api: CheckedClient) -> None:
    base = builders.base_with()
    document = Document.objects.get(knowledge_base=base, name="returns.md")

    with nothing_written():
        response = api.post(_url(base, "documents", str(document.pk), "retry"))

    assert assert_problem(response, 409, "document.not_failed")["state"] == "indexed"


# -- a chunking of its own -------------------------------------------------------------------

OWN = {"strategy": "sentence", "size": 20, "overlap": 0}


def test_chunking__of_one_document__cuts_that_one_anew_and_shares_the_others(
    api: CheckedClient,
) -> None:
    base = builders.base_with()
    document = Document.objects.get(knowledge_base=base, name="returns.md")
    before = {member.name: member for member in IndexSnapshot.objects.get().members.all()}

    response = api.patch(
        _url(base, "documents", str(document.pk)), {"chunking": OWN}, format="json"
    )
    built = builders.build(base)

    assert (response.status_code, response.json()["chunking"]) == (200, OWN)
    after = {member.name: member for member in built.members.select_related("indexed_document")}
    own = after["returns.md"].indexed_document
    assert own.chunking == '{"overlap":0,"recipe":1,"size":20,"strategy":"sentence"}'
    assert own.chunk_count > before["returns.md"].indexed_document.chunk_count
    assert after["warranty.md"].indexed_document_id == before["warranty.md"].indexed_document_id
    assert api.get(_url(base, "documents", str(document.pk))).json()["chunks"] == own.chunk_count
    event = AuditEvent.objects.filter(action="document.updated").get()
    assert (event.before, event.after) == ({"chunking": None}, {"chunking": OWN})


def test_chunking__of_one_document_taken_back__embeds_nothing(api: CheckedClient) -> None:
    base = builders.base_with()
    first = IndexSnapshot.objects.get()
    document = Document.objects.get(knowledge_base=base, name="returns.md")
    url = _url(base, "documents", str(document.pk))
    api.patch(url, {"chunking": OWN}, format="json")
    builders.build(base)
    chunks = Chunk.objects.count()

    response = api.patch(url, {"chunking": None}, format="json")
    back = builders.build(base)

    assert response.json()["chunking"] is None
    assert back.digest == first.digest
    assert Chunk.objects.count() == chunks


def test_chunking__of_one_document__stays_when_that_of_the_base_changes(
    api: CheckedClient,
) -> None:
    base = builders.base_with()
    document = Document.objects.get(knowledge_base=base, name="returns.md")
    url = _url(base, "documents", str(document.pk))
    api.patch(url, {"chunking": OWN}, format="json")
    own = builders.build(base).members.get(name="returns.md").indexed_document

    api.patch(_url(base), {"chunking": {"strategy": "page"}}, format="json")
    built = builders.build(base)

    assert built.members.get(name="returns.md").indexed_document == own
    assert '"page"' in built.members.get(name="warranty.md").indexed_document.chunking
    renamed = api.patch(url, {"name": "renamed.md"}, format="json").json()
    assert renamed["chunking"] == OWN


@pytest.mark.parametrize(
    ("chunking", "field", "value"),
    [
        ({"size": 0}, "chunking.size", 0),
        ({"size": 255}, "chunking.size", 255),
        ({"size": 10, "overlap": 10}, "chunking.overlap", 10),
        ({"size": 10, "overlap": -1}, "chunking.overlap", -1),
        ({"strategy": "paragraph"}, "chunking.strategy", "paragraph"),
        ({"sise": 10}, "chunking.sise", 10),
    ],
)
def test_chunking__of_a_document_or_a_base__is_refused_out_of_range(
    api: CheckedClient, chunking: dict[str, Any], field: str, value: Any
) -> None:
    base = builders.base_with()
    document = Document.objects.get(knowledge_base=base, name="returns.md")

    with nothing_written():
        for url in (_url(base, "documents", str(document.pk)), _url(base)):
            response = api.patch(url, {"chunking": chunking}, format="json")
            assert_problem(response, 422, "chunking.invalid", field=field, value=value)
        made = api.post(
            "/api/v1/knowledge-bases", {"name": "New", "chunking": chunking}, format="json"
        )
        assert_problem(made, 422, "chunking.invalid", field=field, value=value)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_model__that_reads_less_than_a_document_s_own_chunking__is_refused(
    api: CheckedClient, tmp_path: Path
) -> None:
    folder = tmp_path / "short-model"
    shutil.copytree(bundled_model_dir(), folder)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 64}')
    ensure_model(str(folder))
    base = builders.make_base(chunking={"size": 50})
    document = builders.add_text(base, "returns.md", RETURNS)
    url = _url(base, "documents", str(document.pk))
    api.patch(url, {"chunking": {"size": 100}}, format="json")

    with nothing_written():
        refused = api.patch(_url(base), {"embeddingModel": str(folder)}, format="json")

    problem = assert_problem(refused, 422, "invalid", field="embeddingModel")
    assert "the chunking of 'returns.md' has a size of 100" in problem["errors"][0]["message"]
    api.patch(url, {"chunking": {"size": 62}}, format="json")
    taken = api.patch(_url(base), {"embeddingModel": str(folder)}, format="json")
    assert taken.status_code == 200


def test_chunking__no_object__is_refused(api: CheckedClient) -> None:
    base = builders.base_with()
    document = Document.objects.get(knowledge_base=base, name="returns.md")

    with nothing_written():
        response = api.patch(
            _url(base, "documents", str(document.pk)), {"chunking": "page"}, format="json"
        )

    assert_problem(response, 422, "invalid", field="chunking", value="page")
