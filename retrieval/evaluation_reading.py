"""Reading the questions of requests and files: what each names is found, or said to be wrong."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from registry import requests
from registry.errors import FieldError, Invalid
from registry.strict_json import check_text
from retrieval.models import Document, KnowledgeBase
from retrieval.questions import MAX_QUERY_CHARACTERS

MEMBERS = ("query", "documents")
DOCUMENT_MEMBERS = ("document", "name", "pages", "grade")
MOST_DOCUMENTS = 500
MOST_PAGES = 1000
LARGEST_GRADE = 100
_LARGEST_PAGE = 1_000_000
_MOST_ERRORS = 100
_NAMES_SUGGESTED = 3

Json = dict[str, Any]


def read_questions(
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
