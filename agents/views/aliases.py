"""Aliases of an agent over HTTP."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from agents.aliases import ANY, find_alias, move_alias
from agents.models import Alias, AliasMove
from agents.rendering import render_alias, render_move
from agents.views.agents import AgentView
from registry import requests
from registry.errors import Invalid
from registry.openapi import PAGING, listed, operation, ref
from registry.pages import page

_TAG = "aliases"
_MOST = 2**31 - 1


class Aliases(AgentView):
    scopes = {"GET": "editor"}

    @operation(
        "listAliases",
        "List the aliases of an agent by name",
        tag=_TAG,
        query=PAGING,
        answers={200: listed("Alias")},
        errors=(404, 422),
    )
    def get(self, request: Request, **_: Any) -> Response:
        self.query("limit", "cursor")
        rows = Alias.objects.filter(agent=self.agent()).select_related("version")
        return Response(
            page(request, rows, key=("name",), render=lambda found: map(render_alias, found))
        )


class AliasDetail(AgentView):
    scopes = {"GET": "editor", "PUT": "publisher"}

    @operation("getAlias", "Show an alias", tag=_TAG, answers={200: ref("Alias")}, errors=(404,))
    def get(self, request: Request, **_: Any) -> Response:
        return Response(render_alias(find_alias(self.agent(), self.kwargs["name"])))

    @operation(
        "moveAlias",
        "Point an alias to a version, making it if it is new",
        tag=_TAG,
        body=ref("AliasMoveRequest"),
        answers={200: ref("Alias")},
        errors=(400, 404, 409, 415, 422),
        writes=True,
    )
    def put(self, request: Request, **_: Any) -> Response:
        agent = self.agent()
        body = self.body("version", "expectedVersion")
        number = requests.integer(body, "version", least=1, most=_MOST)
        if number is None:
            raise Invalid.field(
                "version", None, "is required", allowed="a version number", code="request.required"
            )
        expected: object = ANY
        if "expectedVersion" in body:
            expected = requests.integer(body, "expectedVersion", least=1, most=_MOST)

        def work() -> tuple[int, Any]:
            alias = move_alias(
                actor=self.access.actor,
                agent=agent,
                name=self.kwargs["name"],
                number=number,
                expected=expected,
            )
            return 200, render_alias(alias)

        return self.write(work)


class AliasHistory(AgentView):
    scopes = {"GET": "editor"}

    @operation(
        "listAliasMoves",
        "List the moves of an alias, newest first",
        tag=_TAG,
        query=PAGING,
        answers={200: listed("AliasMove")},
        errors=(404, 422),
    )
    def get(self, request: Request, **_: Any) -> Response:
        self.query("limit", "cursor")
        alias = find_alias(self.agent(), self.kwargs["name"])
        rows = AliasMove.objects.filter(agent=alias.agent_id, name=alias.name)
        return Response(
            page(request, rows, key=("-id",), render=lambda moves: map(render_move, moves))
        )
