"""Whatever is done, in whatever order: what was published stays, and the rest follows a small model.

Rules edit drafts, publish, move aliases, change documents and chunking, build whole or in part,
cancel, prune, purge. After each, the invariants of docs/architecture.md that any of them could break are
checked on the real database, with the real model.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from agents.aliases import find_alias, move_alias
from agents.drafting import draft_of
from agents.manifest import pinned_knowledge_bases
from agents.models import Agent, AgentVersion, Alias
from agents.restoring import restore_version
from agents.verification import verify_version
from agents.versions import HOLDER_KIND, runnable
from registry.errors import Conflict
from retrieval.build_control import cancel_build
from retrieval.claims import claim_piece
from retrieval.documents import delete_document, update_document
from retrieval.encoders import encoder_for
from retrieval.indexing import finish_build, outdated, start_build
from retrieval.knowledge_bases import delete_knowledge_base, find, update_knowledge_base
from retrieval.models import (
    Chunk,
    Document,
    IndexSnapshot,
    KnowledgeBase,
    QueryEmbedding,
    SnapshotPin,
)
from retrieval.pieces import work_on
from retrieval.pins import pinned_snapshots
from retrieval.pruning import Keep, prune_knowledge_base
from retrieval.purging import purge_document
from retrieval.questions import Question
from retrieval.search import Target, retrieve, retrieve_again
from retrieval.verification import Verifier
from tests import builders
from tests.database.definition import answer_by_definition

pytestmark = pytest.mark.django_db

NAMES = ("a.md", "b.md", "c.md")
TEXTS = (
    "# Returns\n\nWithin 30 days.\n\n# Postage\n\nWe pay it in the European Union.",
    "# Warranty\n\nLamps: two years.\n\n# Batteries\n\nSix months, if not wet.",
    "# Postage\n\nWe pay it in the European Union.",
    "# Privacy\n\nMrs Example lives in Bonn.",
)
QUESTIONS = tuple(
    Question(query=text, top_k=25, confidence_threshold=0)
    for text in ("Who pays the postage?", "Is a wet battery covered?")
)
CHUNKINGS = (
    {"strategy": "markdown", "size": 60, "overlap": 0},
    {"strategy": "recursive", "size": 12, "overlap": 3},
)
BASES = st.integers(0, 1)
PLACES = st.integers(0, len(NAMES) - 1)
WORDS = st.integers(0, len(TEXTS) - 1)


@dataclass
class Doc:
    id: uuid.UUID
    name: str
    text: int
    revision: int = 1
    metadata: dict[str, int] = field(default_factory=dict)
    enabled: bool = True

    def shown(self) -> tuple[Any, ...]:
        return (str(self.id), self.name, self.revision, json.dumps(self.metadata))


@dataclass
class Base:
    id: uuid.UUID
    docs: list[Doc] = field(default_factory=list)
    # What the running build will hold, None where none runs
    building: list[tuple[Any, ...]] | None = None
    current: list[tuple[Any, ...]] | None = None
    number: int = 0


@dataclass
class Published:
    """What was said when it was published, word for word."""

    row: dict[str, Any]
    parts: list[Any]
    results: dict[tuple[str, str], list[dict[str, Any]]]
    receipts: dict[tuple[str, str], str]
    # How many of the pinned documents had been purged by then
    purged: dict[tuple[str, str], int]


class Histories(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.outer = transaction.atomic()
        self.outer.__enter__()
        self.encoder = encoder_for("all-MiniLM-L6-v2")
        self.embed = self.encoder.encode_passages
        self.encoder.encode_passages = self.embed_only_what_is_new  # type: ignore[method-assign]
        self.bases = [Base(id=builders.make_base(chunking=CHUNKINGS[0]).pk) for _ in range(2)]
        self.agent: Agent = builders.make_agent()
        self.published: list[Published] = []
        self.aliases: dict[str, int] = {}
        self.revision = draft_of(self.agent).revision
        self.purged: set[uuid.UUID] = set()
        self.vectors: dict[str, bytes] = {}
        self.ended: dict[int, tuple[str, str]] = {}
        # Most of what is to be tried needs something published.
        for base in (0, 1):
            self.add(base=base, name=0, text=base)
            self.build_whole(base=base)
        self.edit(prompt="Help.", bound=[0], called=[0, 1])
        self.publish(accept=False)
        assert self.published

    def teardown(self) -> None:
        if hasattr(self, "outer"):
            self.encoder.encode_passages = self.embed  # type: ignore[method-assign]
            transaction.set_rollback(True)
            self.outer.__exit__(None, None, None)

    def embed_only_what_is_new(self, texts: Sequence[str]) -> Any:
        """Invariant 9: what stands in a chunk of this model is copied, never embedded again."""
        known = Chunk.objects.filter(text__in=list(texts), vector__isnull=False)
        assert not known.filter(indexed_document__sealed=True).exists(), "embedded again"
        assert len(set(texts)) == len(texts), "embedded twice in one document"
        return self.embed(texts)

    # -- documents ---------------------------------------------------------------------------

    def base(self, number: int) -> KnowledgeBase:
        return find(self.bases[number].id)

    def doc(self, base: int, place: int) -> Doc | None:
        docs = self.bases[base].docs
        return docs[place] if place < len(docs) else None

    @rule(base=BASES, name=PLACES, text=WORDS)
    def add(self, base: int, name: int, text: int) -> None:
        docs = self.bases[base].docs
        same = next((doc for doc in docs if doc.name == NAMES[name]), None)
        if same is not None and same.text != text:
            with pytest.raises(Conflict) as taken, transaction.atomic():
                builders.add_text(self.base(base), NAMES[name], TEXTS[text])
            assert taken.value.code == "document.name_taken"
            return
        added = builders.add_text(self.base(base), NAMES[name], TEXTS[text])
        if same is None:
            docs.append(Doc(id=added.pk, name=NAMES[name], text=text))
        else:
            assert added.pk == same.id

    @rule(base=BASES, place=PLACES, text=WORDS)
    def replace(self, base: int, place: int, text: int) -> None:
        if (doc := self.doc(base, place)) is not None:
            builders.replace_text(self.base(base), Document(pk=doc.id), TEXTS[text])
            doc.revision += text != doc.text
            doc.text = text

    @rule(base=BASES, place=PLACES, name=PLACES)
    def rename(self, base: int, place: int, name: int) -> None:
        doc = self.doc(base, place)
        if doc is None or NAMES[name] in {one.name for one in self.bases[base].docs}:
            return
        self.update(base, doc, name=NAMES[name])
        doc.name = NAMES[name]

    @rule(base=BASES, place=PLACES, value=st.integers(0, 2))
    def describe(self, base: int, place: int, value: int) -> None:
        if (doc := self.doc(base, place)) is not None:
            self.update(base, doc, metadata={"value": value})
            doc.metadata = {"value": value}

    @rule(base=BASES, place=PLACES, enabled=st.booleans())
    def switch(self, base: int, place: int, enabled: bool) -> None:
        if (doc := self.doc(base, place)) is not None:
            self.update(base, doc, enabled=enabled)
            doc.enabled = enabled

    def update(self, base: int, doc: Doc, **changes: Any) -> None:
        update_document(actor=builders.ACTOR, base=self.base(base), document_id=doc.id, **changes)

    @rule(base=BASES, place=PLACES)
    def delete(self, base: int, place: int) -> None:
        if (doc := self.doc(base, place)) is not None:
            delete_document(actor=builders.ACTOR, base=self.base(base), document_id=doc.id)
            self.bases[base].docs.remove(doc)

    @rule(base=BASES, place=PLACES)
    def purge(self, base: int, place: int) -> None:
        doc = self.doc(base, place)
        if doc is None or not self.published:
            return
        purge_document(
            actor=builders.ACTOR, base=self.base(base), document_id=doc.id, reason="by law"
        )
        self.purged.add(doc.id)
        ours = self.bases[base]
        ours.docs.remove(doc)
        if ours.building is not None:
            ours.building = [one for one in ours.building if one[0] != str(doc.id)]

    @rule(base=BASES, last=st.integers(0, 1))
    def prune(self, base: int, last: int) -> None:
        """Invariant 11: what is pinned or current stays; all other ended snapshots may go."""
        snapshots = IndexSnapshot.objects.filter(knowledge_base=self.bases[base].id)
        before = set(snapshots.values_list("pk", flat=True))
        held = set(snapshots.filter(pins__isnull=False).values_list("pk", flat=True)) | {
            self.base(base).current_snapshot_id
        }
        prune_knowledge_base(
            actor=builders.ACTOR,
            knowledge_base_id=self.bases[base].id,
            keep=Keep(last=last, days=0),
        )
        gone = before - set(snapshots.values_list("pk", flat=True))
        event(f"pruned: {bool(gone)}")
        assert not gone & held
        for pk in gone:
            self.ended.pop(pk, None)

    @rule(base=BASES, chunking=st.sampled_from(CHUNKINGS))
    def cut_otherwise(self, base: int, chunking: dict[str, Any]) -> None:
        update_knowledge_base(
            actor=builders.ACTOR,
            knowledge_base_id=self.bases[base].id,
            values={"chunking": chunking},
        )

    @rule(base=BASES, count=st.sampled_from([1, 5]))
    def ask_for(self, base: int, count: int) -> None:
        update_knowledge_base(
            actor=builders.ACTOR,
            knowledge_base_id=self.bases[base].id,
            values={"settings": {"defaultTopK": count}},
        )

    # -- builds ------------------------------------------------------------------------------

    def start(self, base: int) -> IndexSnapshot | None:
        ours = self.bases[base]
        before = IndexSnapshot.objects.filter(knowledge_base=ours.id, state="building").first()
        snapshot = start_build(ours.id)
        if snapshot is not None and snapshot != before:
            ours.building = [doc.shown() for doc in ours.docs if doc.enabled]
            ours.number += 1
            assert snapshot.number == ours.number
        return snapshot

    def finish(self, base: int, snapshot: IndexSnapshot) -> None:
        ours = self.bases[base]
        waiting = snapshot.pieces.filter(state="waiting").exists()
        assert finish_build(snapshot.pk) is not waiting
        if waiting:
            return
        snapshot.refresh_from_db()
        assert snapshot.state in {"ready", "unchanged"}
        event(f"build: {snapshot.state}")
        ours.current, ours.building = ours.building, None

    @rule(base=BASES, pieces=st.integers(0, 2))
    def build_in_part(self, base: int, pieces: int) -> None:
        snapshot = self.start(base)
        if snapshot is None:
            return
        for _ in range(pieces):
            if (claim := claim_piece(snapshot.pk)) is not None:
                work_on(claim)
        self.finish(base, snapshot)

    @rule(base=BASES)
    def build_whole(self, base: int) -> None:
        while (snapshot := self.start(base)) is not None:
            builders.work_off(snapshot)
            self.finish(base, snapshot)
        assert self.bases[base].current in (
            None,
            [doc.shown() for doc in self.bases[base].docs if doc.enabled],
        )

    @rule(base=BASES)
    def cancel(self, base: int) -> None:
        ours = self.bases[base]
        if ours.building is not None:
            event("build: cancelled")
            cancel_build(actor=builders.ACTOR, base=self.base(base), number=ours.number)
            ours.building = None

    # -- agents ------------------------------------------------------------------------------

    @rule(
        prompt=st.sampled_from(["", "Help.", "Help more."]),
        bound=st.lists(BASES, max_size=2),
        called=st.lists(BASES, max_size=2, unique=True),
    )
    def edit(self, prompt: str, bound: list[int], called: list[int]) -> None:
        before = draft_of(self.agent)
        draft = builders.edit(
            self.agent,
            prompt=prompt,
            bindings=[{"knowledgeBase": str(self.bases[one].id)} for one in bound],
            tools=[builders.rag_tool(self.base(one), f"search_{one}") for one in called],
        )
        assert draft.pk == before.pk
        assert draft.revision >= self.revision
        self.revision = draft.revision

    @rule(accept=st.booleans())
    def publish(self, accept: bool) -> None:
        draft = draft_of(self.agent)
        held = {row.knowledge_base_id for row in draft.bindings.all()} | {
            row.knowledge_base_id for row in draft.tools.all()
        }
        ours = [base for base in self.bases if base.id in held]
        without = any(base.current is None for base in ours)
        behind = any(outdated(find(base.id)) is not None for base in ours)
        version, refusal = tried(partial(builders.publish, self.agent, accept_outdated=accept))
        if without:
            assert refusal == "publish.no_snapshot"
        elif behind and not accept:
            assert refusal == "publish.snapshot_outdated"
        else:
            assert refusal in (None, "publish.unchanged")
        event(f"publish: {refusal or 'done'}")
        if version is None:
            return
        assert version.number == len(self.published) + 1
        self.published.append(self.said(AgentVersion.objects.get(pk=version.pk)))

    @precondition(lambda self: self.published)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        restore_version(
            actor=builders.ACTOR,
            access=None,
            agent=self.agent,
            number=data.draw(st.integers(1, len(self.published))),
            expected_revision="*",
        )
        self.revision = draft_of(self.agent).revision

    @precondition(lambda self: self.published)
    @rule(data=st.data(), name=st.sampled_from(["production", "staging"]))
    def move(self, data: st.DataObject, name: str) -> None:
        numbers = st.integers(1, len(self.published))
        number, expected = data.draw(numbers), data.draw(st.none() | numbers)
        _, refusal = tried(
            partial(
                move_alias,
                actor=builders.ACTOR,
                agent=self.agent,
                name=name,
                number=number,
                expected=expected,
            )
        )
        if expected == self.aliases.get(name):
            assert refusal is None
            self.aliases[name] = number
        else:
            assert refusal == "alias.moved"

    @rule(base=BASES)
    def delete_what_is_held(self, base: int) -> None:
        ours = self.bases[base].id
        pinned = SnapshotPin.objects.filter(knowledge_base=ours)
        if not pinned.exists():
            return
        with pytest.raises(Conflict) as held, transaction.atomic():
            delete_knowledge_base(actor=builders.ACTOR, knowledge_base_id=ours)
        assert held.value.code == "knowledge_base.in_use"
        assert set(pinned.values_list("holder_label", flat=True)) <= set(held.value.data["holders"])
        for pin in pinned:
            with (
                pytest.raises(IntegrityError, match="immutable"),
                transaction.atomic(),
                connection.cursor() as cursor,
            ):
                cursor.execute(
                    "DELETE FROM retrieval_indexsnapshot WHERE id = %s", [pin.snapshot_id]
                )

    # -- what was said ------------------------------------------------------------------------

    def said(self, version: AgentVersion) -> Published:
        results, receipts, purged = {}, {}, {}
        for key, (target, question) in self.asked(version):
            found = retrieve(target, question)
            assert found.results == answer_by_definition(target, question)
            results[key], receipts[key] = found.results, found.receipt
            purged[key] = held_purged(target, self.purged)
        return Published(
            row=columns(version),
            parts=parts(version),
            results=results,
            receipts=receipts,
            purged=purged,
        )

    def asked(
        self, version: AgentVersion
    ) -> Iterator[tuple[tuple[str, str], tuple[Target, Question]]]:
        for base_id, target in runnable(self.agent, version).targets.items():
            for question in QUESTIONS:
                yield (str(base_id), question.query), (target, question)

    # -- what always holds -------------------------------------------------------------------

    @invariant()
    def what_is_checked_at_commit_holds(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")

    @invariant()
    def published_versions_are_what_they_were(self) -> None:
        """Invariants 1, 2 and 3, and numbers without gaps."""
        versions = list(self.agent.versions.filter(state="published").order_by("number"))
        assert [version.number for version in versions] == [
            number + 1 for number in range(len(self.published))
        ]
        assert self.agent.versions.filter(state="draft").count() == 1
        verifier = Verifier()
        for version, said in zip(versions, self.published, strict=True):
            assert (columns(version), parts(version)) == (said.row, said.parts)
            pinned = pinned_snapshots(holder_kind=HOLDER_KIND, holder_id=version.pk)
            assert {
                base: one["snapshotDigest"]
                for base, one in pinned_knowledge_bases(version.manifest).items()
            } == {base: snapshot.digest for base, snapshot in pinned.items()}
            differences = [part.difference for part in verify_version(version, verifier)]
            assert not any(differences), differences
            self.answers_are_what_they_were(version, said)

    def answers_are_what_they_were(self, version: AgentVersion, said: Published) -> None:
        for key, (target, question) in self.asked(version):
            found, again = retrieve(target, question), retrieve_again(target, question)
            left = [
                result
                for result in said.results[key]
                if uuid.UUID(result["document"]["id"]) not in self.purged
            ]
            assert found.results == again.results == left
            assert found.receipt == again.receipt
            held = held_purged(target, self.purged)
            event(f"pinned and purged: {held}")
            assert found.purged_documents == held
            assert (found.receipt == said.receipts[key]) == (held == said.purged[key])

    @invariant()
    def a_question_has_one_vector(self) -> None:
        """Invariant 5."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT query_digest, vector_send(vector) FROM retrieval_queryembedding")
            now = {digest: bytes(sent) for digest, sent in cursor.fetchall()}
        assert QueryEmbedding.objects.count() == len(now)
        assert self.vectors.items() <= now.items()
        self.vectors = now

    @invariant()
    def snapshots_are_sealed_whole(self) -> None:
        """Invariant 7: the current one is the model's, and none that ended changes."""
        for ours in self.bases:
            base = find(ours.id)
            assert base.last_snapshot_number == ours.number
            current = base.current_snapshot
            if ours.current is None:
                assert current is None
                continue
            assert current is not None
            assert current.state == "ready"
            members = current.members.order_by("document_id")
            shown = [
                (str(one.document_id), one.name, one.revision_number, json.dumps(one.metadata))
                for one in members
            ]
            assert shown == sorted(ours.current)
        ended = IndexSnapshot.objects.exclude(state="building").filter(
            knowledge_base__in=[ours.id for ours in self.bases]
        )
        now = {one.pk: (one.state, one.digest) for one in ended}
        assert self.ended.items() <= now.items()
        self.ended = now

    @invariant()
    def aliases_point_where_they_were_moved(self) -> None:
        assert self.aliases == {
            name: find_alias(self.agent, name).version.number
            for name in Alias.objects.filter(agent=self.agent).values_list("name", flat=True)
        }


def tried(work: Callable[[], Any]) -> tuple[Any, str | None]:
    """What ``work`` returned and None, or None and the code of the conflict it met."""
    try:
        with transaction.atomic():
            return work(), None
    except Conflict as refused:
        return None, refused.code


def held_purged(target: Target, purged: set[uuid.UUID]) -> int:
    return target.snapshot.members.filter(document_id__in=purged).count()


def columns(version: AgentVersion) -> dict[str, Any]:
    return dict(AgentVersion.objects.filter(pk=version.pk).values().get())


def parts(version: AgentVersion) -> list[Any]:
    return [*version.bindings.order_by("pk").values(), *version.tools.order_by("pk").values()]


QUICK = settings(
    max_examples=6,
    stateful_step_count=30,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.timeout(600)
def test_histories__of_thirty_steps__keep_every_invariant() -> None:
    run_state_machine_as_test(Histories, settings=QUICK)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_histories__long_and_many__keep_every_invariant() -> None:
    # Others in every run: this one is here to find what nobody has thought of.
    run_state_machine_as_test(
        Histories,
        settings=settings(QUICK, max_examples=60, stateful_step_count=80, derandomize=False),
    )
