"""The draft of an agent over HTTP: each edit says which revision it started from."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from agents.drafting import ANY_REVISION, draft_of, edit_draft
from agents.rendering import render_draft
from agents.views.agents import AgentView
from registry import requests
from registry.errors import FieldError, Malformed
from registry.openapi import operation, ref

_TAG = "drafts"
_QUOTED = re.compile(r'"([^"]*)"')


def if_match(request: Request) -> str | None:
    """Return the revision in ``If-Match``, ``"*"``, or None without one. Raises Malformed."""
    header = request.headers.get("If-Match")
    if header is None:
        return None
    text = header.strip()
    quoted = _QUOTED.fullmatch(text)
    if text != ANY_REVISION and quoted is None:
        raise Malformed(
            "If-Match must be one quoted revision, or *.",
            code="request.if_match",
            errors=[
                FieldError(
                    field="If-Match",
                    value=header,
                    message="must be one quoted revision, or *",
                    allowed=['"<revision>"', ANY_REVISION],
                )
            ],
        )
    return quoted[1] if quoted else ANY_REVISION


def with_etag(response: Response) -> Response:
    """Return the answer with the revision of the draft in it as its ETag."""
    response["ETag"] = f'"{response.data["revision"]}"'
    return response


_edits = partial(
    operation,
    tag=_TAG,
    body=ref("DraftInput"),
    answers={200: ref("Draft")},
    errors=(400, 404, 409, 412, 415, 422, 428),
    writes=True,
    if_match="required",
    etag=True,
)


class Draft(AgentView):
    scopes = {"GET": "editor", "PUT": "editor", "PATCH": "editor"}

    @operation(
        "getDraft",
        "Show the draft",
        tag=_TAG,
        answers={200: ref("Draft")},
        errors=(404,),
        etag=True,
    )
    def get(self, request: Request, **_: Any) -> Response:
        agent = self.agent()
        return with_etag(Response(render_draft(agent, draft_of(agent))))

    @_edits(
        "replaceDraft",
        "Replace the draft whole",
        about="What is left out is empty afterwards.",
    )
    def put(self, request: Request, **_: Any) -> Response:
        return self._edit(whole=True)

    @_edits(
        "updateDraft",
        "Change parts of the draft",
        about="An array replaces the array; items that bring their id keep it.",
    )
    def patch(self, request: Request, **_: Any) -> Response:
        return self._edit(whole=False)

    def _edit(self, *, whole: bool) -> Response:
        agent, values, revision = self.agent(), dict(self.body()), if_match(self.request)
        accept_warnings = requests.boolean(values, "acceptWarnings", default=False)
        values.pop("acceptWarnings", None)

        def work() -> tuple[int, Any]:
            draft = edit_draft(
                actor=self.access.actor,
                access=self.access,
                agent=agent,
                values=values,
                expected_revision=revision,
                whole=whole,
                accept_warnings=accept_warnings,
            )
            return 200, render_draft(agent, draft)

        return with_etag(self.write(work))
