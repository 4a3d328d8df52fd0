"""One document of a build: claimed, extracted, cut, embedded, written whole.

A piece is claimed in PostgreSQL for a while (a lease), so any number of workers share a build and
a killed one costs its piece and no more. Its result is one transaction that also proves the claim
is still held; whoever lost it throws its work away.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TypeVar

from django.db import connection, transaction

from retrieval.chunking import Chunking, Piece, chunk
from retrieval.claims import Claim, ClaimLost, fall_back, finish, kept_alive
from retrieval.digests import (
    chunk_digest,
    indexed_document_digest,
    text_digest,
    vector_digest,
)
from retrieval.encoders import Encoder, encoder_for
from retrieval.extractor import RevisionGone, extraction_of, segments_of
from retrieval.models import (
    BuildPiece,
    Chunk,
    Extraction,
    IndexedDocument,
    IndexSnapshot,
    PendingVector,
)
from retrieval.vectors import Vector, from_wire

logger = logging.getLogger("retrieval.pieces")

# Above this many chunks a document's vectors are committed in parts while it is worked on.
PART = 2000
_BATCH = 64

T = TypeVar("T")


def work_on(claim: Claim) -> None:
    """Index the claimed document; what cannot be read fails with a sentence and the build goes on.

    A claim lost meanwhile ends quietly: the work is another's.
    """
    piece = (
        BuildPiece.objects.select_related("snapshot__model", "revision")
        .filter(pk=claim.piece_id, claim=claim.token)
        .first()
    )
    if piece is None:
        return
    try:
        with kept_alive(claim):
            extraction = extraction_of(piece.revision)
            if extraction.status == "failed":
                fall_back(claim, extraction)
                return
            indexed = _existing(piece.snapshot, extraction) or _index(claim, piece, extraction)
        finish(claim, indexed)
    except (ClaimLost, RevisionGone):
        logger.info("piece.claim_lost piece=%s", claim.piece_id)


def _existing(snapshot: IndexSnapshot, extraction: Extraction) -> IndexedDocument | None:
    return (
        IndexedDocument.objects.filter(
            extraction=extraction,
            chunking=snapshot.chunking,
            model_id=snapshot.model_id,
            sealed=True,
        )
        .order_by("pk")
        .first()
    )


def _index(claim: Claim, piece: BuildPiece, extraction: Extraction) -> IndexedDocument:
    snapshot = piece.snapshot
    encoder = encoder_for(snapshot.model.name)
    parts = chunk(segments_of(extraction), Chunking.from_recipe(snapshot.chunking), encoder)
    digests = [text_digest(part.text) for part in parts]
    vectors = _vectors(claim, snapshot.model_id, encoder, parts, digests)
    chunk_digests = [
        chunk_digest(text=part.text, page=part.page, section=part.section) for part in parts
    ]
    vector_digests = [vector_digest(vectors[digest]) for digest in digests]
    with transaction.atomic():
        claim.renew(chunks_done=len(parts))
        indexed = IndexedDocument.objects.create(
            extraction=extraction, chunking=snapshot.chunking, model_id=snapshot.model_id
        )
        Chunk.objects.bulk_create(
            (
                Chunk(
                    indexed_document=indexed,
                    model_id=snapshot.model_id,
                    ordinal=ordinal,
                    text=part.text,
                    page=part.page,
                    section=part.section,
                    start=part.start,
                    end=part.end,
                    truncated=part.truncated,
                    digest=chunk_digests[ordinal],
                    text_digest=digests[ordinal],
                    vector=vectors[digests[ordinal]],
                    vector_digest=vector_digests[ordinal],
                )
                for ordinal, part in enumerate(parts)
            ),
            batch_size=500,
        )
        indexed.digest = indexed_document_digest(
            revision_sha256=piece.revision.sha256,
            extraction=extraction.digest,
            chunking=snapshot.chunking,
            model_fingerprint=snapshot.model.fingerprint,
            chunks=zip(chunk_digests, vector_digests, strict=True),
        )
        indexed.chunk_count = len(parts)
        indexed.sealed = True
        indexed.save()
    if len(parts) > PART:
        PendingVector.objects.filter(model_id=snapshot.model_id, text_digest__in=digests).delete()
    return indexed


def _vectors(
    claim: Claim, model_id: int, encoder: Encoder, parts: Sequence[Piece], digests: Sequence[str]
) -> dict[str, Vector]:
    """Return a vector per text digest: copied where this model has met the text, else embedded."""
    vectors = known_vectors(model_id, digests)
    missing = {
        digest: part.text
        for digest, part in zip(digests, parts, strict=True)
        if digest not in vectors
    }
    todo = list(missing.items())
    since_commit: list[PendingVector] = []
    for batch in _batches(todo, _BATCH):
        embedded = encoder.encode_passages([text for _, text in batch])
        for (digest, _), vector in zip(batch, embedded, strict=True):
            vectors[digest] = vector
            since_commit.append(PendingVector(model_id=model_id, text_digest=digest, vector=vector))
        with transaction.atomic():
            # Together: a purge takes the claim away, and no vector of its text comes after it.
            claim.renew(chunks_done=len(vectors))
            if len(parts) > PART and len(since_commit) >= PART:
                PendingVector.objects.bulk_create(since_commit, ignore_conflicts=True)
                since_commit = []
    return vectors


def known_vectors(model_id: int, digests: Sequence[str]) -> dict[str, Vector]:
    """Return the vectors of texts that this model has embedded before, by text digest."""
    found: dict[str, Vector] = {}
    wanted = list(set(digests))
    with connection.cursor() as cursor:
        for batch in _batches(wanted, 5000):
            cursor.execute(
                """
                SELECT DISTINCT ON (text_digest) text_digest, vector_send(vector) FROM (
                    SELECT c.text_digest, c.vector, c.id FROM retrieval_chunk AS c
                    JOIN retrieval_indexeddocument AS i ON i.id = c.indexed_document_id AND i.sealed
                    WHERE c.model_id = %(model)s AND c.text_digest = ANY(%(digests)s)
                      AND c.vector IS NOT NULL
                    UNION ALL
                    SELECT text_digest, vector, NULL FROM retrieval_pendingvector
                    WHERE model_id = %(model)s AND text_digest = ANY(%(digests)s)
                ) AS known ORDER BY text_digest, id NULLS LAST
                """,
                {"model": model_id, "digests": list(batch)},
            )
            for digest, sent in cursor.fetchall():
                found[digest] = from_wire(sent)
    return found


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
