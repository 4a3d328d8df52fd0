"""The digests of everything that is kept for ever, each defined once.

Every digest is the SHA-256 of one RFC 8785 object with a schema version and a kind. Changing one
of these definitions changes the identity of all that is stored: golden tests hold them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from registry.canonical import digest_bytes, digest_json, digest_text
from registry.fields import dump_received
from retrieval.segments import Segment
from retrieval.vectors import Vector


def text_digest(text: str) -> str:
    """Return the digest by which the same text is found again."""
    return digest_text(text)


def vector_digest(vector: Vector) -> str:
    """Return the digest of a vector's little-endian float32 bytes."""
    return digest_bytes(np.ascontiguousarray(vector, dtype="<f4").tobytes())


def extraction_digest(segments: Sequence[Segment]) -> str:
    """Return the digest of an extraction: its segments in order."""
    return digest_json(
        {
            "schema": 1,
            "kind": "extraction",
            "segments": [[segment.page, segment.section, segment.text] for segment in segments],
        }
    )


def chunk_digest(*, text: str, page: int | None, section: str | None) -> str:
    """Return the digest of a chunk: its text, page and section."""
    return digest_json(
        {"schema": 1, "kind": "chunk", "text": text, "page": page, "section": section}
    )


def indexed_document_digest(
    *,
    revision_sha256: str,
    extraction: str,
    chunking: str,
    model_fingerprint: str,
    chunks: Iterable[tuple[str, str]],
) -> str:
    """Return the digest of an indexed document.

    ``chunks`` are (chunk digest, vector digest) in order.
    """
    return digest_json(
        {
            "schema": 1,
            "kind": "indexedDocument",
            "revision": revision_sha256,
            "extraction": extraction,
            "chunking": chunking,
            "model": model_fingerprint,
            "chunks": [list(pair) for pair in chunks],
        }
    )


def snapshot_digest(members: Iterable[tuple[str, str, int, object, str]]) -> str:
    """Return the digest of a snapshot.

    ``members`` are (document id, name, revision number, metadata, indexed document digest) in
    the order of the document id. Metadata stands in it as its JSON text, key order included.
    """
    return digest_json(
        {
            "schema": 1,
            "kind": "snapshot",
            "members": [
                [document_id, name, revision, dump_received(metadata), digest]
                for document_id, name, revision, metadata, digest in members
            ],
        }
    )
