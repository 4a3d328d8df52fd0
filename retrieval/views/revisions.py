"""The history of a document over HTTP: its revisions and how their texts differ."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from registry.openapi import PAGING, listed, operation, ref
from registry.pages import page_of_list
from retrieval.documents import find_document
from retrieval.revisions import compare_revisions, revisions_of
from retrieval.views.documents import DocumentView

_TAG = "documents"


class Revisions(DocumentView):
    scopes = {"GET": "editor"}

    @operation(
        "listRevisions",
        "List the revisions of a document, newest first",
        tag=_TAG,
        query=PAGING,
        answers={200: listed("Revision")},
        errors=(404, 422),
    )
    def get(self, request: Request, **_: Any) -> Response:
        self.query("limit", "cursor")
        document = find_document(self.knowledge_base(), self.document_id())
        revisions = [revision.as_json() for revision in revisions_of(document)]
        return Response(page_of_list(request, revisions))


class RevisionDiff(DocumentView):
    scopes = {"GET": "editor"}

    @operation(
        "compareRevisions",
        "Show how the text of one revision differs from another's",
        about="Line by line, as the revisions were read. Where a text is not there (`reason`: not "
        "read, failed, purged), there is nothing to compare.",
        tag=_TAG,
        query=PAGING,
        answers={200: ref("RevisionDiff")},
        errors=(404, 422),
    )
    def get(self, request: Request, **_: Any) -> Response:
        self.query("limit", "cursor")
        document = find_document(self.knowledge_base(), self.document_id())
        found = compare_revisions(document, self.kwargs["number"], self.kwargs["other"])
        return Response(
            {
                "from": found.before.as_json(),
                "to": found.after.as_json(),
                "reason": found.reason,
                "note": found.note,
                "removed": found.removed,
                "added": found.added,
                **page_of_list(request, [hunk.as_json() for hunk in found.hunks]),
            }
        )
