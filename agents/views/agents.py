"""Agents over HTTP."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from agents.drafting import create_agent, find_agent, update_agent
from agents.models import Agent
from agents.rendering import render_agent, render_agents
from registry.api import View
from registry.errors import Forbidden
from registry.openapi import PAGING, listed, operation, ref
from registry.pages import page

_TAG = "agents"


class AgentView(View):
    """A view below one agent."""

    def agent(self) -> Agent:
        """Return the agent of the address. Raises NotFound."""
        return find_agent(self.kwargs["slug"], self.access)


class Agents(View):
    scopes = {"GET": "editor", "POST": "editor"}

    @operation(
        "listAgents",
        "List agents by slug",
        tag=_TAG,
        query=PAGING,
        answers={200: listed("Agent")},
        errors=(422,),
    )
    def get(self, request: Request) -> Response:
        self.query("limit", "cursor")
        rows = Agent.objects.all()
        if self.access.agents is not None:
            rows = rows.filter(slug__in=self.access.agents)
        return Response(page(request, rows, key=("slug",), render=render_agents))

    @operation(
        "createAgent",
        "Create an agent with an empty draft",
        tag=_TAG,
        body=ref("AgentCreate"),
        answers={201: ref("Agent")},
        errors=(400, 409, 415, 422),
        writes=True,
    )
    def post(self, request: Request) -> Response:
        values = self.body()
        limits = self.access.agents
        if limits is not None and values.get("slug") not in limits:
            raise Forbidden("A key limited to agents cannot create others.")

        def work() -> tuple[int, Any]:
            return 201, render_agent(create_agent(actor=self.access.actor, values=values))

        return self.write(work)


class AgentDetail(AgentView):
    scopes = {"GET": "editor", "PATCH": "editor"}

    @operation("getAgent", "Show an agent", tag=_TAG, answers={200: ref("Agent")}, errors=(404,))
    def get(self, request: Request, **_: Any) -> Response:
        return Response(render_agent(self.agent()))

    @operation(
        "updateAgent",
        "Rename an agent; admins archive it and bring it back",
        about="An archived agent is not edited or published; its versions keep answering.",
        tag=_TAG,
        body=ref("AgentChange"),
        answers={200: ref("Agent")},
        errors=(400, 404, 415, 422),
        writes=True,
    )
    def patch(self, request: Request, **_: Any) -> Response:
        agent, values = self.agent(), self.body()
        if "archived" in values:
            self.access.require("admin")

        def work() -> tuple[int, Any]:
            changed = update_agent(actor=self.access.actor, agent=agent, values=values)
            return 200, render_agent(changed)

        return self.write(work)
