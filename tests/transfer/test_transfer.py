"""An exported version, imported, is the same version."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from agents.drafting import draft_of, update_agent
from agents.models import Agent, AgentVersion
from registry.errors import Conflict, Invalid
from registry.installation import installation_id
from registry.models import AuditEvent
from retrieval.documents import delete_document
from retrieval.knowledge_bases import find, update_knowledge_base
from retrieval.models import (
    Document,
    DocumentRevision,
    IndexedDocument,
    IndexSnapshot,
    KnowledgeBase,
    QueryEmbedding,
    RerankScore,
)
from tests import builders
from tests.database.attacks import commit, purge
from tests.retrieval.cross_encoders import make_cross_encoder
from tests.transfer.conftest import Elsewhere
from tests.transfer.world import (
    QUESTIONS,
    World,
    answers,
    bring,
    change_everything,
    export,
    row_counts,
    verified,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_import__into_an_empty_installation__answers_byte_for_byte(
    world: World, archive: Path, elsewhere: Elsewhere
) -> None:
    before = answers()
    change_everything(world)
    exported = export(archive, world.agent)
    here = installation_id()

    with elsewhere():
        imported = bring(archive, expected_digest=exported.digest)

        version = AgentVersion.objects.get(pk=imported.version.pk)
        assert (version.number, version.digest) == (1, world.version.digest)
        assert version.manifest == world.version.manifest
        assert answers() == before
        assert verified(version)["ok"]
        assert installation_id() != here
        assert version.origin == {
            "installation": here,
            "agent": "support",
            "version": 1,
            "publishedBy": "tests",
            "publishedAt": world.version.published_at.isoformat(),  # type: ignore[union-attr]
            "exportedAt": version.origin["exportedAt"],
            "archive": exported.digest,
        }
        assert version.notes == "The first one."


def test_imported_version__shown__says_where_it_came_from(
    world: World, archive: Path, elsewhere: Elsewhere, client_for: Any, admin_client_for: Any
) -> None:
    export(archive, world.agent)
    with elsewhere():
        version = bring(archive, slug="other").version
        shown = client_for("editor").get("/api/v1/agents/other/versions/1").json()
        assert shown["origin"] == version.origin
        page = admin_client_for().get(f"/admin/agents/agentversion/{version.pk}/change/")
        assert "from version 1 of support, published by tests" in page.content.decode()
    here = client_for("editor").get("/api/v1/agents/support/versions/1").json()
    assert here["origin"] is None


def test_import__into_an_empty_installation__keeps_every_id_and_is_ready_to_go_on(
    world: World, archive: Path, elsewhere: Elsewhere
) -> None:
    version = AgentVersion.objects.get(number=1)
    ids = {
        "agents": {world.agent.pk},
        "bases": {world.returns.pk, world.warranty.pk},
        "documents": set(Document.objects.values_list("pk", flat=True)),
        "bindings": set(version.bindings.values_list("id", flat=True)),
        "tools": set(version.tools.values_list("id", flat=True)),
    }
    assert all(ids.values())
    export(archive, world.agent)

    with elsewhere():
        imported = bring(archive)
        agent, version = imported.agent, imported.version
        assert ids == {
            "agents": set(Agent.objects.values_list("pk", flat=True)),
            "bases": set(KnowledgeBase.objects.values_list("pk", flat=True)),
            "documents": set(Document.objects.values_list("pk", flat=True)),
            "bindings": set(version.bindings.values_list("id", flat=True)),
            "tools": set(version.tools.values_list("id", flat=True)),
        }
        draft = draft_of(agent)
        assert (draft.prompt, draft.based_on) == ("Answer from the passages.", 1)
        assert [sample["name"] for sample in draft.sample_contexts] == ["Paris"]
        # The draft is equal to the version: its bases' current snapshots are the pinned ones.
        with pytest.raises(Conflict) as unchanged:
            builders.publish(agent)
        assert (unchanged.value.code, unchanged.value.data) == (
            "publish.unchanged",
            {"version": 1},
        )
        base = find(world.warranty.pk)
        assert base.current_snapshot is not None
        assert (base.name, base.current_snapshot.number) == ("Warranty", 1)
        indexed = set(IndexedDocument.objects.values_list("pk", flat=True))
        builders.add_text(base, "more.md", "# More\n\nA new document.")
        snapshot = builders.build(base)
        assert (snapshot.number, snapshot.document_count) == (2, 2)
        # What came with the import is shared, not embedded again.
        assert len(set(IndexedDocument.objects.values_list("pk", flat=True)) - indexed) == 1


def test_import__of_a_later_version__goes_into_the_same_bases(
    world: World, archive: Path, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    first = answers()
    export(archive, world.agent)
    ids = list(draft_of(world.agent).bindings.values_list("id", flat=True))
    document = world.document("eu/returns.md")
    builders.replace_text(world.returns, document, "# Returns\n\nWithin ten days.")
    builders.build(world.returns)
    builders.publish(world.agent)
    second = answers(number=2)
    later = tmp_path / "later.agent"
    export(later, world.agent, 2)

    with elsewhere():
        bring(archive)
        draft = draft_of(Agent.objects.get())
        imported = bring(later)

        assert imported.version.number == 2
        assert [base.reused_snapshot for base in imported.bases].count(True) == 1
        assert (answers(number=1), answers(number=2)) == (first, second)
        assert Document.objects.count() == 4
        # The document goes on to its newer revision; workers build what the base now shows.
        base = find(world.returns.pk)
        assert base.current_snapshot is not None
        assert base.current_snapshot.number == 1
        builders.build(base)
        assert answers(number=2) == second
        after = draft_of(imported.agent)
        assert (after.revision, after.prompt, after.based_on) == (
            draft.revision,
            draft.prompt,
            draft.based_on,
        )
        assert list(after.bindings.values_list("id", flat=True)) == ids


def test_import__of_an_earlier_version_afterwards__takes_the_next_number(
    world: World, archive: Path, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    first = answers()
    export(archive, world.agent)
    builders.edit(world.agent, prompt="Another.")
    builders.publish(world.agent)
    later = tmp_path / "later.agent"
    export(later, world.agent, 2)

    with elsewhere():
        assert bring(later).version.number == 1
        imported = bring(archive)
        assert (imported.version.number, imported.version.digest) == (2, world.version.digest)
        assert answers(number=2) == first


def test_import__of_the_same_archive_again__changes_nothing(
    world: World, archive: Path, elsewhere: Elsewhere
) -> None:
    export(archive, world.agent)
    with elsewhere():
        bring(archive)
        counts = row_counts()
        again = bring(archive)
        assert again.unchanged
        assert again.version.number == 1
        assert row_counts() == counts


def test_import__where_it_was_exported__changes_nothing(world: World, archive: Path) -> None:
    export(archive, world.agent)
    counts = row_counts()
    assert bring(archive).unchanged
    assert row_counts() == counts


def test_import__into_another_agent_of_the_same_installation__shares_everything(
    world: World, archive: Path
) -> None:
    before = answers()
    change_everything(world)
    export(archive, world.agent)
    counts = row_counts()

    imported = bring(archive, slug="support-copy")

    assert answers("support-copy") == before
    after = row_counts()
    assert {table for table in counts if after[table] != counts[table]} == {
        "agents_agent",
        "agents_agentversion",
        "agents_knowledgebinding",
        "agents_tool",
        "registry_apikey",
        "registry_auditevent",
        "retrieval_snapshotpin",
    }
    assert all(base.reused_snapshot for base in imported.bases)
    assert (imported.questions.added, imported.questions.different) == (0, 0)


def test_import__with_questions__uses_the_vectors_of_there(
    world: World, archive: Path, elsewhere: Elsewhere
) -> None:
    answers()
    vectors = dict(QueryEmbedding.objects.values_list("query_digest", "vector"))
    assert export(archive, world.agent).questions == len(QUESTIONS)
    with elsewhere():
        imported = bring(archive)
        assert (imported.questions.added, imported.questions.different) == (len(QUESTIONS), 0)
        here = dict(QueryEmbedding.objects.values_list("query_digest", "vector"))
        assert here == vectors
        assert set(QueryEmbedding.objects.values_list("kept", flat=True)) == {True}


def test_import__of_a_question_asked_here_with_other_bits__leaves_the_vector_of_here(
    world: World, archive: Path, elsewhere: Elsewhere
) -> None:
    answers()
    export(archive, world.agent)
    one = QueryEmbedding.objects.order_by("pk").first()
    assert one is not None
    with elsewhere():
        mine = [*one.vector][::-1]
        QueryEmbedding.objects.create(
            model=find_model(), query_digest=one.query_digest, vector=mine, provenance="here"
        )
        imported = bring(archive)
        assert (imported.questions.added, imported.questions.different) == (len(QUESTIONS) - 1, 1)
        kept = QueryEmbedding.objects.get(query_digest=one.query_digest)
        assert list(kept.vector) == mine
        assert kept.kept


def find_model() -> Any:
    from retrieval.models import EmbeddingModel

    return EmbeddingModel.objects.get()


@pytest.mark.slow
def test_import__of_a_version_ranked_by_a_cross_encoder__brings_what_it_said(
    world: World, archive: Path, elsewhere: Elsewhere, tmp_path: Path, settings: Any
) -> None:
    make_cross_encoder(tmp_path / "scores", seed=1)
    settings.RERANK_MODEL = str(tmp_path / "scores")
    update_knowledge_base(
        actor=builders.ACTOR,
        knowledge_base_id=world.warranty.pk,
        values={"settings": {"rerankEnabled": True}},
    )
    builders.publish(world.agent)
    before = answers(number=2)
    assert any('"rerankScore"' in answer for answer in before)
    export(archive, world.agent, 2)
    settings.RERANK_MODEL = "not-installed-there"
    with elsewhere():
        imported = bring(archive)
        assert imported.scores.added == RerankScore.objects.count() > 0
        assert answers() == before


def test_export__without_questions__carries_none(world: World, archive: Path) -> None:
    answers()
    assert export(archive, world.agent, with_questions=False).questions == 0


def test_export__of_a_purged_document__is_imported_as_purged(
    world: World, archive: Path, elsewhere: Elsewhere
) -> None:
    revision = DocumentRevision.objects.get(document__name="eu/returns.md", number=2)
    commit(*purge(revision.pk))
    before = answers()
    assert any('"purged": {"documents": 1}' in answer for answer in before)
    export(archive, world.agent)
    assert b"30 days" not in archive.read_bytes()

    with elsewhere():
        imported = bring(archive)
        assert answers() == before
        parts = verified(imported.version)
        assert parts["ok"]
        assert [part["part"] for part in parts["parts"] if part.get("purged")] == [
            "document eu/returns.md revision 2"
        ]


def test_import__of_what_was_purged_here__brings_no_text_back(
    world: World, archive: Path, elsewhere: Elsewhere
) -> None:
    export(archive, world.agent)
    with elsewhere():
        bring(archive)
        revision = DocumentRevision.objects.get(document__name="eu/returns.md")
        commit(*purge(revision.pk))
        bring(archive, slug="again")
        revision.refresh_from_db()
        assert revision.content is None
        assert any('"purged": {"documents": 1}' in answer for answer in answers("again"))
        assert verified(AgentVersion.objects.get(number=1, agent__slug="again"))["ok"]


def test_import__into_a_base_that_shows_less__adds_documents_and_asks_for_a_build(
    world: World, archive: Path, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    export(archive, world.agent)
    builders.add_text(world.returns, "new.md", "# New\n\nA new document.")
    builders.add_text(world.returns, "taken.md", "# Taken\n\nA document with a name.")
    builders.build(world.returns)
    builders.publish(world.agent)
    second = answers(number=2)
    later = tmp_path / "later.agent"
    export(later, world.agent, 2)

    with elsewhere():
        bring(archive)
        base = find(world.returns.pk)
        gone = Document.objects.get(name="short.txt")
        delete_document(actor=builders.ACTOR, base=base, document_id=gone.pk)
        builders.add_text(base, "taken.md", "# Mine\n\nThe name is taken here.")
        builders.build(base)
        imported = bring(later)

        assert answers(number=2) == second
        (changed,) = [one for one in imported.bases if not one.reused_snapshot]
        assert (changed.added.documents, changed.added.hidden) == (2, ["taken.md"])
        living = Document.objects.filter(knowledge_base=base, deleted_at=None)
        assert sorted(living.values_list("name", flat=True)) == sorted(
            ["eu/returns.md", "Größen.md", "new.md", "taken.md"]
        )
        snapshot = builders.build(base)
        assert sorted(snapshot.members.values_list("name", flat=True)) == sorted(
            living.values_list("name", flat=True)
        )
        assert answers(number=2) == second


def test_import__where_another_base_has_the_name__takes_another_name(
    world: World, archive: Path, elsewhere: Elsewhere
) -> None:
    before = answers()
    export(archive, world.agent)
    with elsewhere():
        builders.make_base("Returns")
        bring(archive)
        assert find(world.returns.pk).name == "Returns (2)"
        # What the version says it is called is pinned.
        assert answers() == before


def test_import__where_another_agent_has_the_slug__asks_which_is_meant(
    world: World, archive: Path, elsewhere: Elsewhere
) -> None:
    before = answers()
    export(archive, world.agent)
    with elsewhere():
        other = builders.make_agent("support")
        builders.edit(other, prompt="Mine.")
        counts = row_counts()
        with pytest.raises(Conflict) as taken:
            bring(archive)
        assert (taken.value.code, taken.value.data) == ("import.slug_taken", {"agent": "support"})
        assert row_counts() == counts

        revision = draft_of(other).revision
        imported = bring(archive, slug="support")
        assert (imported.agent.pk, imported.version.number) == (other.pk, 1)
        assert answers() == before
        draft = draft_of(other)
        assert (draft.prompt, draft.revision) == ("Mine.", revision)


def test_import__with_other_content_of_a_revision_here__is_refused_by_name(
    world: World, archive: Path, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    export(archive, world.agent)
    builders.replace_text(world.returns, world.document("eu/returns.md"), "# There\n\nOne.")
    builders.build(world.returns)
    builders.publish(world.agent)
    later = tmp_path / "later.agent"
    export(later, world.agent, 2)
    with elsewhere():
        bring(archive)
        builders.replace_text(world.returns, world.document("eu/returns.md"), "# Here\n\nTwo.")
        builders.build(world.returns)
        counts = row_counts()
        with pytest.raises(
            Conflict, match=r"Revision 3 of the document 'eu/returns\.md'"
        ) as refused:
            bring(later)
        assert refused.value.code == "import.differs"
        assert row_counts() == counts


def test_import__of_a_document_that_another_base_has__is_refused_by_name(
    world: World, archive: Path, elsewhere: Elsewhere
) -> None:
    document = world.document("warranty.md")
    export(archive, world.agent)
    with elsewhere():
        other = builders.make_base("Mine")
        Document.objects.create(id=document.pk, knowledge_base=other, name="mine.md")
        counts = row_counts()
        with pytest.raises(Conflict, match=r"'warranty\.md' is in another knowledge base"):
            bring(archive)
        assert row_counts() == counts


def test_import__while_the_base_is_built__says_so(
    world: World, archive: Path, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    from retrieval.indexing import start_build

    export(archive, world.agent)
    builders.add_text(world.returns, "new.md", "# New\n\nA new document.")
    builders.build(world.returns)
    builders.publish(world.agent)
    later = tmp_path / "later.agent"
    export(later, world.agent, 2)
    with elsewhere():
        bring(archive)
        builders.add_text(find(world.returns.pk), "mine.md", "# Mine\n\nA document of here.")
        start_build(world.returns.pk)
        with pytest.raises(Conflict) as building:
            bring(later)
        assert building.value.code == "import.building"
        assert IndexSnapshot.objects.get(state="building").number == 2


def test_import__into_an_archived_agent__is_refused(
    world: World, archive: Path, elsewhere: Elsewhere
) -> None:
    export(archive, world.agent)
    with elsewhere():
        agent = builders.make_agent("resting")
        update_agent(actor=builders.ACTOR, agent=agent, values={"archived": True})
        with pytest.raises(Conflict) as archived:
            bring(archive, slug="resting")
        assert archived.value.code == "agent.archived"


def test_import__of_a_model_with_other_weights_here__is_refused_by_name(
    world: World, archive: Path, elsewhere: Elsewhere
) -> None:
    export(archive, world.agent)
    with elsewhere():
        commit(
            "ALTER TABLE retrieval_embeddingmodel DISABLE TRIGGER USER",
            "UPDATE retrieval_embeddingmodel SET fingerprint = 'sha256:other'",
            "ALTER TABLE retrieval_embeddingmodel ENABLE TRIGGER USER",
        )
        with pytest.raises(Conflict, match="all-MiniLM-L6-v2") as refused:
            bring(archive)
        assert refused.value.code == "import.differs"
        assert not KnowledgeBase.objects.exists()


def test_import_and_export__done__stand_in_the_audit_log(
    world: World, archive: Path, elsewhere: Elsewhere
) -> None:
    export(archive, world.agent)
    event = AuditEvent.objects.get(action="version.exported")
    assert event.after is not None
    assert (event.object_id, event.after["version"]) == ("support", 1)
    with elsewhere():
        bring(archive)
        actions = AuditEvent.objects.order_by("pk").values_list("action", flat=True)
        assert list(actions) == [
            "knowledge_base.imported",
            "knowledge_base.imported",
            "version.imported",
        ]
        imported = AuditEvent.objects.get(action="version.imported")
        assert imported.after is not None
        assert imported.after["digest"] == world.version.digest
        assert "30 days" not in json.dumps(list(AuditEvent.objects.values_list("after", flat=True)))


def test_commands__export_and_import__tell_what_they_did(
    world: World, archive: Path, elsewhere: Elsewhere
) -> None:
    told = StringIO()
    call_command("export_agent", "support", "--version", "1", "--out", str(archive), stdout=told)
    version, holds, file = told.getvalue().splitlines()
    assert version.split() == ["version", "support", "v1", world.version.digest]
    assert holds.startswith("holds")
    digest = file.split()[-1]

    with elsewhere():
        told = StringIO()
        call_command("import_agent", str(archive), "--expect", digest, stdout=told)
        assert told.getvalue().splitlines()[0].split() == [
            "version",
            "support",
            "v1",
            world.version.digest,
        ]
        again = StringIO()
        call_command("import_agent", str(archive), stdout=again)
        assert again.getvalue().startswith("unchanged: this is support v1 sha256:")
        with pytest.raises(CommandError, match=r"archive\.other_digest"):
            call_command("import_agent", str(archive), "--expect", "sha256:0")


def test_export__to_a_file_that_exists__leaves_it_alone(world: World, archive: Path) -> None:
    archive.write_text("mine")
    with pytest.raises(Conflict) as exists:
        export(archive, world.agent)
    assert exists.value.code == "archive.exists"
    assert archive.read_text() == "mine"
    assert not AuditEvent.objects.filter(action="version.exported").exists()


def test_import__with_another_digest_than_expected__is_refused(
    world: World, archive: Path, elsewhere: Elsewhere
) -> None:
    export(archive, world.agent)
    with elsewhere(), pytest.raises(Invalid) as refused:
        bring(archive, expected_digest="sha256:other")
    assert refused.value.code == "archive.other_digest"
