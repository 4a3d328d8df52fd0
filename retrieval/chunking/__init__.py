"""Cutting a document's text into the chunks that are embedded and found.

Pure: knows neither Django nor a model; how a text falls into tokens is passed in.
"""

from __future__ import annotations

from retrieval.chunking.configuration import (
    DEFAULT_OVERLAP,
    DEFAULT_SIZE,
    STRATEGIES,
    Chunking,
)
from retrieval.chunking.cuts import CUTS, cuts_after
from retrieval.chunking.cutting import Piece, Tokenizer, chunk

__all__ = [
    "CUTS",
    "DEFAULT_OVERLAP",
    "DEFAULT_SIZE",
    "STRATEGIES",
    "Chunking",
    "Piece",
    "Tokenizer",
    "chunk",
    "cuts_after",
]
