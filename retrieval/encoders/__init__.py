"""Embedding models: the bundled one, and any other by name. The one importer of their libraries.

``encoder_for(name)`` gives the model; what it can do is in ``Encoder``. ``cross_encoder_for(name)``
gives a reranker.
"""

from __future__ import annotations

import threading
from pathlib import Path

from django.conf import settings

from registry import cores
from retrieval.encoders.base import SPECIAL_TOKENS, Encoder, Vector
from retrieval.encoders.bundled import DEFAULT_MODEL, BundledEncoder
from retrieval.encoders.cross import CrossEncoder
from retrieval.encoders.multilingual import (
    MULTILINGUAL_MODEL,
    MultilingualEncoder,
    is_installed,
)
from retrieval.encoders.named import NamedEncoder

__all__ = [
    "DEFAULT_MODEL",
    "MULTILINGUAL_MODEL",
    "SPECIAL_TOKENS",
    "CrossEncoder",
    "Encoder",
    "Vector",
    "cross_encoder_for",
    "encoder_for",
    "optional_models",
]

_loaded: dict[str, Encoder] = {}
_rerankers: dict[str, CrossEncoder] = {}
_loading = threading.Lock()


def encoder_for(name: str) -> Encoder:
    """Return the model of this name, loaded once per process.

    The graph of the bundled model is kept in the setting ``MODELS_DIR``. Raises ``Unavailable``,
    code ``model.not_available``, naming the model; nothing is ever downloaded. A failure is not
    remembered: a model that was installed meanwhile is found.
    """
    encoder = _loaded.get(name)
    if encoder is None:
        with _loading:
            encoder = _loaded.get(name)
            if encoder is None:
                encoder = _load(name)
                _loaded[name] = encoder
    return encoder


def cross_encoder_for(name: str) -> CrossEncoder:
    """Return the reranker of this name or folder, loaded once per process.

    Raises ``Unavailable``, code ``reranker.not_available``, naming it; nothing is downloaded.
    """
    with _loading:
        if name not in _rerankers:
            _rerankers[name] = CrossEncoder(name)
        return _rerankers[name]


def optional_models() -> list[str]:
    """Return the names of the models that are installed besides the bundled one."""
    return [MULTILINGUAL_MODEL] if is_installed() else []


def _load(name: str) -> Encoder:
    if name == DEFAULT_MODEL:
        return BundledEncoder(Path(settings.MODELS_DIR), threads=cores.per_question())
    if name == MULTILINGUAL_MODEL:
        return MultilingualEncoder()
    return NamedEncoder(name)
