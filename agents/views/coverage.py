"""Which knowledge bases apply where, over HTTP."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from agents.coverage import coverage_of
from agents.drafting import draft_of
from agents.versions import Runnable, find_version, runnable
from agents.views.agents import AgentView
from registry.openapi import operation, ref

_TAG = "coverage"
_ABOUT = (
    "Over contexts made of the declared values (where a name has none listed: of what the "
    "expressions compare it with) and the draft's saved samples."
)


def _answer(version: Runnable) -> Response:
    coverage = coverage_of(version.configuration, version.names)
    return Response(
        {
            "agent": version.slug,
            "version": "draft" if version.number is None else version.number,
            **coverage.as_json(),
        }
    )


class DraftCoverage(AgentView):
    scopes = {"GET": "editor"}

    @operation(
        "getDraftCoverage",
        "Show which knowledge bases of the draft apply where",
        about=_ABOUT,
        tag=_TAG,
        answers={200: ref("Coverage")},
        errors=(404,),
    )
    def get(self, request: Request, **_: Any) -> Response:
        agent = self.agent()
        return _answer(runnable(agent, draft_of(agent)))


class VersionCoverage(AgentView):
    scopes = {"GET": "editor"}

    @operation(
        "getVersionCoverage",
        "Show which knowledge bases of a version apply where",
        about=_ABOUT,
        tag=_TAG,
        answers={200: ref("Coverage")},
        errors=(404,),
    )
    def get(self, request: Request, **_: Any) -> Response:
        agent = self.agent()
        return _answer(runnable(agent, find_version(agent, self.kwargs["number"])))
