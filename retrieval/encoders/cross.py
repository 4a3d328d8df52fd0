"""Rerankers that read question and passage together: any sentence-transformers CrossEncoder.

Never downloaded, imported when one is first asked for, in float32 on one processor core, one pair
at a time: what stands beside a pair in a batch changes its bits.
"""

from __future__ import annotations

import threading
from functools import cached_property

from registry.canonical import digest_json
from registry.errors import Unavailable
from retrieval.encoders.base import installed, processor
from retrieval.encoders.named import deciding_files, folder_of, imported, one_thread

_DECIMALS = 6


class CrossEncoder:
    """Scores how well a passage answers a question; what the numbers mean is the model's own."""

    def __init__(self, name: str) -> None:
        """Load the model from a folder, or from the local cache of models.

        Raises ``Unavailable``, code ``reranker.not_available``, naming it.
        """
        self.name = name
        try:
            self._folder = folder_of(name)
            library = imported(name, "sentence_transformers")
            self._torch = imported(name, "torch")
            self._model = library.CrossEncoder(
                str(self._folder), device="cpu", local_files_only=True
            )
            self._model.model.float()
            if self._model.num_labels != 1:
                raise ValueError(f"it gives {self._model.num_labels} numbers for a pair, not one")
        # What the libraries raise for a damaged folder has no common kind.
        except Exception as error:
            raise Unavailable(
                f"The reranker {name!r} is not available: {error}",
                code="reranker.not_available",
                reranker=name,
            ) from error
        self._lock = threading.Lock()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over every file that can decide a score, and how it is computed."""
        return digest_json(
            {
                "schema": 1,
                "kind": "cross-encoder",
                "files": deciding_files(self._folder),
                "maxTokens": self._model.max_seq_length,
                "activation": repr(self._model.activation_fn),
                "decimals": _DECIMALS,
                "arithmetic": "fp32",
            }
        )

    @cached_property
    def provenance(self) -> str:
        """Return library, version and processor, for the record."""
        versions = installed("sentence-transformers", "transformers", "torch")
        return f"{versions} on {processor()}"

    def score(self, question: str, passage: str) -> float:
        """Return the score of one pair, rounded to six decimals; larger is better."""
        with self._lock, one_thread(self._torch):
            (value,) = self._model.predict(
                [(question, passage)], batch_size=1, show_progress_bar=False
            )
        return round(float(value), _DECIMALS) + 0.0
