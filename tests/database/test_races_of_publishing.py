"""Editors, deletions and builds that meet a publish: each sees all of it or nothing."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest
from rest_framework.test import APIClient

from agents.aliases import find_alias, move_alias
from agents.drafting import draft_of, edit_draft
from agents.manifest import pinned_knowledge_bases
from agents.models import Agent, AgentVersion, AliasMove
from agents.publishing import publish_draft
from agents.tools import call_tool, retrieve_attached
from agents.versions import runnable
from registry.errors import Conflict, Invalid, StaleRevision
from retrieval.indexing import finish_build
from retrieval.knowledge_bases import delete_knowledge_base, find
from retrieval.models import IndexSnapshot, KnowledgeBase, SnapshotPin
from retrieval.questions import Question
from tests import builders
from tests.database.threads import Running, lock_of_base, other_session, queued, together, waiting
from tests.worker import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def base(transactional_db: None) -> KnowledgeBase:
    return builders.base_with("Returns")


@pytest.fixture
def agent(base: KnowledgeBase) -> Agent:
    made = builders.make_agent("support")
    builders.edit(
        made,
        bindings=[{"knowledgeBase": str(base.pk), "label": "first"}],
        tools=[builders.rag_tool(base)],
    )
    return made


def lock_of(agent: Agent) -> str:
    return f"SELECT 1 FROM agents_agent WHERE id = '{agent.pk}' FOR UPDATE"


def labels(version: AgentVersion) -> list[str]:
    return list(version.bindings.order_by("position").values_list("label", flat=True))


def labels_in_manifest(version: AgentVersion) -> list[str]:
    return [binding["label"] for binding in json.loads(version.manifest)["bindings"]]


def add_binding(agent: Agent, base: KnowledgeBase, revision: str = "*") -> AgentVersion:
    bindings = [
        {"knowledgeBase": str(base.pk), "label": "first"},
        {"knowledgeBase": str(base.pk), "label": "second"},
    ]
    return edit_draft(
        actor=builders.ACTOR,
        access=None,
        agent=agent,
        values={"bindings": bindings},
        expected_revision=revision,
        whole=False,
    )


def insert_binding(session: psycopg.Connection, draft: AgentVersion, base: KnowledgeBase) -> None:
    session.execute(
        "INSERT INTO agents_knowledgebinding (id, version_id, position, knowledge_base_id, label, "
        "instruction, enabled) VALUES (%s, %s, 9, %s, 'by SQL', '', true)",
        [uuid.uuid4(), draft.pk, base.pk],
    )


def test_editor__waiting_for_a_publish__edits_the_new_draft(
    agent: Agent, base: KnowledgeBase
) -> None:
    version, edited = queued(
        lock_of(agent),
        partial(builders.publish, agent),
        partial(add_binding, agent, base),
    )

    assert (labels(version), labels_in_manifest(version)) == (["first"], ["first"])
    assert edited.pk == draft_of(agent).pk != version.pk
    assert labels(edited) == ["first", "second"]
    assert edited.revision == version.revision + 1


def test_editor__with_an_older_revision_waiting_for_a_publish__is_told_so(
    agent: Agent, base: KnowledgeBase
) -> None:
    stale = str(draft_of(agent).revision - 1)
    version, edited = queued(
        lock_of(agent),
        partial(builders.publish, agent),
        partial(add_binding, agent, base, stale),
    )
    assert labels(version) == ["first"]
    assert isinstance(edited, StaleRevision)
    assert labels(draft_of(agent)) == ["first"]


def test_publish__waiting_for_an_editor__publishes_the_edit(
    agent: Agent, base: KnowledgeBase
) -> None:
    _, version = queued(
        lock_of(agent),
        partial(add_binding, agent, base),
        partial(builders.publish, agent),
    )
    assert labels(version) == labels_in_manifest(version) == ["first", "second"]


def test_publish_with_a_revision__waiting_for_an_editor__refuses_what_nobody_has_seen(
    agent: Agent, base: KnowledgeBase
) -> None:
    seen = str(draft_of(agent).revision)
    _, outcome = queued(
        lock_of(agent),
        partial(add_binding, agent, base),
        partial(publish_draft, actor=builders.ACTOR, agent=agent, expected_revision=seen),
    )
    assert isinstance(outcome, StaleRevision)
    assert not AgentVersion.objects.filter(state="published").exists()


def test_sql_binding__waiting_for_a_publish__is_refused(agent: Agent, base: KnowledgeBase) -> None:
    draft = draft_of(agent)
    with other_session() as holder, other_session() as editor:
        holder.execute(lock_of_base(base))
        publishing = Running(partial(builders.publish, agent))
        wait_until(lambda: waiting() >= 1)
        editing = Running(partial(insert_binding, editor, draft, base))
        wait_until(lambda: waiting() >= 2)
        holder.commit()
        version, refusal = publishing.end(), editing.end()

    assert isinstance(refusal, psycopg.errors.RestrictViolation)
    assert labels(version) == labels_in_manifest(version) == ["first"]


def test_publish__waiting_for_a_sql_binding__publishes_it(
    agent: Agent, base: KnowledgeBase
) -> None:
    with other_session() as editor:
        insert_binding(editor, draft_of(agent), base)
        publishing = Running(partial(builders.publish, agent))
        wait_until(lambda: waiting() >= 1)
        editor.commit()
        version = publishing.end()
    assert labels(version) == labels_in_manifest(version) == ["first", "by SQL"]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_sql_binding__in_a_transaction_that_saw_the_draft__cannot_enter_the_version(
    agent: Agent, base: KnowledgeBase, level: str
) -> None:
    draft = draft_of(agent)
    with other_session() as editor:
        editor.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        editor.execute("SELECT state FROM agents_agentversion")
        version = builders.publish(agent)
        with pytest.raises((psycopg.errors.SerializationFailure, psycopg.errors.RestrictViolation)):
            insert_binding(editor, draft, base)
    assert labels(version) == ["first"]


def test_snapshot_deletion__in_a_transaction_from_before_the_pin__cannot_commit(
    agent: Agent, base: KnowledgeBase
) -> None:
    builders.add_text(base, "more.md", "# More\n\nA second document.")
    old = find(base.pk).current_snapshot
    assert old is not None
    with other_session() as attacker:
        attacker.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        attacker.execute("SELECT 1 FROM retrieval_snapshotpin")
        version = builders.publish(agent, accept_outdated=True)
        builders.build(base)
        with pytest.raises(psycopg.Error):  # noqa: PT012 - either statement may be the one
            attacker.execute("DELETE FROM retrieval_indexsnapshot WHERE id = %s", [old.pk])
            attacker.execute(
                "DELETE FROM retrieval_snapshotmember WHERE snapshot_id = %s", [old.pk]
            )
            attacker.commit()
    assert SnapshotPin.objects.get(holder_id=str(version.pk)).snapshot == old
    assert old.members.count() == 2


def test_one_draft__published_sixteen_times_at_once__is_one_version(agent: Agent) -> None:
    outcomes = together(*[partial(builders.publish, agent)] * 16)

    published = [one for one in outcomes if isinstance(one, AgentVersion)]
    refused = [one for one in outcomes if isinstance(one, Conflict)]
    assert (len(published), len(refused)) == (1, 15)
    assert {(one.code, one.data["version"]) for one in refused} == {("publish.unchanged", 1)}
    assert list(agent.versions.filter(state="published").values_list("number", flat=True)) == [1]


def test_sixteen_editors__who_publish_at_once__get_numbers_without_gaps(agent: Agent) -> None:
    def edit_and_publish(number: int) -> Any:
        builders.edit(agent, prompt=f"Prompt {number}")
        return builders.publish(agent)

    outcomes = together(*(partial(edit_and_publish, number) for number in range(16)))

    assert {type(one) for one in outcomes} <= {AgentVersion, Conflict}
    published = [one for one in outcomes if isinstance(one, AgentVersion)]
    assert published
    numbers = agent.versions.filter(state="published").order_by("number")
    assert list(numbers.values_list("number", flat=True)) == list(range(1, len(published) + 1))
    assert len({version.digest for version in numbers}) == len(published)
    for version in numbers:
        assert json.loads(version.manifest)["prompt"] == version.prompt
        assert labels(version) == labels_in_manifest(version)
        pinned = SnapshotPin.objects.get(holder_id=str(version.pk)).snapshot
        (said,) = pinned_knowledge_bases(version.manifest).values()
        assert said["snapshotDigest"] == pinned.digest
    assert agent.versions.filter(state="draft").count() == 1


def finished_but_not_sealed(base: KnowledgeBase) -> IndexSnapshot:
    builders.add_text(base, "more.md", "# More\n\nA second document.")
    return builders.build_unsealed(base)


def pinned_by(version: AgentVersion) -> tuple[int, str, str]:
    """Number of the pinned snapshot, its digest, and the digest that the manifest says."""
    snapshot = SnapshotPin.objects.get(holder_id=str(version.pk)).snapshot
    (said,) = pinned_knowledge_bases(version.manifest).values()
    return snapshot.number, snapshot.digest, said["snapshotDigest"]


def test_publish__waiting_for_a_snapshot_switch__pins_the_new_one(
    agent: Agent, base: KnowledgeBase
) -> None:
    snapshot = finished_but_not_sealed(base)
    ended, version = queued(
        lock_of_base(base),
        partial(finish_build, snapshot.pk),
        partial(builders.publish, agent),
    )
    assert ended is True
    number, pinned, said = pinned_by(version)
    assert (number, pinned) == (2, said)


def test_snapshot_switch__waiting_for_a_publish__comes_after_it(
    agent: Agent, base: KnowledgeBase
) -> None:
    snapshot = finished_but_not_sealed(base)
    version, ended = queued(
        lock_of_base(base),
        partial(builders.publish, agent, accept_outdated=True),
        partial(finish_build, snapshot.pk),
    )
    assert ended is True
    number, pinned, said = pinned_by(version)
    assert (number, pinned) == (1, said)
    current = find(base.pk).current_snapshot
    assert current is not None
    assert current.number == 2


@pytest.mark.parametrize("first", ["publish", "switch"])
def test_two_tools_and_a_binding__while_their_base_switches__pin_one_and_the_same(
    agent: Agent, base: KnowledgeBase, first: str
) -> None:
    builders.edit(agent, tools=[builders.rag_tool(base, "one"), builders.rag_tool(base, "two")])
    snapshot = finished_but_not_sealed(base)
    works: list[Callable[[], Any]] = [
        partial(builders.publish, agent, accept_outdated=True),
        partial(finish_build, snapshot.pk),
    ]
    outcomes = queued(lock_of_base(base), *(works if first == "publish" else works[::-1]))
    (version,) = [one for one in outcomes if isinstance(one, AgentVersion)]

    number, pinned, said = pinned_by(version)
    assert (number, pinned) == (1 if first == "publish" else 2, said)
    served = runnable(agent, AgentVersion.objects.get(pk=version.pk))
    question = Question(query="When is the money back?")
    answers = [
        call_tool(version=served, name=name, question=question, access=builders.ACCESS)["snapshot"]
        for name in ("one", "two")
    ]
    attached = retrieve_attached(
        version=served, context={}, question=question, access=builders.ACCESS
    )
    answers += [group["snapshot"] for group in attached["groups"]]
    assert answers == [{"number": number, "digest": said}] * 3


def test_one_draft__published_sixteen_times_at_once_by_http__is_created_once(
    agent: Agent, client_for: Callable[..., APIClient]
) -> None:
    clients = [client_for("publisher") for _ in range(16)]
    path = f"/api/v1/agents/{agent.slug}/publish"

    answers = together(*(partial(client.post, path, {}, format="json") for client in clients))

    assert sorted(answer.status_code for answer in answers) == [201, *[409] * 15]
    refused = [answer.json() for answer in answers if answer.status_code == 409]
    assert {(one["code"], one["version"]) for one in refused} == {("publish.unchanged", 1)}


@pytest.mark.parametrize("first", ["publish", "delete"])
def test_knowledge_base__deleted_while_its_agent_publishes__is_kept(
    agent: Agent, base: KnowledgeBase, first: str
) -> None:
    works: list[Callable[[], Any]] = [
        partial(builders.publish, agent),
        partial(delete_knowledge_base, actor=builders.ACTOR, knowledge_base_id=base.pk),
    ]
    outcomes = queued(lock_of_base(base), *(works if first == "publish" else works[::-1]))
    version, deleted = outcomes if first == "publish" else outcomes[::-1]

    assert isinstance(version, AgentVersion)
    assert isinstance(deleted, Conflict)
    assert deleted.code == "knowledge_base.in_use"
    assert "draft of support" in deleted.data["holders"]
    assert pinned_by(version)[0] == 1


def test_knowledge_base__deleted_while_an_editor_binds_it__is_kept_or_unknown(
    agent: Agent,
) -> None:
    for first in ("edit", "delete"):
        spare = builders.base_with()
        works: list[Callable[[], Any]] = [
            partial(builders.edit, agent, tools=[builders.rag_tool(spare)]),
            partial(delete_knowledge_base, actor=builders.ACTOR, knowledge_base_id=spare.pk),
        ]
        outcomes = queued(lock_of_base(spare), *(works if first == "edit" else works[::-1]))
        edited, deleted = outcomes if first == "edit" else outcomes[::-1]
        if first == "edit":
            assert isinstance(edited, AgentVersion)
            assert isinstance(deleted, Conflict)
            assert deleted.code == "knowledge_base.in_use"
        else:
            assert deleted is None
            assert isinstance(edited, Invalid)
            assert edited.code == "knowledge_base.unknown"
            assert not KnowledgeBase.objects.filter(pk=spare.pk).exists()


def test_alias__moved_by_two_who_expect_the_same__is_moved_once(agent: Agent) -> None:
    for number in (1, 2, 3):
        builders.edit(agent, prompt=f"Prompt {number}")
        builders.publish(agent)
    move_alias(actor=builders.ACTOR, agent=agent, name="production", number=1, expected=None)

    move = partial(move_alias, actor=builders.ACTOR, agent=agent, name="production", expected=1)
    outcomes = together(partial(move, number=2), partial(move, number=3))

    lost = [one for one in outcomes if isinstance(one, Conflict)]
    now = find_alias(agent, "production").version.number
    assert [one.code for one in lost] == ["alias.moved"]
    assert lost[0].data["version"] == now
    assert list(AliasMove.objects.order_by("id").values_list("from_number", "to_number")) == [
        (None, 1),
        (1, now),
    ]
