"""The evaluation set of a knowledge base: questions, and the documents that should answer them.

A document stands in a question by its id, with the name it had when the question was written. In
a snapshot it is the member with that id, whatever it is called by now; where there is none (it was
deleted and uploaded again, or comes from another installation), the member with its name. So
renaming changes nothing, deleting a document makes its questions fail in the snapshots without it,
and a document that comes back under its name is found again.
"""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from registry import audit, requests
from registry.actors import Actor
from registry.canonical import digest_json, digest_text
from registry.errors import Conflict, FieldError, Invalid, NotFound
from registry.strict_json import check_text
from retrieval.knowledge_bases import lock
from retrieval.models import Document, EvaluationQuestion, KnowledgeBase
from retrieval.questions import MAX_QUERY_CHARACTERS

MEMBERS = ("query", "documents")
DOCUMENT_MEMBERS = ("document", "name", "pages", "grade")
MOST_QUESTIONS = 10_000
MOST_DOCUMENTS = 500
MOST_PAGES = 1000
LARGEST_GRADE = 100
_LARGEST_PAGE = 1_000_000
_MOST_ERRORS = 100
_NAMES_SUGGESTED = 3
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
    Raises Invalid naming the field, Conflict where the set has the question already.
    """
    with transaction.atomic():
        lock(base.pk)
        query, documents = _read_all(base, [values], prefixes=[""])[0]
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
        query, documents = _read_all(base, [values], prefixes=[""])[0]
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
    100 errors, each naming its question and field.
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
        read = _read_all(base, questions, prefixes=prefixes)
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


# -- reading -----------------------------------------------------------------------------------


def _read_all(
    base: KnowledgeBase, values: Sequence[object], *, prefixes: Sequence[str]
) -> list[tuple[str, list[Json]]]:
    """Return query and documents of each, or raise one Invalid that names all that is wrong."""
    known = _Documents(base, values)
    read: list[tuple[str, list[Json]]] = []
    errors: list[FieldError] = []
    code = None
    for value, prefix in zip(values, prefixes, strict=True):
        try:
            read.append(_read(known, value, prefix))
        except Invalid as error:
            code = code or error.code
            errors.extend(error.errors)
    if errors:
        more = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
        first = errors[0]
        raise Invalid(
            f"{first.field}: {first.message}{more}", code=code, errors=errors[:_MOST_ERRORS]
        )
    return read


def _read(known: _Documents, value: object, prefix: str) -> tuple[str, list[Json]]:
    if not isinstance(value, Mapping):
        raise Invalid.field(
            prefix.rstrip(".") or "(body)", value, "must be an object", allowed=list(MEMBERS)
        )
    requests.refuse_unknown(value, MEMBERS, prefix=prefix)
    body = {f"{prefix}{key}": member for key, member in value.items()}
    query = check_text(
        requests.text(body, f"{prefix}query", longest=MAX_QUERY_CHARACTERS), field=f"{prefix}query"
    )
    field = f"{prefix}documents"
    wanted = value.get("documents")
    if not isinstance(wanted, list):
        raise Invalid.field(
            field,
            wanted,
            "must be a list; an empty one says that no document answers the question",
            allowed="names of documents, or objects with document or name",
            code="request.required" if wanted is None else None,
        )
    if len(wanted) > MOST_DOCUMENTS:
        raise Invalid.field(
            field, len(wanted), "are too many", allowed={"minimum": 0, "maximum": MOST_DOCUMENTS}
        )
    documents = [known.read(one, f"{field}.{place}") for place, one in enumerate(wanted)]
    seen: set[str] = set()
    for place, one in enumerate(documents):
        if one["document"] in seen:
            raise Invalid.field(
                f"{field}.{place}",
                one["name"],
                "stands twice in one question",
                allowed="each document once, with all its pages",
            )
        seen.add(one["document"])
    return query, documents


class _Documents:
    """The documents that requests name, found at two queries."""

    def __init__(self, base: KnowledgeBase, questions: Iterable[object]) -> None:
        self._base = base
        names, ids = set(), set()
        for one in _named(questions):
            if isinstance(one, str):
                names.add(one)
            elif isinstance(one, Mapping):
                if isinstance(one.get("name"), str):
                    names.add(one["name"])
                try:
                    ids.add(uuid.UUID(str(one.get("document"))))
                except ValueError:
                    continue
        of_base = Document.objects.filter(knowledge_base=base)
        storable = [name for name in names if "\x00" not in name]
        living = of_base.filter(deleted_at__isnull=True, name__in=storable)
        self._by_name = dict(living.values_list("name", "pk"))
        self._by_id = dict(of_base.filter(pk__in=ids).values_list("pk", "name"))

    def read(self, value: object, field: str) -> Json:
        if isinstance(value, str):
            value = {"name": value}
        if not isinstance(value, Mapping):
            raise Invalid.field(
                field,
                value,
                "must be a document's name or an object",
                allowed=list(DOCUMENT_MEMBERS),
            )
        requests.refuse_unknown(value, DOCUMENT_MEMBERS, prefix=f"{field}.")
        body = {f"{field}.{key}": member for key, member in value.items()}
        found, name = self._find(value, body, field)
        grade = requests.integer(body, f"{field}.grade", least=1, most=LARGEST_GRADE, default=1)
        return {
            "document": str(found),
            "name": name,
            "pages": _pages(value.get("pages"), f"{field}.pages"),
            "grade": grade,
        }

    def _find(
        self, value: Mapping[str, Any], body: Mapping[str, Any], field: str
    ) -> tuple[uuid.UUID, str]:
        if value.get("document") is not None:
            wanted = requests.parse_uuid(value["document"], field=f"{field}.document")
            if wanted in self._by_id:
                return wanted, self._by_id[wanted]
            if value.get("name") is None:
                raise Invalid.field(
                    f"{field}.document",
                    str(wanted),
                    "is no document of this knowledge base",
                    allowed="the id of one of its documents",
                    code="document.unknown",
                )
        name = check_text(requests.text(body, f"{field}.name", longest=500), field=f"{field}.name")
        if name not in self._by_name:
            raise Invalid.field(
                f"{field}.name",
                name,
                "is no document of this knowledge base",
                allowed=self._like(name) or "the name of one of its documents",
                code="document.unknown",
            )
        return self._by_name[name], name

    def _like(self, name: str) -> list[str]:
        living = Document.objects.filter(knowledge_base=self._base, deleted_at__isnull=True)
        names = list(living.order_by("name").values_list("name", flat=True)[:2000])
        return difflib.get_close_matches(name, names, _NAMES_SUGGESTED)


def _named(questions: Iterable[object]) -> Iterable[object]:
    for question in questions:
        if isinstance(question, Mapping) and isinstance(question.get("documents"), list):
            yield from question["documents"]


def _pages(value: object, field: str) -> list[int] | None:
    if value is None:
        return None
    allowed = f"page numbers from 1, at most {MOST_PAGES} of them, or null for any page"
    if (
        not isinstance(value, list)
        or not 1 <= len(value) <= MOST_PAGES
        or not all(
            isinstance(page, int) and not isinstance(page, bool) and 1 <= page <= _LARGEST_PAGE
            for page in value
        )
    ):
        raise Invalid.field(field, value, "must be a list of page numbers", allowed=allowed)
    return sorted(set(value))


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
