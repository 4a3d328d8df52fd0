"""Traces over HTTP."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from registry import requests
from registry.api import View
from registry.openapi import PAGING, STRING, in_query, listed, one_of, operation, ref
from registry.pages import page
from retrieval.models import Trace
from retrieval.traces import described, described_with_texts, find_trace, visible_traces

_TAG = "traces"
_KINDS = [str(kind) for kind in Trace.Kind]


class Traces(View):
    scopes = {"GET": "runtime"}

    @operation(
        "listTraces",
        "List traces, newest first",
        about="A runtime key sees the traces that it made.",
        tag=_TAG,
        query=(
            in_query("agent", STRING, "The slug of an agent."),
            in_query("conversationId", STRING, "As it was given with the call."),
            in_query("kind", one_of(*_KINDS), "What was done."),
            *PAGING,
        ),
        answers={200: listed("Trace")},
        errors=(400, 422),
    )
    def get(self, request: Request) -> Response:
        query = self.query("agent", "conversationId", "kind", "limit", "cursor")
        rows = visible_traces(self.access)
        if "agent" in query:
            rows = rows.filter(agent_slug=query["agent"])
        if "conversationId" in query:
            rows = rows.filter(conversation_id=query["conversationId"])
        if "kind" in query:
            rows = rows.filter(kind=requests.choice(query, "kind", _KINDS, default=""))
        return Response(
            page(request, rows, key=("-at", "id"), render=lambda traces: map(described, traces))
        )


class TraceDetail(View):
    scopes = {"GET": "runtime"}

    @operation(
        "getTrace",
        "Show a trace, with the texts of its passages while they are there",
        tag=_TAG,
        answers={200: ref("Trace")},
        errors=(404,),
    )
    def get(self, request: Request, **_: Any) -> Response:
        trace_id = requests.path_uuid(self.kwargs["trace_id"], what="trace")
        return Response(described_with_texts(find_trace(trace_id, self.access)))
