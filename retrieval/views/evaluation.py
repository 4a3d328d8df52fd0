"""Evaluation sets and evaluations over HTTP."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from registry import requests
from registry.errors import Invalid
from registry.openapi import PAGING, listed, operation, ref
from registry.pages import page, page_of_list
from registry.requests import path_uuid
from retrieval import evaluation_questions as sets
from retrieval.evaluation import MOST_SNAPSHOTS, find_evaluation, start_evaluation
from retrieval.evaluation_results import all_outcome_rows, render_evaluation, render_evaluations
from retrieval.models import Evaluation, EvaluationQuestion
from retrieval.rankings import RANKINGS
from retrieval.views.knowledge_bases import KnowledgeBaseView

_TAG = "evaluation"
_MOST_NUMBER = 2**31 - 1


class Questions(KnowledgeBaseView):
    scopes = {"GET": "editor", "POST": "editor", "PUT": "editor"}

    @operation(
        "listQuestions",
        "List the evaluation set of a knowledge base",
        tag=_TAG,
        query=PAGING,
        answers={200: listed("EvaluationQuestion")},
        errors=(404, 422),
    )
    def get(self, request: Request, **_: Any) -> Response:
        self.query("limit", "cursor")
        base = self.knowledge_base()
        return Response(
            page(
                request,
                EvaluationQuestion.objects.filter(knowledge_base=base),
                key=("created_at", "id"),
                render=lambda rows: sets.render_questions(base, rows),
            )
        )

    @operation(
        "addQuestions",
        "Add a question to the evaluation set, or many",
        about="With `questions` all or none; one that the set has gets the new documents.",
        tag=_TAG,
        body=ref("EvaluationQuestionsAdd"),
        answers={200: ref("EvaluationQuestionsWritten"), 201: ref("EvaluationQuestion")},
        errors=(400, 404, 409, 415, 422),
        writes=True,
    )
    def post(self, request: Request, **_: Any) -> Response:
        base, body = self.knowledge_base(), self.body()

        def one() -> tuple[int, Any]:
            row = sets.add_question(actor=self.access.actor, base=base, values=body)
            return 201, sets.render_questions(base, [row])[0]

        def many() -> tuple[int, Any]:
            written = sets.save_questions(
                actor=self.access.actor, base=base, questions=_questions(body)
            )
            return 200, written.as_json()

        return self.write(many if "questions" in body else one)

    @operation(
        "replaceQuestions",
        "Replace the evaluation set whole",
        tag=_TAG,
        body=ref("EvaluationQuestions"),
        answers={200: ref("EvaluationQuestionsWritten")},
        errors=(400, 404, 415, 422),
        writes=True,
    )
    def put(self, request: Request, **_: Any) -> Response:
        base, body = self.knowledge_base(), self.body("questions")

        def work() -> tuple[int, Any]:
            written = sets.save_questions(
                actor=self.access.actor, base=base, questions=_questions(body), replace=True
            )
            return 200, written.as_json()

        return self.write(work)


def _questions(body: dict[str, Any]) -> list[Any]:
    requests.refuse_unknown(body, ("questions",))
    questions = body.get("questions")
    if not isinstance(questions, list):
        raise Invalid.field(
            "questions",
            questions,
            "must be a list",
            allowed="a list of questions",
            code="request.required" if questions is None else None,
        )
    return questions


class QuestionDetail(KnowledgeBaseView):
    scopes = {"GET": "editor", "PUT": "editor", "DELETE": "editor"}

    @operation(
        "getQuestion",
        "Show a question of the evaluation set",
        tag=_TAG,
        answers={200: ref("EvaluationQuestion")},
        errors=(404,),
    )
    def get(self, request: Request, **_: Any) -> Response:
        base = self.knowledge_base()
        row = sets.find_question(base, self._question_id())
        return Response(sets.render_questions(base, [row])[0])

    @operation(
        "replaceQuestion",
        "Replace a question of the evaluation set",
        tag=_TAG,
        body=ref("EvaluationQuestionWrite"),
        answers={200: ref("EvaluationQuestion")},
        errors=(400, 404, 409, 415, 422),
        writes=True,
    )
    def put(self, request: Request, **_: Any) -> Response:
        base, body = self.knowledge_base(), self.body()
        question_id = self._question_id()

        def work() -> tuple[int, Any]:
            row = sets.change_question(
                actor=self.access.actor, base=base, question_id=question_id, values=body
            )
            return 200, sets.render_questions(base, [row])[0]

        return self.write(work)

    @operation(
        "deleteQuestion",
        "Take a question out of the evaluation set",
        tag=_TAG,
        answers={204: None},
        errors=(404,),
        writes=True,
    )
    def delete(self, request: Request, **_: Any) -> Response:
        base, question_id = self.knowledge_base(), self._question_id()

        def work() -> tuple[int, Any]:
            sets.delete_question(actor=self.access.actor, base=base, question_id=question_id)
            return 204, None

        return self.write(work)

    def _question_id(self) -> Any:
        return path_uuid(self.kwargs["question_id"], what="evaluation question")


class Evaluate(KnowledgeBaseView):
    scopes = {"POST": "editor"}

    @operation(
        "evaluate",
        "Score snapshots by the evaluation set, side by side",
        about="A small set is answered at once, with 200; of a large one the workers do the "
        "rest, and 202 says so: look at the evaluation again until it is `done`.",
        tag=_TAG,
        body=ref("EvaluationStart"),
        answers={200: ref("EvaluationDetail"), 202: ref("EvaluationDetail")},
        errors=(400, 404, 409, 415, 422),
        writes=True,
    )
    def post(self, request: Request, **_: Any) -> Response:
        base, body = self.knowledge_base(), self.body("snapshots", "rankings")
        numbers = _numbers(body.get("snapshots"))
        rankings = _rankings(body.get("rankings"))

        def work() -> tuple[int, Any]:
            evaluation = start_evaluation(
                actor=self.access.actor, base=base, snapshots=numbers, rankings=rankings
            )
            status = 202 if evaluation.state == "running" else 200
            return status, render_evaluation(evaluation)

        return self.write(work)


def _numbers(value: object) -> list[int] | None:
    if value is None:
        return None
    allowed = f"1 to {MOST_SNAPSHOTS} numbers of snapshots"
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_SNAPSHOTS:
        raise Invalid.field("snapshots", value, "must be a list of numbers", allowed=allowed)
    numbers = []
    for position, one in enumerate(value):
        field = f"snapshots.{position}"
        number = requests.integer({field: one}, field, least=1, most=_MOST_NUMBER)
        if number is None:
            raise Invalid.field(field, None, "must be a number", allowed=allowed)
        numbers.append(number)
    return numbers


def _rankings(value: object) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        raise Invalid.field("rankings", value, "must be a list of rankings", allowed=list(RANKINGS))
    return value


class Evaluations(KnowledgeBaseView):
    scopes = {"GET": "editor"}

    @operation(
        "listEvaluations",
        "List the evaluations of a knowledge base, newest first",
        tag=_TAG,
        query=PAGING,
        answers={200: listed("Evaluation")},
        errors=(404, 422),
    )
    def get(self, request: Request, **_: Any) -> Response:
        self.query("limit", "cursor")
        rows = Evaluation.objects.filter(knowledge_base=self.knowledge_base())
        return Response(
            page(
                request,
                rows.prefetch_related("scores"),
                key=("-created_at", "id"),
                render=render_evaluations,
            )
        )


class _EvaluationView(KnowledgeBaseView):
    scopes = {"GET": "editor"}

    def evaluation(self) -> Evaluation:
        """Return the evaluation of the address. Raises NotFound."""
        key = path_uuid(self.kwargs["evaluation_id"], what="evaluation")
        return find_evaluation(self.knowledge_base(), key)


class EvaluationDetail(_EvaluationView):
    @operation(
        "getEvaluation",
        "Show an evaluation, with gains and losses against its first snapshot",
        tag=_TAG,
        answers={200: ref("EvaluationDetail")},
        errors=(404,),
    )
    def get(self, request: Request, **_: Any) -> Response:
        return Response(render_evaluation(self.evaluation()))


class Outcomes(_EvaluationView):
    @operation(
        "listOutcomes",
        "List what became of each question of an evaluation",
        tag=_TAG,
        query=PAGING,
        answers={200: listed("EvaluationOutcome")},
        errors=(404, 422),
    )
    def get(self, request: Request, **_: Any) -> Response:
        self.query("limit", "cursor")
        return Response(page_of_list(request, all_outcome_rows(self.evaluation())))
