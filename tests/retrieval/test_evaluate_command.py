"""``manage.py evaluate``: import, table, losses first, exit codes."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from retrieval.knowledge_bases import find
from retrieval.models import Evaluation, KnowledgeBase
from tests import builders

pytestmark = pytest.mark.django_db


@pytest.fixture
def base() -> KnowledgeBase:
    base = builders.base_with("Returns")
    builders.rechunk(base, 12)
    builders.build(base)
    return find(base.pk)


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "set.csv"
    path.write_text(
        "query,document\nHow long are lamps covered?,warranty.md\n"
        "Who pays the postage?,returns.md\nDo you sell gift cards?,\n"
    )
    return path


def _run(*words: object) -> str:
    out = StringIO()
    call_command("evaluate", *map(str, words), stdout=out, stderr=StringIO())
    return out.getvalue()


def test_command__with_a_file_and_two_snapshots__shows_them_side_by_side(
    base: KnowledgeBase, questions: Path
) -> None:
    shown = _run("Returns", "--import", questions, "--snapshots", 1, 2)

    assert "#1        dense" in shown
    assert "#2        dense" in shown
    assert "#1 dense → #2 dense: 0 gained, 0 lost, 2 as before" in shown
    assert "of 1 questions that nothing answers got passages" in shown


def test_command__as_json_by_id__prints_the_evaluation(
    base: KnowledgeBase, questions: Path
) -> None:
    shown = json.loads(_run(base.pk, "--import", questions, "--json"))

    assert shown["id"] == str(Evaluation.objects.get().pk)
    assert shown["scores"][0]["snapshot"]["number"] == 2


def test_command__import_only__scores_nothing(base: KnowledgeBase, questions: Path) -> None:
    assert _run("Returns", "--import", questions, "--import-only") == ""

    assert base.evaluation_questions.count() == 3
    assert Evaluation.objects.count() == 0


def test_command__score_under_the_least__ends_with_1(base: KnowledgeBase, questions: Path) -> None:
    questions.write_text("query,document\nHow long are lamps covered?,returns.md\n")

    with pytest.raises(SystemExit) as ended:
        _run("Returns", "--import", questions, "--fail-under", 0.99)

    assert ended.value.code == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["Nothing"], "There is no knowledge base 'Nothing'; there are: Returns."),
        (["Returns"], "Returns has no evaluation questions yet."),
        (["Returns", "--import-only"], "--import-only needs --import FILE."),
        (["Returns", "--import", "/nowhere.csv"], "/nowhere.csv cannot be read"),
    ],
)
def test_command__that_cannot_be_done__says_why_in_a_sentence(
    base: KnowledgeBase, words: list[str], sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence.replace(".", r"\.")):
        _run(*words)


def test_command__file_with_mistakes__names_each_row(base: KnowledgeBase, questions: Path) -> None:
    questions.write_text("query,document\nA?,waranty.md\n,x\nB?,retuns.md\n")

    with pytest.raises(CommandError) as caught:
        _run("Returns", "--import", questions)

    assert str(caught.value).startswith("rows.3.query: ")


def test_command__unknown_documents__names_each_row_with_what_is_like_it(
    base: KnowledgeBase, questions: Path
) -> None:
    questions.write_text("query,document\nA?,waranty.md\nB?,retuns.md\n")

    with pytest.raises(CommandError) as caught:
        _run("Returns", "--import", questions)

    first, second = str(caught.value).splitlines()
    assert first.startswith("rows.2.documents.0.name: ")
    assert "warranty.md" in first
    assert second.startswith("rows.3.documents.0.name: ")
