"""The pages of evaluation: the questions of a knowledge base, and snapshots scored by them."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.contrib.admin import widgets
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from registry.admin_base import RegistryAdmin, actor_of, attempt, fieldsets, sentence, show_errors
from registry.errors import Invalid, RegistryError
from retrieval.chunking import Chunking
from retrieval.evaluation import MOST_SNAPSHOTS, find_evaluation, start_evaluation
from retrieval.evaluation_imports import import_questions
from retrieval.evaluation_questions import (
    add_question,
    change_question,
    delete_question,
    find_question,
    render_questions,
)
from retrieval.evaluation_results import render_evaluation, render_evaluations
from retrieval.measures import NAMES
from retrieval.models import EvaluationQuestion, IndexSnapshot, KnowledgeBase
from retrieval.rankings import RANKINGS, configured_ranking
from retrieval.search_settings import settings_of

_PER_PAGE = 50
_SHOWN_EVALUATIONS = 20
_LARGEST_FILE = 20 * 1024 * 1024
_PART = re.compile(r"\s*(pages?|grade)\s+([\d\s,;]+)\s*", re.IGNORECASE)
_RANKING_LABELS = {
    "dense": "dense: by confidence",
    "reranked": "reranked: as reranking orders them",
}
_QUESTION_FIELDS = {"query": "query", "documents": "documents"}


class EvaluationForm(forms.Form):
    """Which snapshots are put side by side; the lowest number is what others are compared with."""

    snapshots = forms.TypedMultipleChoiceField(
        coerce=int,
        widget=forms.CheckboxSelectMultiple,
        help_text="The one with the lowest number is what the others are compared with.",
    )
    rankings = forms.MultipleChoiceField(
        choices=[(name, _RANKING_LABELS[name]) for name in RANKINGS],
        widget=forms.CheckboxSelectMultiple,
    )

    def __init__(self, base: KnowledgeBase, *args: Any, **kwargs: Any) -> None:
        ready = IndexSnapshot.objects.filter(knowledge_base=base, state="ready")
        choices = [
            (snapshot.number, _described(base, snapshot))
            for snapshot in ready.select_related("model").order_by("-number")[:MOST_SNAPSHOTS]
        ]
        kwargs.setdefault(
            "initial",
            {
                # What is searched now and what was before it.
                "snapshots": [number for number, _ in choices[:2]],
                "rankings": [configured_ranking(settings_of(base))],
            },
        )
        super().__init__(*args, **kwargs)
        self.fields["snapshots"].choices = choices  # type: ignore[attr-defined]


def _described(base: KnowledgeBase, snapshot: IndexSnapshot) -> str:
    chunking = Chunking.from_recipe(snapshot.chunking)
    current = ", current" if snapshot.pk == base.current_snapshot_id else ""
    return (
        f"#{snapshot.number}{current}: {snapshot.document_count} documents, {chunking.strategy} "
        f"{chunking.size}/{chunking.overlap}, {snapshot.chunk_count} chunks, {snapshot.model.name}"
    )


class EvaluationQuestionForm(forms.Form):
    """A question, and a line for each document that should answer it."""

    query = forms.CharField(
        label="Question", widget=forms.Textarea(attrs={"rows": 2, "class": "vLargeTextField"})
    )
    documents = forms.CharField(
        required=False,
        label="Documents",
        widget=widgets.AdminTextareaWidget(attrs={"rows": 4}),
        help_text=(
            "One a line, by name; empty if no document answers the question. Optional, after bars: "
            "the pages that count and a grade, 1 to 100: <code>eu/manual.pdf | pages 3, 4 | "
            "grade 2</code>."
        ),
    )

    @staticmethod
    def initial_of(question: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the form shows of a question as the API has it."""
        lines = []
        for one in question["documents"]:
            line = one["name"]
            if one["pages"]:
                line += f" | pages {', '.join(map(str, one['pages']))}"
            if one["grade"] != 1:
                line += f" | grade {one['grade']}"
            lines.append(line)
        return {"query": question["query"], "documents": "\n".join(lines)}

    def values(self) -> dict[str, Any]:
        """Return what was typed as the use cases take it."""
        lines = self.cleaned_data["documents"].splitlines()
        return {
            "query": self.cleaned_data["query"],
            "documents": [_document(line) for line in lines if line.strip()],
        }


def _document(line: str) -> dict[str, Any]:
    document: dict[str, Any] = {}
    parts = line.split("|")
    # From the end: a name may hold bars too.
    while len(parts) > 1 and (part := _PART.fullmatch(parts[-1])):
        numbers = [int(number) for number in re.findall(r"\d+", part.group(2))]
        if part.group(1).lower() == "grade":
            document["grade"] = numbers[0]
        else:
            document["pages"] = numbers
        parts.pop()
    return {"name": "|".join(parts).strip(), **document}


class ImportForm(forms.Form):
    """An evaluation set in a file."""

    file = forms.FileField(help_text="JSON Lines (.jsonl) or CSV (.csv), in UTF-8.")
    replace = forms.BooleanField(
        required=False,
        label="Replace the whole set",
        help_text="The set becomes the questions of the file; without it they are added.",
    )


class EvaluationPages(RegistryAdmin[KnowledgeBase]):
    """The pages below the tab “Evaluation” of a knowledge base."""

    evaluation_pages: ClassVar[list[tuple[str, str]]] = [
        ("<path:object_id>/evaluation/", "evaluation_page"),
        ("<path:object_id>/evaluation/import/", "evaluation_import_page"),
        ("<path:object_id>/evaluation/add/", "evaluation_add_page"),
        ("<path:object_id>/evaluation/question/<uuid:row_id>/", "evaluation_question_page"),
        ("<path:object_id>/evaluation/delete/<uuid:row_id>/", "evaluation_delete_page"),
        ("<path:object_id>/evaluation/result/<uuid:row_id>/", "evaluation_result_page"),
    ]

    def evaluation_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        base = self.found(request, object_id, "change" if request.method == "POST" else "view")
        form = EvaluationForm(base, request.POST or None)
        if form.is_valid():
            try:
                evaluation = start_evaluation(
                    actor=actor_of(request),
                    base=base,
                    snapshots=sorted(form.cleaned_data["snapshots"]),
                    rankings=form.cleaned_data["rankings"],
                )
            except RegistryError as error:
                form.add_error(None, _sentences(error))
            else:
                return HttpResponseRedirect(self.url("evaluation_result", base, evaluation.pk))
        rows = EvaluationQuestion.objects.filter(knowledge_base=base)
        page = Paginator(rows, _PER_PAGE).get_page(request.GET.get("p"))
        evaluations = base.evaluations.prefetch_related("scores")[:_SHOWN_EVALUATIONS]
        return self.page(
            request,
            "retrieval/evaluation.html",
            title="Evaluation",
            obj=base,
            tab="evaluation",
            adminform=fieldsets(form, (None, ["snapshots", "rankings"], "")),
            questions=render_questions(base, list(page.object_list)),
            question_page=page,
            evaluations=render_evaluations(list(evaluations)),
            main_measure=NAMES[0],
            may_change=self.may(request, "change"),
            submit="Evaluate",
        )

    def evaluation_result_page(
        self, request: HttpRequest, object_id: str, row_id: uuid.UUID
    ) -> HttpResponse:
        base = self.found(request, object_id)
        shown = render_evaluation(find_evaluation(base, row_id))
        return self.page(
            request,
            "retrieval/evaluation_result.html",
            title="Result of an evaluation",
            obj=base,
            tab="evaluation",
            evaluation=shown,
            scores=_with_best(shown["scores"]),
            names=NAMES,
        )

    def evaluation_import_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        base = self.found(request, object_id, "change")
        form = ImportForm(request.POST or None, request.FILES or None)
        mistakes: list[str] = []
        if form.is_valid():
            upload = form.cleaned_data["file"]
            try:
                if upload.size > _LARGEST_FILE:
                    raise Invalid.field("file", upload.name, "is over 20 MB")
                written = import_questions(
                    actor=actor_of(request),
                    base=base,
                    name=upload.name,
                    content=upload.read(),
                    replace_all=form.cleaned_data["replace"],
                )
            except RegistryError as error:
                mistakes = [f"{one.field}: {sentence(one)}" for one in error.errors]
                form.add_error("file", "Nothing was taken from this file; see what is wrong below.")
            else:
                messages.success(
                    request,
                    f"{written.created} questions were added, {written.updated} changed, "
                    f"{written.unchanged} were there already, {written.deleted} deleted.",
                )
                return HttpResponseRedirect(self.url("evaluation", base))
        return self.page(
            request,
            "retrieval/evaluation_import.html",
            title="Import questions",
            obj=base,
            tab="evaluation",
            adminform=fieldsets(form, (None, ["file", "replace"], "")),
            mistakes=mistakes,
            submit="Import",
            cancel_url=self.url("evaluation", base),
        )

    def evaluation_add_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        base = self.found(request, object_id, "change")
        form = EvaluationQuestionForm(request.POST or None)
        if form.is_valid():
            try:
                add_question(actor=actor_of(request), base=base, values=form.values())
            except RegistryError as error:
                _show(form, error)
            else:
                messages.success(request, "The question was added.")
                return HttpResponseRedirect(self.url("evaluation", base))
        return self._question(request, base, form, "Add a question")

    def evaluation_question_page(
        self, request: HttpRequest, object_id: str, row_id: uuid.UUID
    ) -> HttpResponse:
        base = self.found(request, object_id, "change")
        shown = render_questions(base, [find_question(base, row_id)])[0]
        form = EvaluationQuestionForm(
            request.POST or None, initial=EvaluationQuestionForm.initial_of(shown)
        )
        if form.is_valid():
            try:
                change_question(
                    actor=actor_of(request),
                    base=base,
                    question_id=row_id,
                    values=_with_ids(form.values(), shown),
                )
            except RegistryError as error:
                _show(form, error)
            else:
                messages.success(request, "The question is saved.")
                return HttpResponseRedirect(self.url("evaluation", base))
        return self._question(request, base, form, "Change a question")

    def _question(
        self, request: HttpRequest, base: KnowledgeBase, form: forms.Form, title: str
    ) -> HttpResponse:
        return self.page(
            request,
            "registry/form.html",
            title=title,
            obj=base,
            tab="evaluation",
            adminform=fieldsets(form, (None, ["query", "documents"], "")),
            cancel_url=self.url("evaluation", base),
        )

    def evaluation_delete_page(
        self, request: HttpRequest, object_id: str, row_id: uuid.UUID
    ) -> HttpResponse:
        base = self.found(request, object_id, "change")
        if request.method == "POST":
            attempt(
                request,
                lambda: delete_question(actor=actor_of(request), base=base, question_id=row_id),
                "The question was deleted; evaluations that had it keep it.",
            )
        return HttpResponseRedirect(self.url("evaluation", base))


def _with_ids(values: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``values`` with the ids of documents that the question has: one may be deleted."""
    ids = {one["name"]: one["document"] for one in before["documents"]}
    for one in values["documents"]:
        if one["name"] in ids:
            one["document"] = ids[one["name"]]
    return values


def _with_best(scores: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each score with its cells: a measure, and whether no other score is better."""
    best = {
        name: max(
            (score["measures"][name] or 0 for score in scores if score["measures"]), default=0
        )
        for name in NAMES
    }
    return [
        {
            **score,
            "cells": [
                (value, value is not None and value == best[name])
                for name, value in (score["measures"] or dict.fromkeys(NAMES)).items()
            ],
        }
        for score in scores
    ]


def _show(form: forms.Form, error: RegistryError) -> None:
    """Show what was refused; all that is wrong with documents stands at their field."""
    names = {one.field: "documents" for one in error.errors if one.field.startswith("documents.")}
    show_errors(form, error, {**_QUESTION_FIELDS, **names})


def _sentences(error: RegistryError) -> str:
    return " ".join(map(sentence, error.errors)) or error.detail
