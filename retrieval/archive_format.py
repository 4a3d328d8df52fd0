"""How an archive lays out a snapshot: what export and import agree on."""

from __future__ import annotations

from typing import IO, Any

import numpy as np

from registry.archives import read_exactly
from retrieval.models import EmbeddingModel
from retrieval.vectors import Vector

QUESTIONS = "questions.jsonl"
QUESTION_VECTORS = "questions.bin"
SCORES = "scores.jsonl"


def folder_of(knowledge_base_id: str) -> str:
    """Return where an archive has a knowledge base."""
    return f"knowledge-bases/{knowledge_base_id}"


def described_model(model: EmbeddingModel) -> dict[str, Any]:
    """Return a model by its identity."""
    return {
        "name": model.name,
        "dimensions": model.dimensions,
        "maxTokens": model.max_tokens,
        "fingerprint": model.fingerprint,
    }


def little_endian(vector: Vector) -> bytes:
    """Return the bytes by which an archive keeps a vector: float32, the lowest byte first."""
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def read_vector(stream: IO[bytes], dimensions: int, name: str) -> Vector:
    """Return the next vector of a member. Raises Invalid (``archive.damaged``) at its end."""
    content = read_exactly(stream, 4 * dimensions, name)
    return np.frombuffer(content, dtype="<f4").astype(np.float32)
