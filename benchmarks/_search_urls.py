"""What a tool call is compared with, on the same server: same key, same body, same form of answer.

``hnsw`` is what one would otherwise build: sentence-transformers and pgvector's index with its
defaults, a filter, and the iterative scan that a filter needs. ``exact`` is pgvector without an
index. ``same`` only gives back bytes that it was told.
"""

from __future__ import annotations

import json
import uuid
from functools import cache
from typing import Any, ClassVar

from django.db import connection, transaction
from django.http import HttpResponse
from django.urls import path
from rest_framework.request import Request
from rest_framework.response import Response

from registry.api import View
from registry.urls import urlpatterns as own
from retrieval.encoders import encoder_for
from retrieval.models import IndexSnapshot
from retrieval.vectors import literal

_HNSW = """
SELECT digest, document_id, name, revision_number, metadata, text, page, section,
       1 - (embedding <=> %(query)s::vector) AS confidence
FROM bench_chunk WHERE knowledge_base = %(base)s
ORDER BY embedding <=> %(query)s::vector LIMIT %(count)s
"""
_EXACT = """
SELECT c.digest, m.document_id, m.name, m.revision_number, m.metadata, c.text, c.page, c.section,
       1 - (c.vector <=> %(query)s::vector) AS confidence
FROM retrieval_snapshotmember AS m
JOIN retrieval_chunk AS c ON c.indexed_document_id = m.indexed_document_id
WHERE m.snapshot_id = %(base)s
ORDER BY c.vector <=> %(query)s::vector LIMIT %(count)s
"""


class Same(View):
    scopes = {"POST": "runtime", "PUT": "runtime"}
    answer: ClassVar[Any] = {}

    def put(self, request: Request, **_: Any) -> HttpResponse:
        Same.answer = self.body()
        return HttpResponse(status=204)

    def post(self, request: Request, **_: Any) -> Response:
        self.body()
        return Response(Same.answer)


class Hnsw(View):
    scopes = {"POST": "runtime"}

    def post(self, request: Request, **_: Any) -> Response:
        body = self.body()
        vector = _transformer().encode(body["query"], normalize_embeddings=True)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL hnsw.iterative_scan = 'strict_order'")
            cursor.execute(_HNSW, _values(vector, body))
            return Response(_answer(cursor.fetchall()))


class Exact(View):
    scopes = {"POST": "runtime"}

    def post(self, request: Request, **_: Any) -> Response:
        body = self.body()
        vector = encoder_for("all-MiniLM-L6-v2").encode_query(body["query"])
        body["base"] = _snapshot(body["base"])
        with connection.cursor() as cursor:
            cursor.execute(_EXACT, _values(vector, body))
            return Response(_answer(cursor.fetchall()))


@cache
def _transformer() -> Any:
    from sentence_transformers import SentenceTransformer

    from retrieval.encoders.graph import bundled_model_dir

    return SentenceTransformer(str(bundled_model_dir()), local_files_only=True, device="cpu")


@cache
def _snapshot(base: str) -> int:
    return (
        IndexSnapshot.objects.filter(knowledge_base=uuid.UUID(base), state="ready")
        .latest("number")
        .pk
    )


def _values(vector: Any, body: dict[str, Any]) -> dict[str, Any]:
    return {"query": literal(vector), "base": body["base"], "count": body["topK"]}


def _answer(rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    return {
        "results": [
            {
                "passage": text,
                "document": {"id": str(document), "name": name, "revision": revision},
                "page": page,
                "section": section,
                "metadata": json.loads(metadata),
                "confidence": confidence,
                "chunk": digest,
            }
            for digest, document, name, revision, metadata, text, page, section, confidence in rows
        ]
    }


urlpatterns = [
    path("bench/same", Same.as_view()),
    path("bench/hnsw", Hnsw.as_view()),
    path("bench/exact", Exact.as_view()),
    *own,
]
