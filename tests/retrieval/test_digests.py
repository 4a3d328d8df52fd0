"""The identities of everything that is kept: literal values, and a second way to compute them."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import numpy as np

from registry.canonical import digest_text
from retrieval.digests import (
    chunk_digest,
    extraction_digest,
    indexed_document_digest,
    snapshot_digest,
    text_digest,
    vector_digest,
)
from retrieval.search import groups_receipt, receipt_of
from retrieval.segments import Segment

TEXT = "Refunds take 5 days – “no later”."
CHUNK = "sha256:9cce14c3266fc4c4dfd27ee5f5a296cf59d5fa9598499bd41f6ad7b14ddfc225"
EXTRACTION = "sha256:e6145bec0f416af58a74cc024769a2dce749907c2f21bcc429fa82425be18bc9"
VECTOR = "sha256:8b272bf019186ccba3c60c81b2cccff4db7e474a1f4c2df80807a0f120f62f63"
INDEXED = "sha256:00cd576cb072663e4f9cfe70d4e34b0af1e2f24beb596bb8f0b5631845b35cf6"
SNAPSHOT = "sha256:2da9ab6a38251469472181914734c134576151de96acbd8708068e09c25256e7"
RECEIPT = "sha256:e1543b32a8a94c4c77fbcdad1dc05e904bf94cbe9e7bdddedd6f5dc69c5076d6"
GROUPS = "sha256:3f095f2f0c928e109635023e065d75ba60dc29c6087c0fcec1585df221af8ecb"

SEGMENTS = [
    Segment(page=1, section="Refunds > By post", text=TEXT),
    Segment(page=None, section=None, text="Second."),
]
REVISION = "sha256:" + "a" * 64
FINGERPRINT = "sha256:" + "b" * 64
CHUNKING = '{"overlap":20,"recipe":1,"size":200,"strategy":"recursive"}'
DOCUMENT = "0b9c5a52-8f2e-4c5f-9d1e-3a1f5d0c7e11"
QUERY = "How long does a refund take?"
RESULT = {
    "passage": TEXT,
    "document": {"id": DOCUMENT, "name": "refunds.pdf", "revision": 2},
    "page": 1,
    "section": "Refunds > By post",
    "metadata": {"z": 1, "a": [True, None, 1.5]},
    "confidence": 0.734512,
    "truncated": False,
    "chunk": CHUNK,
}
APPLIED = {
    "topK": {"value": 5, "source": "knowledgeBase"},
    "confidenceThreshold": {"value": 0.3, "source": "default"},
}
BELOW = {"count": 1, "best": 0.287114}


def by_hand(value: Any) -> str:
    """Canonical JSON without the library: enough for ASCII keys and these numbers."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def digest_of(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def receipt(**extra: Any) -> str:
    return receipt_of(
        snapshot_digest=SNAPSHOT,
        query_digest=digest_text(QUERY),
        applied=APPLIED,
        results=[RESULT],
        below_threshold=BELOW,
        **extra,
    )


def test_chunk_digest__of_literal_values__is_this() -> None:
    made = chunk_digest(text=TEXT, page=1, section="Refunds > By post")
    assert made == CHUNK
    assert made == by_hand(
        {
            "schema": 1,
            "kind": "chunk",
            "text": TEXT,
            "page": 1,
            "section": "Refunds > By post",
        }
    )


def test_chunk_digest__without_section_or_with_an_empty_one__differs() -> None:
    assert chunk_digest(text=TEXT, page=None, section=None) != chunk_digest(
        text=TEXT, page=None, section=""
    )


def test_text_digest__of_a_text__is_that_of_its_utf_8() -> None:
    assert text_digest(TEXT) == digest_of(TEXT.encode())


def test_extraction_digest__of_literal_values__is_this() -> None:
    made = extraction_digest(SEGMENTS)
    assert made == EXTRACTION
    assert made == by_hand(
        {
            "schema": 1,
            "kind": "extraction",
            "segments": [[1, "Refunds > By post", TEXT], [None, None, "Second."]],
        }
    )


def test_vector_digest__of_literal_values__is_that_of_little_endian_floats() -> None:
    values = [0.6, -0.8, 0.0, -0.0, 1e-40]
    made = vector_digest(np.array(values, dtype=np.float32))
    assert made == VECTOR
    assert made == digest_of(struct.pack("<5f", *values))
    assert made == vector_digest(np.array(values, dtype=">f4").astype(np.float32))


def test_indexed_document_digest__of_literal_values__is_this() -> None:
    made = indexed_document_digest(
        revision_sha256=REVISION,
        extraction=EXTRACTION,
        chunking=CHUNKING,
        model_fingerprint=FINGERPRINT,
        chunks=[(CHUNK, VECTOR)],
    )
    assert made == INDEXED
    assert made == by_hand(
        {
            "schema": 1,
            "kind": "indexedDocument",
            "revision": REVISION,
            "extraction": EXTRACTION,
            "chunking": CHUNKING,
            "model": FINGERPRINT,
            "chunks": [[CHUNK, VECTOR]],
        }
    )


def test_snapshot_digest__of_literal_values__is_this_and_pins_the_order_of_keys() -> None:
    made = snapshot_digest([(DOCUMENT, "refunds.pdf", 2, {"z": 1, "ä": 2.0}, INDEXED)])
    assert made == SNAPSHOT
    assert made == by_hand(
        {
            "schema": 1,
            "kind": "snapshot",
            "members": [[DOCUMENT, "refunds.pdf", 2, '{"z":1,"ä":2.0}', INDEXED]],
        }
    )
    assert made != snapshot_digest([(DOCUMENT, "refunds.pdf", 2, {"ä": 2.0, "z": 1}, INDEXED)])


def test_receipt__of_literal_values__is_this_and_recomputable_from_the_response() -> None:
    result = {key: value for key, value in RESULT.items() if key != "passage"}
    document = {
        "schema": 1,
        "kind": "retrieval",
        "snapshotDigest": SNAPSHOT,
        "queryDigest": digest_of(QUERY.encode()),
        "applied": APPLIED,
        "results": [{**result, "passageDigest": digest_of(TEXT.encode())}],
        "belowThreshold": BELOW,
    }
    assert receipt() == RECEIPT == by_hand(document)
    assert receipt(purged_documents=0) == RECEIPT
    assert receipt(purged_documents=2) == by_hand({**document, "purged": {"documents": 2}})


def test_receipt__of_several_groups__is_one_of_their_receipts_in_order() -> None:
    made = groups_receipt([RECEIPT, CHUNK])
    assert made == GROUPS
    assert made == by_hand({"schema": 1, "kind": "groups", "groups": [RECEIPT, CHUNK]})
    assert made != groups_receipt([CHUNK, RECEIPT])
