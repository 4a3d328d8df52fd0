"""Replaying traces over HTTP."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from agents.replaying import replay_trace
from registry import requests
from registry.api import View
from registry.openapi import operation, ref
from retrieval.traces import find_trace


class ReplayTrace(View):
    scopes = {"POST": "runtime"}

    @operation(
        "replayTrace",
        "Ask again what a trace says was asked, and compare",
        about="The pinned state is asked, past every cache; nothing is written. Traces of drafts "
        "are for editors.",
        tag="traces",
        answers={200: ref("Replay")},
        errors=(404, 422),
    )
    def post(self, request: Request, **_: Any) -> Response:
        self.no_body()
        trace_id = requests.path_uuid(self.kwargs["trace_id"], what="trace")
        trace = find_trace(trace_id, self.access)
        return Response(replay_trace(trace=trace, access=self.access).as_json())
