"""One document of a build: claimed, extracted, cut, embedded, written whole.

A piece is claimed in PostgreSQL for a while (a lease), so any number of workers share a build and
a killed one costs its piece and no more. Its result is one transaction that also proves the claim
is still held; whoever lost it throws its work away.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from django.db import Error as DatabaseFailure
from django.db import connection, transaction

from registry.errors import Unavailable
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
from retrieval.indexed_documents import NewChunk, write_indexed_document
from retrieval.lexical import document_statistics
from retrieval.models import Extraction, IndexedDocument, PendingVector
from retrieval.segments import counted_text, joined_text
from retrieval.sizes import size_of
from retrieval.vectors import Vector, from_wire

logger = logging.getLogger("retrieval.pieces")

# Above this many chunks a document's vectors are committed in parts while it is worked on.
PART = 2000
_BATCH = 64
# Digests looked up by one statement
_DIGESTS = 5000

T = TypeVar("T")


def work_on(claim: Claim, *, meanwhile: Callable[[], None] | None = None) -> None:
    """Index the claimed document; what cannot be read fails with a sentence and the build goes on.

    ``meanwhile`` is called again and again, some seconds apart, while the document is embedded:
    there other work may be put in. A claim lost meanwhile ends quietly: the work is another's.
    Any error gives the piece back; that the model is not available counts as no attempt.
    """
    try:
        with kept_alive(claim):
            extraction = extraction_of(claim.revision_id, is_unread=claim.is_unread)
            if extraction.status == "failed":
                fall_back(claim, extraction)
                return
            indexed = None if claim.is_unread else _existing(claim, extraction)
            if indexed is not None:
                finish(claim, indexed)
            else:
                _index(claim, extraction, meanwhile)
    except (ClaimLost, RevisionGone):
        logger.info("piece.claim_lost piece=%s", claim.piece_id)
    except BaseException as error:
        with suppress(DatabaseFailure):
            claim.give_back(counted=not isinstance(error, Unavailable))
        raise


def _existing(claim: Claim, extraction: Extraction) -> IndexedDocument | None:
    return (
        IndexedDocument.objects.filter(
            extraction=extraction, chunking=claim.chunking, model_id=claim.model_id, sealed=True
        )
        .order_by("pk")
        .first()
    )


def _index(claim: Claim, extraction: Extraction, meanwhile: Callable[[], None] | None) -> None:
    """Cut and embed an extraction and write the result, in one transaction with the piece's end.

    Raises ClaimLost, with nothing written but vectors of a large document's parts.
    """
    encoder = encoder_for(claim.model_name)
    segments = segments_of(extraction)
    parts = chunk(segments, Chunking.from_recipe(claim.chunking), encoder)
    document = joined_text(segments)
    digests = [text_digest(part.text) for part in parts]
    vectors = _vectors(claim, encoder, parts, digests, meanwhile)
    # Each text once: the same one may stand in many chunks.
    digests_of_vectors = {digest: vector_digest(vector) for digest, vector in vectors.items()}
    chunks = [
        NewChunk(
            piece=part,
            digest=chunk_digest(text=part.text, page=part.page, section=part.section),
            text_digest=digest,
            vector=vectors[digest],
            vector_digest=digests_of_vectors[digest],
        )
        for part, digest in zip(parts, digests, strict=True)
    ]
    indexed = IndexedDocument(
        extraction=extraction,
        chunking=claim.chunking,
        model_id=claim.model_id,
        digest=indexed_document_digest(
            revision_sha256=claim.revision_sha256,
            extraction=extraction.digest,
            chunking=claim.chunking,
            model_fingerprint=claim.model_fingerprint,
            chunks=((one.digest, one.vector_digest) for one in chunks),
        ),
        chunk_count=len(chunks),
        term_statistics=document_statistics(
            counted_text(part.text, part.start, truncated=part.truncated, document=document)
            for part in parts
        ),
        size=size_of((one.piece.text, one.piece.section, one.vector) for one in chunks),
    )
    write_indexed_document(claim, indexed, chunks)
    if len(parts) > PART:
        for batch in _batches(digests, _DIGESTS):
            PendingVector.objects.filter(model_id=claim.model_id, text_digest__in=batch).delete()


def _vectors(
    claim: Claim,
    encoder: Encoder,
    parts: Sequence[Piece],
    digests: Sequence[str],
    meanwhile: Callable[[], None] | None,
) -> dict[str, Vector]:
    """Return a vector per text digest: copied where this model has met the text, else embedded."""
    vectors = known_vectors(claim.model_id, digests)
    missing = {
        digest: part.text
        for digest, part in zip(digests, parts, strict=True)
        if digest not in vectors
    }
    is_large = len(parts) > PART
    since_commit: list[PendingVector] = []
    for number, batch in enumerate(_batches(list(missing.items()), _BATCH)):
        if number:
            with transaction.atomic():
                # Together: a purge takes the claim away, and no vector of its text comes after it.
                claim.renew(chunks_done=len(vectors))
                if len(since_commit) >= PART:
                    PendingVector.objects.bulk_create(since_commit, ignore_conflicts=True)
                    since_commit = []
            if meanwhile is not None:
                meanwhile()
        embedded = encoder.encode_passages([text for _, text in batch])
        for (digest, _), vector in zip(batch, embedded, strict=True):
            vectors[digest] = vector
            if is_large:
                since_commit.append(
                    PendingVector(model_id=claim.model_id, text_digest=digest, vector=vector)
                )
    return vectors


def known_vectors(model_id: int, digests: Sequence[str]) -> dict[str, Vector]:
    """Return the vectors of texts that this model has embedded before, by text digest."""
    found: dict[str, Vector] = {}
    wanted = list(set(digests))
    with connection.cursor() as cursor:
        for batch in _batches(wanted, _DIGESTS):
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
