"""Snapshots of a knowledge base over HTTP, and the test box that asks them."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from registry import requests
from registry.openapi import PAGING, listed, operation, ref
from registry.pages import page
from retrieval import questions
from retrieval.build_control import cancel_build
from retrieval.indexing import find_snapshot
from retrieval.models import IndexSnapshot
from retrieval.rendering import render_snapshot, render_snapshots
from retrieval.test_box import try_question
from retrieval.views.knowledge_bases import KnowledgeBaseView

_TAG = "snapshots"
_MOST = 2**31 - 1


class Snapshots(KnowledgeBaseView):
    scopes = {"GET": "editor"}

    @operation(
        "listSnapshots",
        "List the snapshots of a knowledge base, newest first",
        tag=_TAG,
        query=PAGING,
        answers={200: listed("Snapshot")},
        errors=(404, 422),
    )
    def get(self, request: Request, **_: Any) -> Response:
        self.query("limit", "cursor")
        base = self.knowledge_base()
        return Response(
            page(
                request,
                IndexSnapshot.objects.filter(knowledge_base=base).select_related("model"),
                key=("-number",),
                render=lambda rows: render_snapshots(base, rows, self.access),
            )
        )


class SnapshotDetail(KnowledgeBaseView):
    scopes = {"GET": "editor"}

    @operation(
        "getSnapshot",
        "Show a snapshot, and which published versions hold it",
        tag=_TAG,
        answers={200: ref("Snapshot")},
        errors=(404,),
    )
    def get(self, request: Request, **_: Any) -> Response:
        base = self.knowledge_base()
        snapshot = find_snapshot(base, self.kwargs["number"])
        return Response(render_snapshot(base, snapshot, self.access))


class CancelBuild(KnowledgeBaseView):
    scopes = {"POST": "editor"}

    @operation(
        "cancelBuild",
        "Cancel a running build; what is served stays",
        tag=_TAG,
        answers={200: ref("Snapshot")},
        errors=(404, 409, 422),
        writes=True,
    )
    def post(self, request: Request, **_: Any) -> Response:
        base, number = self.knowledge_base(), self.kwargs["number"]
        self.no_body()

        def work() -> tuple[int, Any]:
            snapshot = cancel_build(actor=self.access.actor, base=base, number=number)
            return 200, render_snapshot(base, snapshot, self.access)

        return self.write(work)


class TestBox(KnowledgeBaseView):
    """The test box. Answers are plain objects: this is a search like any other."""

    scopes = {"POST": "editor"}

    @operation(
        "tryQuestion",
        "Ask a snapshot a question: the test box",
        about="As a tool call would answer, with the candidates that were not kept. "
        "With `answer` a model answers from them; where it cannot, the passages come all the "
        "same, and `answerNotice` says why. Leaves no trace.",
        tag=_TAG,
        body=ref("TestBoxRequest"),
        answers={200: ref("TestBoxAnswer")},
        errors=(400, 404, 409, 415, 422, 429),
    )
    def post(self, request: Request, **_: Any) -> Response:
        base = self.knowledge_base()
        body = self.body(*questions.MEMBERS, "snapshot", "answer")
        return Response(
            try_question(
                base=base,
                question=questions.read_question(body),
                asker=self.access.key_id,
                snapshot=requests.integer(body, "snapshot", least=1, most=_MOST),
                answer=requests.boolean(body, "answer", default=False),
            )
        )
