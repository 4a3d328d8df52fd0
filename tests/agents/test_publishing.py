from __future__ import annotations

import json

import pytest

from agents.aliases import move_alias
from agents.drafting import draft_of, edit_draft, find_agent
from agents.models import AliasMove
from registry.errors import Conflict, Invalid, RevisionRequired, StaleRevision
from registry.models import AuditEvent
from retrieval.documents import delete_document
from retrieval.knowledge_bases import delete_knowledge_base, find, update_knowledge_base
from tests import builders
from tests.builders import ACTOR

pytestmark = pytest.mark.django_db


def test_publish__of_a_draft__gives_version_one_and_a_draft_that_goes_on_counting() -> None:
    base = builders.base_with()
    agent, version = builders.published(base)

    draft = draft_of(agent)

    assert (version.number, version.state) == (1, "published")
    assert draft.based_on == 1
    assert draft.revision == version.revision
    assert [b.id for b in draft.bindings.all()] == [b.id for b in version.bindings.all()]
    assert [b.pk for b in draft.bindings.all()] != [b.pk for b in version.bindings.all()]


def test_publish__of_an_unchanged_draft__is_refused_with_the_equal_version() -> None:
    agent, _ = builders.published(builders.base_with())

    with pytest.raises(Conflict) as refused:
        builders.publish(agent)

    assert refused.value.code == "publish.unchanged"
    assert refused.value.data["version"] == 1
    assert agent.versions.filter(state="published").count() == 1


def test_publish__where_only_a_setting_of_the_base_changed__is_a_new_version() -> None:
    base = builders.base_with()
    agent, first = builders.published(base)
    update_knowledge_base(
        actor=ACTOR, knowledge_base_id=base.pk, values={"settings": {"defaultTopK": 9}}
    )

    second = builders.publish(agent)

    assert second.number == 2
    assert json.loads(second.manifest)["knowledgeBases"][0]["settings"]["defaultTopK"] == 9
    assert json.loads(first.manifest)["knowledgeBases"][0]["settings"]["defaultTopK"] == 5


def test_publish__without_a_ready_snapshot__is_refused() -> None:
    base = builders.make_base()
    agent = builders.make_agent()
    builders.edit(agent, bindings=[{"knowledgeBase": str(base.pk)}])

    with pytest.raises(Conflict) as refused:
        builders.publish(agent, accept_outdated=True)

    assert refused.value.code == "publish.no_snapshot"
    assert draft_of(agent).state == "draft"


def test_publish__with_an_outdated_snapshot__is_refused_with_figures_unless_accepted() -> None:
    base = builders.base_with()
    agent = builders.make_agent()
    builders.edit(agent, bindings=[{"knowledgeBase": str(base.pk)}])
    builders.add_text(base, "new.md", "# New\n\nNot yet indexed.")

    with pytest.raises(Conflict) as refused:
        builders.publish(agent)
    version = builders.publish(agent, accept_outdated=True)

    assert refused.value.code == "publish.snapshot_outdated"
    assert refused.value.data["knowledgeBases"][0]["changesNotIndexed"] == 1
    assert version.number == 1


def test_publish__manifest__holds_everything_that_decides_an_answer() -> None:
    base = builders.base_with()
    _, version = builders.published(base)

    manifest = json.loads(version.manifest)

    assert set(manifest) == {
        "schema",
        "prompt",
        "model",
        "parameters",
        "contextVariables",
        "bindings",
        "tools",
        "knowledgeBases",
        "expressionSemantics",
    }
    pinned = manifest["knowledgeBases"][0]
    assert base.current_snapshot is not None
    assert pinned["snapshotDigest"] == base.current_snapshot.digest
    assert set(pinned["rankingRecipe"]) == {"score", "floor", "fusion", "reranker", "diversity"}


def test_publish__key_order_of_owned_json__is_pinned() -> None:
    agent = builders.make_agent()
    builders.edit(agent, parameters={"b": 1, "a": 2})
    first = builders.publish(agent)
    builders.edit(agent, parameters={"a": 2, "b": 1})

    second = builders.publish(agent)

    assert first.digest != second.digest
    assert json.loads(first.manifest)["parameters"] == '{"b":1,"a":2}'


def test_draft__edited_from_an_old_revision__is_refused_with_the_newest() -> None:
    agent = builders.make_agent()
    start = draft_of(agent).revision
    builders.edit(agent, prompt="one")

    with pytest.raises(StaleRevision) as refused:
        edit_draft(
            actor=ACTOR,
            access=None,
            agent=agent,
            values={"prompt": "two"},
            expected_revision=str(start),
            whole=False,
        )
    with pytest.raises(RevisionRequired):
        edit_draft(
            actor=ACTOR,
            access=None,
            agent=agent,
            values={"prompt": "two"},
            expected_revision=None,
            whole=False,
        )

    assert refused.value.data["revision"] == start + 1
    assert draft_of(agent).prompt == "one"


def test_draft__edit_that_changes_nothing__keeps_the_revision_and_the_audit_log() -> None:
    agent = builders.make_agent()
    builders.edit(agent, prompt="one", parameters={"a": 1})
    before = (draft_of(agent).revision, AuditEvent.objects.count())

    builders.edit(agent, prompt="one", parameters={"a": 1})

    assert (draft_of(agent).revision, AuditEvent.objects.count()) == before


def test_draft__items_that_bring_their_id__keep_it_and_others_are_refused() -> None:
    base = builders.base_with()
    agent, _ = builders.published(base)
    binding = draft_of(agent).bindings.get()

    builders.edit(
        agent,
        bindings=[{"id": str(binding.id), "knowledgeBase": str(base.pk), "label": "Renamed"}],
    )

    kept = draft_of(agent).bindings.get()
    assert (kept.id, kept.label) == (binding.id, "Renamed")
    with pytest.raises(Invalid) as refused:
        builders.edit(
            agent,
            bindings=[
                {"id": "00000000-0000-0000-0000-000000000001", "knowledgeBase": str(base.pk)}
            ],
        )
    assert refused.value.errors[0].field == "bindings.0.id"


def test_binding__without_a_label__is_called_like_its_base() -> None:
    base = builders.base_with("Returns EU")
    agent = builders.make_agent()

    builders.edit(agent, bindings=[{"knowledgeBase": str(base.pk)}])

    assert draft_of(agent).bindings.get().label == "Returns EU"


def test_knowledge_base__in_use__cannot_be_deleted_and_names_every_holder() -> None:
    base = builders.base_with()
    agent, _ = builders.published(base, slug="support")

    with pytest.raises(Conflict) as refused:
        delete_knowledge_base(actor=ACTOR, knowledge_base_id=base.pk)

    assert refused.value.code == "knowledge_base.in_use"
    assert refused.value.data["holders"] == ["support v1", "draft of support"]
    assert find(base.pk) == base
    assert find_agent("support") == agent


def test_knowledge_base__not_in_use__goes_with_everything_in_it() -> None:
    base = builders.base_with()
    other = builders.base_with()
    delete_document(actor=ACTOR, base=base, document_id=base.documents.all()[0].pk)
    builders.build(base)

    delete_knowledge_base(actor=ACTOR, knowledge_base_id=base.pk)

    from django.db import connection

    connection.check_constraints()
    assert other.documents.count() == 2
    assert find(other.pk).current_snapshot is not None
    assert base.documents.count() == 0


def test_alias__moved_and_moved_back__leaves_its_history() -> None:
    agent, _ = builders.published(builders.base_with())
    builders.edit(agent, prompt="other")
    builders.publish(agent)

    move_alias(actor=ACTOR, agent=agent, name="production", number=1, expected=None)
    move_alias(actor=ACTOR, agent=agent, name="production", number=2, expected=1)
    move_alias(actor=ACTOR, agent=agent, name="production", number=1)

    moves = AliasMove.objects.order_by("pk").values_list("from_number", "to_number")
    assert list(moves) == [(None, 1), (1, 2), (2, 1)]
    with pytest.raises(Conflict) as refused:
        move_alias(actor=ACTOR, agent=agent, name="production", number=2, expected=2)
    assert refused.value.code == "alias.moved"
    assert refused.value.data["version"] == 1
