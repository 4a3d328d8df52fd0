"""The bundled model, all-MiniLM-L6-v2, on onnxruntime: the same bits whatever is encoded with it.

Texts run one by one. At the usual chunk sizes that costs nothing against batches, and no padding
or companion can reach a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from registry.canonical import digest_bytes
from retrieval.encoders.base import SPECIAL_TOKENS, Encoder, Vector, installed, processor, unit
from retrieval.encoders.graph import Graph, bundled_model_dir, ensure_graph

DEFAULT_MODEL = "all-MiniLM-L6-v2"
_MAX_TOKENS = 256
# Of texts whose tokens were counted and that are likely to be encoded next
_MOST_REMEMBERED = 500
_LONGEST_REMEMBERED = 4000  # characters


class BundledEncoder(Encoder):
    """all-MiniLM-L6-v2 in float32; the same bits on however many cores."""

    name = DEFAULT_MODEL
    dimensions = 384
    max_tokens = _MAX_TOKENS

    def __init__(self, models_dir: Path, *, threads: int = 1) -> None:
        """Load the model; the first process on a machine writes its graph into ``models_dir``.

        ``threads`` is how many compute one text together.

        Raises ``Unavailable``, code ``model.not_available``, where weights or exporter are
        missing.
        """
        source = bundled_model_dir()
        self._graph: Graph = ensure_graph(models_dir)
        content = (source / "tokenizer.json").read_bytes()
        self._tokenizer_digest = digest_bytes(content)
        self._tokenizer = Tokenizer.from_buffer(content)
        # The file asks for both, at 128 tokens: long texts would be cut without a word.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._counted: dict[str, list[int]] = {}
        self._first = _id_of(self._tokenizer, "[CLS]")
        self._last = _id_of(self._tokenizer, "[SEP]")
        self._session = onnxruntime.InferenceSession(
            str(self._graph.path), _session_options(threads), providers=["CPUExecutionProvider"]
        )

    def encode_query(self, text: str) -> Vector:
        return self._encode(self._ids(text)[: self.max_tokens - SPECIAL_TOKENS])

    def encode_passages(self, texts: Sequence[str]) -> Vector:
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for number, text in enumerate(texts):
            ids = self._ids(text)
            self._require_fit(number, len(ids))
            vectors[number] = self._encode(ids)
        return vectors

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        if len(text) <= _LONGEST_REMEMBERED:
            # Whoever cuts a text counts the tokens of each piece, and then has it encoded.
            if len(self._counted) >= _MOST_REMEMBERED:
                self._counted.clear()
            self._counted[text] = encoding.ids
        offsets: list[tuple[int, int]] = encoding.offsets
        return offsets

    def identity(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "weights": self._graph.weights_digest,
            "tokenizer": self._tokenizer_digest,
            "pooling": "mean",
            "maxTokens": self.max_tokens,
            "prompts": {"query": "", "passage": ""},
            "normalisation": "l2",
            "arithmetic": "fp32",
        }

    @cached_property
    def provenance(self) -> str:
        versions = installed("onnxruntime", "tokenizers", "numpy")
        return f"{versions} graph {self._graph.digest} on {processor()}"

    def _ids(self, text: str) -> list[int]:
        ids = self._counted.pop(text, None)
        if ids is None:
            ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def _encode(self, ids: list[int]) -> Vector:
        tokens = np.array([[self._first, *ids, self._last]], dtype=np.int64)
        hidden: Vector = self._session.run(None, {"input_ids": tokens})[0][0]
        return unit(hidden.mean(axis=0, dtype=np.float32))


def _id_of(tokenizer: Tokenizer, token: str) -> int:
    number = tokenizer.token_to_id(token)
    if number is None:
        raise ValueError(f"the bundled tokenizer has no {token}")
    return int(number)


def _session_options(threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # A thread that waits in a loop takes a core from another process' question.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options
