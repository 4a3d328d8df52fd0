"""The chunks that a configuration would give, over HTTP."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from registry import requests
from registry.errors import Invalid
from registry.openapi import operation, ref
from registry.pages import DEFAULT_LIMIT
from retrieval.chunk_previews import (
    MOST_CHARACTERS,
    MOST_CHUNKS,
    ChunkPreview,
    preview_document,
    preview_text,
)
from retrieval.chunking import Chunking
from retrieval.documents import find_document, own_chunking
from retrieval.embedding_models import known_model
from retrieval.knowledge_bases import chunking_of
from retrieval.views.knowledge_bases import KnowledgeBaseView

_MEMBERS = ("chunking", "embeddingModel", "document", "text", "from", "limit")


class ChunkPreviews(KnowledgeBaseView):
    scopes = {"POST": "editor"}

    @operation(
        "previewChunks",
        "Show the chunks that a configuration would give",
        about="Of a document as it was read, or of a text. Writes nothing. 409 where the "
        "document is not read yet (`document.pending`) or cannot be (`document.failed`).",
        tag="knowledge bases",
        body=ref("ChunkPreviewRequest"),
        answers={200: ref("ChunkPreview")},
        errors=(400, 404, 409, 415, 422, 503),
    )
    def post(self, request: Request, **_: Any) -> Response:
        body = self.body(*_MEMBERS)
        start = requests.integer(body, "from", least=0, most=10**9, default=0) or 0
        limit = requests.integer(body, "limit", least=1, most=MOST_CHUNKS, default=DEFAULT_LIMIT)
        preview = self._preview(body)
        return Response(preview.as_json(start=start, limit=limit or DEFAULT_LIMIT))

    def _preview(self, body: dict[str, Any]) -> ChunkPreview:
        base = self.knowledge_base()
        if (body.get("document") is None) == (body.get("text") is None):
            raise Invalid.field(
                "document",
                body.get("document"),
                "either document or text is needed, and not both",
                allowed=["document", "text"],
                code="preview.source",
            )
        document = own = None
        if body.get("document") is not None:
            document = find_document(base, requests.parse_uuid(body["document"], field="document"))
            own = own_chunking(document)
        name = requests.text(body, "embeddingModel", default=base.model.name, longest=200)
        model = known_model(name)
        wanted = body.get("chunking")
        chunking = Chunking.from_json(
            (own or chunking_of(base)).as_json() if wanted is None else wanted, model.max_tokens
        )
        if document is not None:
            return preview_document(document=document, chunking=chunking, model=model)
        text = requests.text(body, "text", longest=MOST_CHARACTERS)
        return preview_text(text=text, chunking=chunking, model=model)
