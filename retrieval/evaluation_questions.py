"""The evaluation set of a knowledge base: questions, and the documents that should answer them.

A document stands in a question by its id, with the name it had when the question was written. In
a snapshot it is the member with that id, whatever it is called by now; where there is none (it was
deleted and uploaded again, or comes from another installation), the member with its name. So
renaming changes nothing, deleting a document makes its questions fail in the snapshots without it,
and a document that comes back under its name is found again.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from registry import audit
from registry.actors import Actor
from registry.canonical import digest_json, digest_text
from registry.errors import Conflict, FieldError, Invalid, NotFound
from retrieval.evaluation_reading import read_questions
from retrieval.knowledge_bases import lock
from retrieval.models import Document, EvaluationQuestion, KnowledgeBase

MOST_QUESTIONS = 10_000
_OBJECT_TYPE = "knowledge_base"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of the questions of one request."""

    created: int
    updated: int
    unchanged: int
    deleted: int = 0

    def as_json(self) -> Json:
        return {
            "created": self.created,
            "updated": self.updated,
            "unchanged": self.unchanged,
            "deleted": self.deleted,
        }


def find_question(base: KnowledgeBase, question_id: uuid.UUID) -> EvaluationQuestion:
    """Return a question of ``base``. Raises NotFound."""
    row = EvaluationQuestion.objects.filter(knowledge_base=base, pk=question_id).first()
    if row is None:
        raise NotFound(
            f"{base.name} has no evaluation question {question_id}.",
            code="evaluation_question.not_found",
        )
    return row


def add_question(*, actor: Actor, base: KnowledgeBase, values: object) -> EvaluationQuestion:
    """Add ``{query, documents}`` to the evaluation set.

    ``documents`` are names, or objects with ``document`` (an id) or ``name``, optionally
    ``pages`` and ``grade``; an empty list says that nothing in the base answers the question.
    Raises Invalid naming the field, Conflict where the set has the question already or is full.
    """
    with transaction.atomic():
        lock(base.pk)
        query, documents = read_questions(base, [values], prefixes=[""])[0]
        _require_new(base, query)
        _require_room(base, 1)
        row = EvaluationQuestion.objects.create(
            knowledge_base=base,
            query=query,
            query_digest=digest_text(query),
            documents=documents,
        )
        _audit(actor, base, "evaluation_question.added", after=_described(row), row=row)
    return row


def change_question(
    *, actor: Actor, base: KnowledgeBase, question_id: uuid.UUID, values: object
) -> EvaluationQuestion:
    """Replace a question whole. Raises as ``add_question``, and NotFound."""
    with transaction.atomic():
        lock(base.pk)
        row = find_question(base, question_id)
        query, documents = read_questions(base, [values], prefixes=[""])[0]
        if query != row.query:
            _require_new(base, query)
        before = _described(row)
        row.query, row.query_digest, row.documents = query, digest_text(query), documents
        after = _described(row)
        if after != before:
            row.save(update_fields=["query", "query_digest", "documents"])
            old, new = audit.changed(before, after)
            _audit(actor, base, "evaluation_question.changed", before=old, after=new, row=row)
    return row


def delete_question(*, actor: Actor, base: KnowledgeBase, question_id: uuid.UUID) -> None:
    """Take a question out of the set; evaluations that had it keep it. Raises NotFound."""
    with transaction.atomic():
        lock(base.pk)
        row = find_question(base, question_id)
        _audit(actor, base, "evaluation_question.deleted", before=_described(row), row=row)
        row.delete()


def save_questions(
    *,
    actor: Actor,
    base: KnowledgeBase,
    questions: Sequence[object],
    replace: bool = False,
    prefixes: Sequence[str] | None = None,
) -> Written:
    """Add many questions at once, all or none; one that the set has gets the new documents.

    With ``replace`` the set is these questions and no others. ``prefixes`` say where each came
    from in errors (``rows.7.``); without, ``questions.0.`` and so on. Raises Invalid with up to
    100 errors, each naming its question and field, Conflict where the set would be too large.
    """
    if len(questions) > MOST_QUESTIONS:
        raise Invalid.field(
            "questions",
            len(questions),
            f"are over {MOST_QUESTIONS}",
            allowed={"minimum": 0, "maximum": MOST_QUESTIONS},
        )
    if prefixes is None:
        prefixes = [f"questions.{position}." for position in range(len(questions))]
    with transaction.atomic():
        lock(base.pk)
        read = read_questions(base, questions, prefixes=prefixes)
        _require_once(read, prefixes)
        kept = {row.query: row for row in EvaluationQuestion.objects.filter(knowledge_base=base)}
        now = timezone.now()
        new = [
            EvaluationQuestion(
                knowledge_base=base,
                query=query,
                query_digest=digest_text(query),
                documents=documents,
                # The list keeps the order in which they came.
                created_at=now + timedelta(microseconds=position),
            )
            for position, (query, documents) in enumerate(read)
            if query not in kept
        ]
        changed = []
        for query, documents in read:
            row = kept.get(query)
            if row is not None and row.documents != documents:
                row.documents = documents
                changed.append(row)
        gone = set(kept) - {query for query, _ in read} if replace else set()
        _require_room(base, len(new) - len(gone))
        EvaluationQuestion.objects.filter(pk__in=[kept[query].pk for query in gone]).delete()
        EvaluationQuestion.objects.bulk_create(new, batch_size=1000)
        EvaluationQuestion.objects.bulk_update(changed, ["documents"], batch_size=500)
        written = Written(
            created=len(new),
            updated=len(changed),
            unchanged=len(read) - len(new) - len(changed),
            deleted=len(gone),
        )
        if new or changed or gone:
            _audit(
                actor,
                base,
                "evaluation_questions.saved",
                after={**written.as_json(), "digest": set_digest(frozen_set(base))},
            )
    return written


def frozen_set(base: KnowledgeBase) -> list[Json]:
    """Return the evaluation set as an evaluation keeps it, each document with its last name."""
    rows = list(EvaluationQuestion.objects.filter(knowledge_base=base).order_by("created_at", "pk"))
    return [
        {"question": str(row.pk), "query": row.query, "documents": documents}
        for row, documents in zip(rows, documents_now(base, rows), strict=True)
    ]


def set_digest(questions: Sequence[Json]) -> str:
    """Return what tells two evaluation sets apart: what is asked and what should answer."""
    return digest_json(
        sorted(
            (
                {
                    "query": question["query"],
                    "documents": [
                        {key: one[key] for key in ("document", "pages", "grade")}
                        for one in question["documents"]
                    ],
                }
                for question in questions
            ),
            key=lambda question: question["query"],
        )
    )


def documents_now(base: KnowledgeBase, rows: Sequence[EvaluationQuestion]) -> list[list[Json]]:
    """Return per question its documents under the names that they have, or had last."""
    ids = {one["document"] for row in rows for one in row.documents}
    names = {
        str(key): name
        for key, name in Document.objects.filter(knowledge_base=base, pk__in=ids).values_list(
            "pk", "name"
        )
    }
    return [
        [{**one, "name": names.get(one["document"], one["name"])} for one in row.documents]
        for row in rows
    ]


def render_questions(base: KnowledgeBase, rows: Sequence[EvaluationQuestion]) -> list[Json]:
    """Return questions as the API shows them, at one more query."""
    return [
        {
            "id": str(row.pk),
            "query": row.query,
            "documents": documents,
            "createdAt": row.created_at.isoformat(),
        }
        for row, documents in zip(rows, documents_now(base, rows), strict=True)
    ]


# -- what must hold ------------------------------------------------------------------------------


def _require_new(base: KnowledgeBase, query: str) -> None:
    taken = EvaluationQuestion.objects.filter(
        knowledge_base=base, query_digest=digest_text(query)
    ).first()
    if taken is not None:
        raise Conflict(
            "The evaluation set has this question already.",
            code="evaluation_question.taken",
            question=str(taken.pk),
            errors=[
                FieldError(
                    field="query",
                    value=query,
                    message="is in the evaluation set already",
                    allowed="a question that the set does not have",
                )
            ],
        )


def _require_once(read: Sequence[tuple[str, list[Json]]], prefixes: Sequence[str]) -> None:
    first: dict[str, str] = {}
    for (query, _), prefix in zip(read, prefixes, strict=True):
        if query in first:
            raise Invalid.field(
                f"{prefix}query",
                query,
                f"stands twice, first at {first[query].rstrip('.')}",
                allowed="each question once, with all its documents",
            )
        first[query] = prefix


def _require_room(base: KnowledgeBase, more: int) -> None:
    count = EvaluationQuestion.objects.filter(knowledge_base=base).count()
    if count + more > MOST_QUESTIONS:
        raise Conflict(
            f"An evaluation set has at most {MOST_QUESTIONS} questions; this one would have "
            f"{count + more}.",
            code="evaluation.too_many_questions",
            maximum=MOST_QUESTIONS,
        )


def _described(row: EvaluationQuestion) -> Json:
    return {"query": row.query, "documents": row.documents}


def _audit(
    actor: Actor,
    base: KnowledgeBase,
    action: str,
    *,
    before: Json | None = None,
    after: Json | None = None,
    row: EvaluationQuestion | None = None,
) -> None:
    if row is not None:
        question = {"question": str(row.pk)}
        before = None if before is None else {**question, **before}
        after = None if after is None else {**question, **after}
    audit.record(
        actor=actor,
        action=action,
        object_type=_OBJECT_TYPE,
        object_id=base.pk,
        before=before,
        after=after,
    )
