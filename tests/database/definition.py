"""Invariant 4 by its definition, from the rows and in nothing but Python."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from django.db import connection

from retrieval.questions import Question
from retrieval.search import Target
from retrieval.vectors import from_wire


def answer_by_definition(target: Target, question: Question) -> list[dict[str, Any]]:
    """Every chunk scored, sorted, the ``top_k`` best as an answer without a floor shows them."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT vector_send(vector) FROM retrieval_queryembedding "
            "WHERE query_digest = %s AND model_id = %s",
            [question.digest, target.snapshot.model_id],
        )
        asked = from_wire(cursor.fetchone()[0])
        cursor.execute(
            "SELECT vector_send(c.vector), c.digest, m.document_id, c.ordinal, c.text, m.name, "
            "m.revision_number, c.page, c.section, m.metadata, c.truncated "
            "FROM retrieval_snapshotmember AS m JOIN retrieval_chunk AS c "
            "ON c.indexed_document_id = m.indexed_document_id "
            "WHERE m.snapshot_id = %s AND c.vector IS NOT NULL",
            [target.snapshot.pk],
        )
        rows = cursor.fetchall()
    ranked = []
    for sent, digest, document, ordinal, *shown in rows:
        total = 0.0
        for one, other in zip(asked, from_wire(sent), strict=True):
            total += float(np.float64(one)) * float(np.float64(other))
        ranked.append((-round(total, 6), digest, str(document), ordinal, shown))
    best = sorted(ranked, key=lambda one: one[:4])[: question.top_k]
    return [
        {
            "passage": text,
            "document": {"id": document, "name": name, "revision": revision},
            "page": page,
            "section": section,
            "metadata": json.loads(metadata),
            "confidence": min(1.0, max(0.0, -score)) + 0.0,
            "truncated": truncated,
            "chunk": digest,
        }
        for score, digest, document, _, (
            text,
            name,
            revision,
            page,
            section,
            metadata,
            truncated,
        ) in best
    ]
