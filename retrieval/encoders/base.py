"""What an encoder is: texts in, unit vectors out, with an identity that names what decides them."""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from registry.canonical import canonical_json, digest_text

Vector = npt.NDArray[np.float32]

# The special tokens ([CLS], [SEP] or the like) that max_tokens always leaves room for.
SPECIAL_TOKENS = 2

_CPU_INFO = Path("/proc/cpuinfo")


class Encoder(ABC):
    """A model that turns texts into float32 vectors of unit length; one instance, many threads.

    The vector of a text depends on the text alone: not on what else is encoded with it, before
    it or beside it.

    ``fingerprint`` is the digest of what decides the vectors (weights, tokenizer, pooling, limit,
    prompts, normalisation, arithmetic). ``provenance`` says which libraries and processor
    computed them; it is for the record and never part of a key.
    """

    name: str
    dimensions: int
    max_tokens: int

    @abstractmethod
    def encode_query(self, text: str) -> Vector:
        """Return the vector of a question, of shape ``(dimensions,)``.

        What goes beyond ``max_tokens - 2`` tokens is cut off; ask ``query_tokens`` whether
        anything was.
        """

    @abstractmethod
    def encode_passages(self, texts: Sequence[str]) -> Vector:
        """Return the vectors of ``texts``, of shape ``(len(texts), dimensions)``.

        Raises ``ValueError`` for a text of more than ``max_tokens - 2`` tokens: passages are
        never cut silently.
        """

    @abstractmethod
    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return where each token of ``text`` starts and ends, in code points; special tokens
        are not among them, nothing is cut off.
        """

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return the JSON object that the fingerprint is the digest of."""

    @property
    @abstractmethod
    def provenance(self) -> str: ...

    @cached_property
    def fingerprint(self) -> str:
        return digest_text(canonical_json(self.identity()))

    def query_tokens(self, text: str) -> int:
        """Return how many tokens a question has, special ones included; what goes beyond
        ``max_tokens`` was cut off.
        """
        return len(self.token_offsets(text)) + SPECIAL_TOKENS

    def _require_fit(self, number: int, count: int) -> None:
        if count > self.max_tokens - SPECIAL_TOKENS:
            raise ValueError(
                f"passage {number} has {count} tokens; {self.name} takes "
                f"{self.max_tokens - SPECIAL_TOKENS}"
            )


def unit(vector: Vector) -> Vector:
    """Return ``vector`` scaled to length 1; the null vector stays what it is."""
    # Not numpy.linalg.norm: it sums by BLAS, whose order of terms differs between processors.
    length = np.sqrt(np.sum(vector * vector, dtype=np.float32))
    return vector if length == 0 else (vector / length).astype(np.float32)


def installed(*packages: str) -> str:
    """Return the versions of installed packages, for the record: ``numpy-2.1 torch-2.13``."""
    return " ".join(f"{package}-{metadata.version(package)}" for package in packages)


def processor() -> str:
    """Return the processor's name as the system gives it."""
    if _CPU_INFO.exists():
        for line in _CPU_INFO.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
