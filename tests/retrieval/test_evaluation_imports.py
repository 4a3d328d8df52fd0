"""Evaluation sets out of files, and mistakes named by their row."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry.errors import Invalid
from retrieval.evaluation_imports import import_questions
from retrieval.models import EvaluationQuestion, KnowledgeBase
from tests import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def base() -> KnowledgeBase:
    base = builders.make_base()
    builders.add_text(base, "eu/returns.md", builders.RETURNS)
    builders.add_text(base, "warranty.md", builders.WARRANTY)
    return base


def _import(base: KnowledgeBase, name: str, content: str | bytes, **options: Any) -> Any:
    encoded = content if isinstance(content, bytes) else content.encode()
    return import_questions(actor=builders.ACTOR, base=base, name=name, content=encoded, **options)


def _kept(base: KnowledgeBase) -> dict[str, list[tuple[str, Any, int]]]:
    return {
        row.query: [(one["name"], one["pages"], one["grade"]) for one in row.documents]
        for row in EvaluationQuestion.objects.filter(knowledge_base=base)
    }


def test_jsonl__names_objects_and_nothing__become_questions(base: KnowledgeBase) -> None:
    lines = [
        {"query": "How long?", "documents": ["warranty.md"]},
        {"query": "Which page?", "documents": [{"name": "eu/returns.md", "pages": [3, 1]}]},
        {"query": "Gift cards?\u2028Really?", "documents": []},
    ]
    text = "\ufeff" + "\n\n".join(json.dumps(line, ensure_ascii=False) for line in lines)

    written = _import(base, "set.JSONL", text)

    assert written.as_json() == {"created": 3, "updated": 0, "unchanged": 0, "deleted": 0}
    assert _kept(base) == {
        "How long?": [("warranty.md", None, 1)],
        "Which page?": [("eu/returns.md", [1, 3], 1)],
        "Gift cards?\u2028Really?": [],
    }


def test_csv__rows_of_one_question__become_one(base: KnowledgeBase) -> None:
    text = (
        "document,query,grade,page\r\n"
        'warranty.md,"How long, and\nfor what?",2,\r\n'
        'eu/returns.md,"How long, and\nfor what?",,4\r\n'
        'eu/returns.md,"How long, and\nfor what?",,2; 3\r\n'
        ",Gift cards?,,\r\n"
    )

    _import(base, "set.csv", text)

    assert _kept(base) == {
        "How long, and\nfor what?": [("warranty.md", None, 2), ("eu/returns.md", [2, 3, 4], 1)],
        "Gift cards?": [],
    }


def test_import__again_with_changes__counts_what_changed(base: KnowledgeBase) -> None:
    _import(base, "set.csv", "query,document\nA?,warranty.md\nB?,warranty.md\nC?,")

    again = _import(
        base,
        "set.csv",
        "query,document\nA?,warranty.md\nB?,eu/returns.md\nD?,",
        replace_all=True,
    )

    assert again.as_json() == {"created": 1, "updated": 1, "unchanged": 1, "deleted": 1}
    assert list(_kept(base)) == ["A?", "B?", "D?"]


@pytest.mark.parametrize(
    ("name", "content", "fields"),
    [
        ("set.csv", "query,document\nA?,warranty.md\nB?,waranty.md", ["rows.3.documents.0.name"]),
        ("set.csv", 'query,document\n"A\n?",warranty.md\n,x', ["rows.4.query"]),
        ("set.csv", "query,document\nA?\nB?,warranty.md,1", ["rows.2", "rows.3"]),
        ("set.csv", "query,document,page\nA?,warranty.md,four", ["rows.2.page"]),
        ("set.csv", "query,document,grade\nA?,warranty.md,0", ["rows.2.documents.0.grade"]),
        ("set.csv", "question,document\nA?,warranty.md", ["rows.1"]),
        ("set.csv", 'query,document\nA?,"war"ranty.md', ["rows.2"]),
        ("set.csv", b"query,document\nA?,w\xe4rranty.md", ["rows.2"]),
        ("set.csv", "", ["rows.1"]),
        ("set.csv", "query,document\n", ["file"]),
        ("set.xlsx", "PK", ["file"]),
        ("set.jsonl", '{"query": "A?", "documents": []}\n{"query": ', ["rows.2"]),
        ("set.jsonl", "\n[]", ["rows.2"]),
        ("set.jsonl", '{"query": "A?"}\n{"documents": []}', ["rows.1.documents", "rows.2.query"]),
        ("set.jsonl", '{"query": "A?", "file": "x", "documents": []}', ["rows.1.file"]),
        ("set.jsonl", '{"query": "\\ud800", "documents": []}', ["rows.1.query"]),
        ("set.jsonl", '{"query": "a\\u0000", "documents": []}', ["rows.1.query"]),
        (
            "set.jsonl",
            '{"query": "A?", "documents": []}\n{"query": "A?", "documents": []}',
            ["rows.2.query"],
        ),
        (
            "set.jsonl",
            '{"query": "A?", "documents": ["warranty.md", {"name": "warranty.md"}]}',
            ["rows.1.documents.1"],
        ),
        (
            "set.jsonl",
            '{"query": "A?", "documents": [{"name": "warranty.md", "pages": [0]}]}',
            ["rows.1.documents.0.pages"],
        ),
    ],
)
def test_import__mistakes__are_named_by_row_and_nothing_is_saved(
    base: KnowledgeBase, name: str, content: str | bytes, fields: list[str]
) -> None:
    with pytest.raises(Invalid) as caught:
        _import(base, name, content)

    assert [error.field for error in caught.value.errors] == fields
    assert all(error.allowed for error in caught.value.errors)
    assert _kept(base) == {}


def test_import__a_misspelt_document__suggests_the_right_one(base: KnowledgeBase) -> None:
    with pytest.raises(Invalid) as caught:
        _import(base, "set.csv", "query,document\nA?,waranty.md")

    assert caught.value.errors[0].allowed == ["warranty.md"]
    assert caught.value.code == "document.unknown"
