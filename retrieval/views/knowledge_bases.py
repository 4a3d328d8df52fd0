"""Knowledge bases over HTTP."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from registry.api import View
from registry.errors import Forbidden
from registry.openapi import PAGING, listed, operation, ref
from registry.pages import page
from registry.requests import boolean, path_uuid
from retrieval.build_control import pause_build, reindex, resume_build
from retrieval.knowledge_bases import (
    create_knowledge_base,
    delete_knowledge_base,
    find,
    update_knowledge_base,
)
from retrieval.models import KnowledgeBase
from retrieval.rendering import render_knowledge_base, render_knowledge_bases

_TAG = "knowledge bases"


class KnowledgeBaseView(View):
    """A view below one knowledge base."""

    def knowledge_base(self) -> KnowledgeBase:
        """Return the knowledge base of the address. Raises NotFound."""
        text = self.kwargs["knowledge_base_id"]
        return find(path_uuid(text, what="knowledge base"), self.access)


class KnowledgeBases(View):
    scopes = {"GET": "editor", "POST": "editor"}

    @operation(
        "listKnowledgeBases",
        "List knowledge bases by name",
        tag=_TAG,
        query=PAGING,
        answers={200: listed("KnowledgeBase")},
        errors=(422,),
    )
    def get(self, request: Request) -> Response:
        self.query("limit", "cursor")
        rows = KnowledgeBase.objects.select_related("model", "current_snapshot")
        visible = self.access.knowledge_bases
        if visible is not None:
            rows = rows.filter(pk__in=visible)
        return Response(page(request, rows, key=("name",), render=render_knowledge_bases))

    @operation(
        "createKnowledgeBase",
        "Create a knowledge base",
        tag=_TAG,
        body=ref("KnowledgeBaseCreate"),
        answers={201: ref("KnowledgeBase")},
        errors=(400, 409, 415, 422),
        writes=True,
    )
    def post(self, request: Request) -> Response:
        if self.access.knowledge_bases is not None:
            raise Forbidden("A key limited to agents cannot create knowledge bases.")
        values = self.body()

        def work() -> tuple[int, Any]:
            base = create_knowledge_base(actor=self.access.actor, values=values)
            return 201, render_knowledge_base(base)

        return self.write(work)


class KnowledgeBaseDetail(KnowledgeBaseView):
    scopes = {"GET": "editor", "PATCH": "editor", "DELETE": "editor"}

    @operation(
        "getKnowledgeBase",
        "Show a knowledge base, with its build",
        tag=_TAG,
        answers={200: ref("KnowledgeBase")},
        errors=(404,),
    )
    def get(self, request: Request, **_: Any) -> Response:
        return Response(render_knowledge_base(self.knowledge_base()))

    @operation(
        "updateKnowledgeBase",
        "Change a knowledge base",
        about="Another model or chunking starts a build. Published versions keep what they have.",
        tag=_TAG,
        body=ref("KnowledgeBaseChange"),
        answers={200: ref("KnowledgeBase")},
        errors=(400, 404, 409, 415, 422),
        writes=True,
    )
    def patch(self, request: Request, **_: Any) -> Response:
        base, values = self.knowledge_base(), self.body()

        def work() -> tuple[int, Any]:
            changed = update_knowledge_base(
                actor=self.access.actor, knowledge_base_id=base.pk, values=values
            )
            return 200, render_knowledge_base(changed)

        return self.write(work)

    @operation(
        "deleteKnowledgeBase",
        "Delete a knowledge base that no draft and no version holds",
        tag=_TAG,
        answers={204: None},
        errors=(404, 409),
        writes=True,
    )
    def delete(self, request: Request, **_: Any) -> Response:
        base_id = path_uuid(self.kwargs["knowledge_base_id"], what="knowledge base")
        self.access.require_knowledge_base(base_id)

        def work() -> tuple[int, Any]:
            delete_knowledge_base(
                actor=self.access.actor, knowledge_base_id=base_id, access=self.access
            )
            return 204, None

        return self.write(work)


class Reindex(KnowledgeBaseView):
    scopes = {"POST": "editor"}

    @operation(
        "reindex",
        "Build now, trying again what could not be read",
        about="With `reextract`, the installed extractor also reads what another one has read; "
        "where it cannot, the earlier reading stays.",
        tag=_TAG,
        body=ref("Reindex"),
        answers={202: ref("KnowledgeBase")},
        errors=(400, 404, 415, 422),
        writes=True,
    )
    def post(self, request: Request, **_: Any) -> Response:
        base = self.knowledge_base()
        reextract = boolean(self.body("reextract"), "reextract", default=False)

        def work() -> tuple[int, Any]:
            reindex(actor=self.access.actor, base=base, reextract=reextract)
            return 202, render_knowledge_base(find(base.pk))

        return self.write(work)


class PauseBuild(KnowledgeBaseView):
    scopes = {"POST": "editor"}

    @operation(
        "pauseBuild",
        "Pause the build that is due or running",
        about="What workers hold is finished and kept; no further document is begun. Changes are "
        "accepted and wait. Cancelling it ends the pause where no changes wait.",
        tag=_TAG,
        answers={200: ref("KnowledgeBase")},
        errors=(404, 409, 422),
        writes=True,
    )
    def post(self, request: Request, **_: Any) -> Response:
        base = self.knowledge_base()
        self.no_body()

        def work() -> tuple[int, Any]:
            pause_build(actor=self.access.actor, base=base)
            return 200, render_knowledge_base(find(base.pk))

        return self.write(work)


class ResumeBuild(KnowledgeBaseView):
    scopes = {"POST": "editor"}

    @operation(
        "resumeBuild",
        "Let a paused build go on where it stopped",
        tag=_TAG,
        answers={200: ref("KnowledgeBase")},
        errors=(404, 422),
        writes=True,
    )
    def post(self, request: Request, **_: Any) -> Response:
        base = self.knowledge_base()
        self.no_body()

        def work() -> tuple[int, Any]:
            resume_build(actor=self.access.actor, base=base)
            return 200, render_knowledge_base(find(base.pk))

        return self.write(work)
