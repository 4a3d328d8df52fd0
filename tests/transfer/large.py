"""A knowledge base of many chunks with random vectors, made without a model, whole all the same."""

from __future__ import annotations

import uuid

import numpy as np
from django.db import connection

from registry.canonical import digest_bytes
from retrieval.chunking import Chunking
from retrieval.digests import (
    chunk_digest,
    extraction_digest,
    indexed_document_digest,
    snapshot_digest,
    text_digest,
    vector_digest,
)
from retrieval.knowledge_bases import find
from retrieval.models import (
    Document,
    DocumentRevision,
    Extraction,
    IndexedDocument,
    IndexSnapshot,
    KnowledgeBase,
    SnapshotMember,
)
from retrieval.segments import Segment
from retrieval.vectors import literal
from tests import builders

_COPY = """
COPY retrieval_chunk (indexed_document_id, model_id, ordinal, text, page, section, start, "end",
                      truncated, digest, text_digest, vector, vector_digest) FROM STDIN
"""


def make_large_base(documents: int, chunks_each: int) -> KnowledgeBase:
    base = builders.make_base("Large")
    chance = np.random.default_rng(7)
    members: list[tuple[str, str, int, dict[str, str], IndexedDocument]] = []
    for number in range(documents):
        identity = uuid.UUID(int=number + 1)
        vectors = chance.standard_normal((chunks_each, base.model.dimensions))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        indexed = _indexed_document(base, identity, number, vectors.astype(np.float32))
        members.append((str(identity), f"document {number}.md", 1, {}, indexed))
    base.last_snapshot_number = base.content_revision = 1
    base.settled_revision = base.shown_revision = 1
    base.save()
    snapshot = IndexSnapshot.objects.create(
        knowledge_base=base,
        number=1,
        model=base.model,
        chunking=Chunking().recipe,
        content_revision=1,
    )
    SnapshotMember.objects.bulk_create(
        SnapshotMember(
            snapshot=snapshot,
            indexed_document=indexed,
            document_id=identity,
            name=name,
            revision_number=revision,
            metadata=metadata,
        )
        for identity, name, revision, metadata, indexed in members
    )
    snapshot.state = "ready"
    snapshot.digest = snapshot_digest(
        (identity, name, revision, metadata, indexed.digest)
        for identity, name, revision, metadata, indexed in members
    )
    snapshot.document_count = documents
    snapshot.chunk_count = documents * chunks_each
    snapshot.save()
    KnowledgeBase.objects.filter(pk=base.pk).update(current_snapshot=snapshot)
    return find(base.pk)


def _indexed_document(
    base: KnowledgeBase, identity: uuid.UUID, number: int, vectors: np.ndarray
) -> IndexedDocument:
    texts = [f"Passage {ordinal} of document {number}. " * 12 for ordinal in range(len(vectors))]
    whole = "".join(texts)
    document = Document.objects.create(
        id=identity, knowledge_base=base, name=f"document {number}.md"
    )
    content = whole.encode()
    revision = DocumentRevision.objects.create(
        document=document,
        number=1,
        sha256=digest_bytes(content),
        size=len(content),
        content=content,
        media_type="text/markdown",
    )
    extraction = Extraction.objects.create(
        revision=revision,
        recipe="made",
        status="sealed",
        segments=[{"page": None, "section": None, "text": whole}],
        digest=extraction_digest([Segment(page=None, section=None, text=whole)]),
    )
    indexed = IndexedDocument.objects.create(
        extraction=extraction, chunking=Chunking().recipe, model=base.model
    )
    sealed = []
    start = 0
    with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
        for ordinal, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
            digest = chunk_digest(text=text, page=None, section=None)
            sealed.append((digest, vector_digest(vector)))
            copy.write_row(
                (
                    *(indexed.pk, base.model_id, ordinal, text, None, None),
                    *(start, start + len(text), False, digest, text_digest(text)),
                    *(literal(vector), sealed[-1][1]),
                )
            )
            start += len(text)
    indexed.digest = indexed_document_digest(
        revision_sha256=revision.sha256,
        extraction=extraction.digest,
        chunking=indexed.chunking,
        model_fingerprint=base.model.fingerprint,
        chunks=sealed,
    )
    indexed.chunk_count = len(texts)
    indexed.sealed = True
    indexed.save()
    return indexed
