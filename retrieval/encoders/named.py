"""Any other model, by its sentence-transformers name or folder; never downloaded.

The library and torch are imported when such a model is first asked for, so that processes that
use the bundled model alone never pay for them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from registry.canonical import digest_bytes
from retrieval.encoders.base import SPECIAL_TOKENS, Encoder, Vector, installed, processor, unit
from retrieval.encoders.graph import not_available

# A model that states no limit, or an absurd one, is held to this many tokens.
_LIMIT_WHERE_NONE_IS_STATED = 512
# What decides a vector lies in files of these kinds; weights count in one format only.
_CONFIGURATION = frozenset({".json", ".txt", ".model"})
_WEIGHT_FORMATS = (".safetensors", ".bin")
_OTHER_RUNTIMES = frozenset({"onnx", "openvino"})
# Describes the training data; nothing reads it.
_UNREAD = frozenset({"data_config.json"})


class NamedEncoder(Encoder):
    """A sentence-transformers model in float32 on one processor core, one text at a time."""

    def __init__(self, name: str) -> None:
        """Load the model from a folder, or from the local cache of models.

        Raises ``Unavailable``, code ``model.not_available``, naming it.
        """
        self.name = name
        self._folder = folder_of(name)
        library = imported(name, "sentence_transformers")
        self._torch = imported(name, "torch")
        try:
            self._model = library.SentenceTransformer(
                str(self._folder), device="cpu", local_files_only=True
            ).float()
        # What the libraries raise for a damaged folder has no common kind.
        except Exception as error:
            raise not_available(name, f"{self._folder} cannot be loaded: {error}") from error
        backend = getattr(self._model.tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise not_available(name, "its tokenizer does not say where tokens lie in the text")
        # A copy, since the library switches truncation on and off in its own.
        self._tokenizer = Tokenizer.from_str(backend.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._query_prompt, self._passage_prompt = _prompts(self._model.prompts)
        self.max_tokens = self._room() + SPECIAL_TOKENS
        if self.max_tokens <= SPECIAL_TOKENS:
            raise not_available(name, "its prompt leaves no room for text")
        self._lock = threading.Lock()
        self.dimensions = len(self._encode(self._passage_prompt))

    def encode_query(self, text: str) -> Vector:
        offsets = self.token_offsets(text)
        room = self.max_tokens - SPECIAL_TOKENS
        cut = text if len(offsets) <= room else text[: offsets[room - 1][1]]
        return self._encode(self._query_prompt + cut)

    def encode_passages(self, texts: Sequence[str]) -> Vector:
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for number, text in enumerate(texts):
            self._require_fit(number, len(self.token_offsets(text)))
            vectors[number] = self._encode(self._passage_prompt + text)
        return vectors

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        offsets: list[tuple[int, int]] = self._tokenizer.encode(
            text, add_special_tokens=False
        ).offsets
        return offsets

    def identity(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "files": deciding_files(self._folder),
            "maxTokens": self.max_tokens,
            "prompts": {"query": self._query_prompt, "passage": self._passage_prompt},
            "normalisation": "l2",
            "arithmetic": "fp32",
        }

    @cached_property
    def provenance(self) -> str:
        versions = installed(
            "sentence-transformers", "transformers", "torch", "tokenizers", "numpy"
        )
        return f"{versions} on {processor()}"

    def _room(self) -> int:
        """Return how many tokens of text fit beside special tokens and the longer prompt."""
        stated = self._model.max_seq_length
        limit = stated if stated and stated <= 1 << 20 else _LIMIT_WHERE_NONE_IS_STATED
        special = len(self._tokenizer.encode("").ids)
        prompts = (self._query_prompt, self._passage_prompt)
        return int(limit - special - max(len(self.token_offsets(prompt)) for prompt in prompts))

    def _encode(self, text: str) -> Vector:
        with self._lock, one_thread(self._torch):
            vector = self._model.encode(
                [text], batch_size=1, prompt="", show_progress_bar=False, convert_to_numpy=True
            )[0]
        return unit(np.asarray(vector, dtype=np.float32))


@contextmanager
def one_thread(torch: Any) -> Iterator[None]:
    """Let torch compute with one thread: with several, last bits depend on their number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def imported(name: str, module: str) -> Any:
    """Return a library that models need. Raises ``Unavailable``, naming the model ``name``."""
    try:
        return import_module(module)
    except ImportError as error:
        raise not_available(name, f"the Python package {module} cannot be imported") from error


def folder_of(name: str) -> Path:
    """Return where a model lies: a folder, or the local cache of models. Raises ``Unavailable``."""
    folder = Path(name)
    if (folder / "modules.json").is_file() or (folder / "config.json").is_file():
        return folder.resolve()
    hub = imported(name, "huggingface_hub")
    repository = name if "/" in name else f"sentence-transformers/{name}"
    try:
        return Path(hub.snapshot_download(repository, local_files_only=True))
    except (OSError, ValueError) as error:
        raise not_available(
            name, "it is neither a folder with a model nor in the local cache of models"
        ) from error


def _prompts(prompts: dict[str, str]) -> tuple[str, str]:
    query = prompts.get("query", "")
    passage = prompts.get("document") or prompts.get("passage", "")
    return query, passage


def deciding_files(folder: Path) -> dict[str, str]:
    """Return the digest of every file that can decide a vector, by its path in ``folder``."""
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.name not in _UNREAD
        and not _OTHER_RUNTIMES.intersection(path.relative_to(folder).parts)
    ]
    suffixes = {path.suffix for path in files}
    weights = next((form for form in _WEIGHT_FORMATS if form in suffixes), None)
    return {
        path.relative_to(folder).as_posix(): digest_bytes(path.read_bytes())
        for path in files
        if path.suffix in _CONFIGURATION or path.suffix == weights
    }
