"""Documents of a knowledge base over HTTP."""

from __future__ import annotations

import uuid
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from registry import requests
from registry.errors import Invalid
from registry.openapi import PAGING, in_query, listed, one_of, operation, ref
from registry.pages import page, page_of_list
from registry.wire import StrictJSONParser
from retrieval.build_control import retry_document
from retrieval.document_states import STATUSES, with_status
from retrieval.documents import (
    KEEP,
    add_document,
    delete_document,
    extracted_segments,
    find_document,
    replace_document,
    update_document,
)
from retrieval.models import Document
from retrieval.purging import purge_document
from retrieval.rendering import render_document, render_documents
from retrieval.views.knowledge_bases import KnowledgeBaseView
from retrieval.views.uploads import UploadParser, read_upload

_TAG = "documents"


class DocumentView(KnowledgeBaseView):
    """A view below one document."""

    def document_id(self) -> uuid.UUID:
        """Return the id in the address. Raises NotFound for one of another form."""
        return requests.path_uuid(self.kwargs["document_id"], what="document")


class Documents(KnowledgeBaseView):
    scopes = {"GET": "editor", "POST": "editor"}
    parser_classes = (StrictJSONParser, UploadParser)

    @operation(
        "listDocuments",
        "List the documents of a knowledge base by name",
        tag=_TAG,
        query=(
            in_query("status", one_of(*STATUSES), "Where the newest revision stands."),
            *PAGING,
        ),
        answers={200: listed("Document")},
        errors=(404, 422),
    )
    def get(self, request: Request, **_: Any) -> Response:
        query = self.query("status", "limit", "cursor")
        rows = Document.objects.filter(
            knowledge_base=self.knowledge_base(), deleted_at__isnull=True
        )
        if "status" in query:
            rows = with_status(rows, requests.choice(query, "status", STATUSES, default=""))
        return Response(page(request, rows, key=("name", "id"), render=render_documents))

    @operation(
        "addDocument",
        "Add a document",
        about="Equal name and bytes: 200 and the document that is there. Equal name, other "
        "bytes: 409; PUT replaces. What only reading it can find out becomes its status.",
        tag=_TAG,
        body=ref("DocumentText"),
        form=ref("DocumentFile"),
        answers={202: ref("Document"), 200: ref("Document")},
        errors=(400, 404, 409, 413, 415, 422),
        writes=True,
    )
    def post(self, request: Request, **_: Any) -> Response:
        base = self.knowledge_base()
        upload = read_upload(request.data, is_new=True)

        def work() -> tuple[int, Any]:
            document, is_new = add_document(actor=self.access.actor, base=base, upload=upload)
            return 202 if is_new else 200, render_document(document)

        return self.write(work)


class DocumentDetail(DocumentView):
    scopes = {"GET": "editor", "PUT": "editor", "PATCH": "editor", "DELETE": "editor"}
    parser_classes = (StrictJSONParser, UploadParser)

    @operation(
        "getDocument",
        "Show a document and where it stands",
        tag=_TAG,
        answers={200: ref("Document")},
        errors=(404,),
    )
    def get(self, request: Request, **_: Any) -> Response:
        return Response(render_document(find_document(self.knowledge_base(), self.document_id())))

    @operation(
        "replaceDocument",
        "Give a document a new revision",
        about="Without a name it keeps its own, without metadata its own. Equal bytes: 200.",
        tag=_TAG,
        body=ref("DocumentTextReplacement"),
        form=ref("DocumentFile"),
        answers={202: ref("Document"), 200: ref("Document")},
        errors=(400, 404, 409, 413, 415, 422),
        writes=True,
    )
    def put(self, request: Request, **_: Any) -> Response:
        base, document_id = self.knowledge_base(), self.document_id()
        upload = read_upload(request.data, is_new=False)

        def work() -> tuple[int, Any]:
            document, new_bytes = replace_document(
                actor=self.access.actor, base=base, document_id=document_id, upload=upload
            )
            return 202 if new_bytes else 200, render_document(document)

        return self.write(work)

    @operation(
        "updateDocument",
        "Rename a document, replace its metadata, switch it on or off, cut it its own way",
        tag=_TAG,
        body=ref("DocumentChange"),
        answers={200: ref("Document")},
        errors=(400, 404, 409, 415, 422),
        writes=True,
    )
    def patch(self, request: Request, **_: Any) -> Response:
        base, document_id = self.knowledge_base(), self.document_id()
        body = self.body("name", "metadata", "enabled", "chunking")

        def work() -> tuple[int, Any]:
            document = update_document(
                actor=self.access.actor,
                base=base,
                document_id=document_id,
                name=requests.text(body, "name", blank=True) if "name" in body else None,
                metadata=requests.json_object(body, "metadata") if "metadata" in body else None,
                enabled=(
                    requests.boolean(body, "enabled", default=True) if "enabled" in body else None
                ),
                chunking=body.get("chunking", KEEP),
            )
            return 200, render_document(document)

        return self.write(work)

    @operation(
        "deleteDocument",
        "Delete a document from the next snapshot on",
        about="Snapshots that hold it, and so published versions, keep answering from it.",
        tag=_TAG,
        answers={204: None},
        errors=(404,),
        writes=True,
    )
    def delete(self, request: Request, **_: Any) -> Response:
        base, document_id = self.knowledge_base(), self.document_id()

        def work() -> tuple[int, Any]:
            delete_document(actor=self.access.actor, base=base, document_id=document_id)
            return 204, None

        return self.write(work)


class RetryDocument(DocumentView):
    scopes = {"POST": "editor"}

    @operation(
        "retryDocument",
        "Try a document again that failed",
        about="In a build that follows. All that failed are tried again by `reindex`.",
        tag=_TAG,
        answers={202: ref("Document")},
        errors=(404, 409, 422),
        writes=True,
    )
    def post(self, request: Request, **_: Any) -> Response:
        base, document_id = self.knowledge_base(), self.document_id()
        self.no_body()

        def work() -> tuple[int, Any]:
            document = find_document(base, document_id)
            retry_document(actor=self.access.actor, base=base, document=document)
            return 202, render_document(document)

        return self.write(work)


class Segments(DocumentView):
    scopes = {"GET": "editor"}

    @operation(
        "listSegments",
        "List what was read out of a revision, in its order",
        about="Empty while it is pending, and where reading failed. Chunks count their offsets in "
        "these texts, a blank line between.",
        tag=_TAG,
        query=(
            in_query("revision", {"type": "integer", "minimum": 1}, "Default: the newest."),
            *PAGING,
        ),
        answers={200: listed("Segment")},
        errors=(404, 422),
    )
    def get(self, request: Request, **_: Any) -> Response:
        asked = self.query("revision", "limit", "cursor").get("revision")
        number = None if asked is None else _number(asked)
        document = find_document(self.knowledge_base(), self.document_id())
        return Response(page_of_list(request, extracted_segments(document, number)))


class PurgeDocument(DocumentView):
    """Erasure for good. The address takes the id of a deleted document, too."""

    scopes = {"POST": "admin"}

    @operation(
        "purgeDocument",
        "Erase the contents of a document for good",
        about="Bytes, texts and vectors of all its revisions go; digests, name and metadata stay. "
        "A living document is deleted with it. Published versions go on answering without its "
        "passages and say so (`purged`). The id of a deleted document is in citations, traces and "
        "the audit log. Purging again changes nothing.",
        tag=_TAG,
        body=ref("PurgeRequest"),
        answers={200: ref("PurgedDocument")},
        errors=(400, 404, 415, 422),
        writes=True,
    )
    def post(self, request: Request, **_: Any) -> Response:
        base, document_id = self.knowledge_base(), self.document_id()
        body = self.body("reason")
        reason = requests.text(body, "reason")

        def work() -> tuple[int, Any]:
            purged = purge_document(
                actor=self.access.actor,
                base=base,
                document_id=document_id,
                reason=reason,
                access=self.access,
            )
            return 200, purged.as_json()

        return self.write(work)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text)):
        raise Invalid.field(
            "revision", text, "must be a whole number from 1", allowed={"minimum": 1}
        )
    return int(text)
