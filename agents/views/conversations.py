"""What running agents ask: resolve, retrieve, tools. Answers are plain objects, built once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from agents import tools
from agents.answers import resolve_as_json
from agents.contexts import read_context
from agents.serving import version_to_serve
from agents.tool_formats import FORMATS, tool_definitions
from agents.versions import Runnable
from registry import requests
from registry.api import View
from registry.openapi import STRING, in_query, listed, one_of, operation, ref
from retrieval import questions

_TAG = "conversations"
_WHICH = ("version", "alias")
_LONGEST_CONVERSATION_ID = 200


class VersionView(View):
    """A view that answers from the version that the request names."""

    def version(self, names: Mapping[str, Any]) -> Runnable:
        """Return the version that ``version`` or ``alias`` names, ready to answer."""
        return version_to_serve(self.kwargs["slug"], names, self.access)


def _conversation_id(body: Mapping[str, Any]) -> str:
    if body.get("conversationId") is None:
        return ""
    return requests.text(body, "conversationId", longest=_LONGEST_CONVERSATION_ID)


class Resolve(VersionView):
    scopes = {"POST": "runtime"}

    @operation(
        "resolve",
        "Decide what applies to a conversation, and return all that an agent starts with",
        tag=_TAG,
        body=ref("Resolve"),
        answers={200: {"oneOf": [ref("Resolution"), ref("Unchanged")]}},
        errors=(400, 404, 415, 422),
    )
    def post(self, request: Request, **_: Any) -> HttpResponse:
        body = self.body(*_WHICH, "context", "known", "trace", "conversationId", "format")
        version = self.version(body)
        known = None if body.get("known") is None else requests.text(body, "known", longest=200)
        trace = requests.boolean(body, "trace", default=True)
        if not trace:
            self.access.require("editor")
        form = None
        if body.get("format") is not None:
            form = requests.choice(body, "format", FORMATS, default="")
        answer = resolve_as_json(
            version=version,
            context=read_context(body),
            access=self.access,
            known=known,
            trace=trace,
            conversation_id=_conversation_id(body),
            form=form,
        )
        return HttpResponse(answer, content_type="application/json")


class Retrieve(VersionView):
    scopes = {"POST": "runtime"}

    @operation(
        "retrieve",
        "Ask every knowledge base that applies to a conversation",
        about="Grouped by knowledge base: confidences compare only within one snapshot.",
        tag=_TAG,
        body=ref("Retrieve"),
        answers={200: ref("Retrieved")},
        errors=(400, 404, 415, 422, 429),
    )
    def post(self, request: Request, **_: Any) -> Response:
        body = self.body(*_WHICH, *questions.MEMBERS, "context", "conversationId")
        version = self.version(body)
        return Response(
            tools.retrieve_attached(
                version=version,
                context=read_context(body),
                question=questions.read_question(body),
                access=self.access,
                conversation_id=_conversation_id(body),
            )
        )


class CallTool(VersionView):
    scopes = {"POST": "runtime"}

    @operation(
        "callTool",
        "Call a `rag` tool",
        about="The tool is not gated by expressions; the declared variables of `context` are "
        "kept in the trace.",
        tag=_TAG,
        body=ref("Call"),
        answers={200: ref("Called")},
        errors=(400, 404, 409, 415, 422, 429),
    )
    def post(self, request: Request, **_: Any) -> Response:
        body = self.body(*_WHICH, *questions.MEMBERS, "context", "conversationId")
        version = self.version(body)
        return Response(
            tools.call_tool(
                version=version,
                name=self.kwargs["name"],
                question=questions.read_question(body),
                access=self.access,
                conversation_id=_conversation_id(body),
                context=read_context(body, required=False),
            )
        )


class Tools(VersionView):
    scopes = {"GET": "runtime"}

    @operation(
        "listTools",
        "List a version's tools as clients of a format take them",
        about="All of them at once: `next` is always null.",
        tag=_TAG,
        query=(
            in_query("format", one_of(*FORMATS), "How they are written.", required=True),
            in_query("version", STRING, "A number, or `draft` for editors."),
            in_query("alias", STRING, "Exactly one of version and alias."),
        ),
        answers={200: listed("ToolDefinition")},
        errors=(400, 404, 422),
    )
    def get(self, request: Request, **_: Any) -> Response:
        query = self.query(*_WHICH, "format")
        form = requests.choice(query, "format", FORMATS, default="")
        definitions = tool_definitions(self.version(query), form)
        return Response({"results": definitions, "next": None})
