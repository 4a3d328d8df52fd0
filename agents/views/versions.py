"""Publishing, and the published versions, over HTTP."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from agents.comparison import compare
from agents.drafting import draft_of
from agents.models import AgentVersion
from agents.publishing import publish_draft
from agents.rendering import (
    render_draft,
    render_publication,
    render_version,
    render_version_in_short,
)
from agents.restoring import restore_version
from agents.verification import summary, to_verify, verify_version
from agents.versions import DRAFT, find_version, runnable
from agents.views.agents import AgentView
from agents.views.drafts import if_match, with_etag
from registry import requests
from registry.openapi import PAGING, listed, operation, ref
from registry.pages import page
from retrieval.verification import Verifier

_TAG = "versions"


class Publish(AgentView):
    scopes = {"POST": "publisher"}

    @operation(
        "publish",
        "Publish the draft as the next version",
        about="Pins every knowledge base it refers to. A draft equal to the newest version, or "
        "changes that are not yet in a snapshot, are a conflict. `warnings` are those of the "
        "expressions and of the coverage.",
        tag=_TAG,
        body=ref("Publish"),
        answers={201: ref("Publication")},
        errors=(400, 404, 409, 412, 415, 422),
        writes=True,
        if_match="optional",
    )
    def post(self, request: Request, **_: Any) -> Response:
        agent, revision = self.agent(), if_match(request)
        body = self.body("notes", "acceptOutdated")
        notes = requests.text(body, "notes", default="", longest=10_000, blank=True)
        accept_outdated = requests.boolean(body, "acceptOutdated", default=False)

        def work() -> tuple[int, Any]:
            version = publish_draft(
                actor=self.access.actor,
                agent=agent,
                notes=notes,
                accept_outdated=accept_outdated,
                expected_revision=revision,
            )
            return 201, render_publication(agent, version)

        return self.write(work)


class Versions(AgentView):
    scopes = {"GET": "editor"}

    @operation(
        "listVersions",
        "List the published versions, newest first",
        tag=_TAG,
        query=PAGING,
        answers={200: listed("VersionInShort")},
        errors=(404, 422),
    )
    def get(self, request: Request, **_: Any) -> Response:
        self.query("limit", "cursor")
        rows = AgentVersion.objects.filter(agent=self.agent(), state="published")
        return Response(
            page(
                request,
                rows,
                key=("-number",),
                render=lambda versions: map(render_version_in_short, versions),
            )
        )


class VersionDetail(AgentView):
    scopes = {"GET": "editor"}

    @operation(
        "getVersion",
        "Show a published version",
        tag=_TAG,
        answers={200: ref("Version")},
        errors=(404,),
    )
    def get(self, request: Request, **_: Any) -> Response:
        agent = self.agent()
        return Response(render_version(agent, find_version(agent, self.kwargs["number"])))


class VersionDifference(AgentView):
    scopes = {"GET": "editor"}

    @operation(
        "compareVersions",
        "Show what changed from a version to another, or to the draft",
        tag=_TAG,
        answers={200: ref("Difference")},
        errors=(404,),
    )
    def get(self, request: Request, **_: Any) -> Response:
        agent, number = self.agent(), self.kwargs["number"]
        other = self.kwargs.get("other", DRAFT)
        before = find_version(agent, number)
        after = draft_of(agent) if other == DRAFT else find_version(agent, other)
        changes = compare(runnable(agent, before), runnable(agent, after))
        return Response(
            {"from": number, "to": other, "changes": [change.as_json() for change in changes]}
        )


class VersionDraftDifference(VersionDifference):
    """The same to the draft: an address of its own in the OpenAPI document."""

    @operation(
        "compareVersionWithDraft",
        "Show what changed from a version to the draft",
        tag=_TAG,
        answers={200: ref("Difference")},
        errors=(404,),
    )
    def get(self, request: Request, **_: Any) -> Response:
        return super().get(request)


class Restore(AgentView):
    scopes = {"POST": "publisher"}

    @operation(
        "restoreVersion",
        "Make the draft a copy of a version",
        tag=_TAG,
        answers={200: ref("Draft")},
        errors=(400, 404, 409, 412, 422, 428),
        writes=True,
        if_match="required",
        etag=True,
    )
    def post(self, request: Request, **_: Any) -> Response:
        agent, revision = self.agent(), if_match(request)
        self.no_body()

        def work() -> tuple[int, Any]:
            draft = restore_version(
                actor=self.access.actor,
                access=self.access,
                agent=agent,
                number=self.kwargs["number"],
                expected_revision=revision,
            )
            return 200, render_draft(agent, draft)

        return with_etag(self.write(work))


class Verify(AgentView):
    scopes = {"POST": "publisher"}

    @operation(
        "verifyVersion",
        "Prove that a version is what was published",
        about="Recomputes manifest and digest from the rows, and every pinned snapshot from its "
        "members down to chunk texts, vectors and document bytes.",
        tag=_TAG,
        answers={200: ref("Verification")},
        errors=(404,),
    )
    def post(self, request: Request, **_: Any) -> Response:
        agent, number = self.agent(), self.kwargs["number"]
        self.no_body()
        version = find_version(agent, number, among=to_verify(AgentVersion.objects.all()))
        return Response(summary(verify_version(version, Verifier())))
