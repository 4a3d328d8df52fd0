"""Vectors between numpy and PostgreSQL, to the bit."""

from __future__ import annotations

import struct

import numpy as np
import pgvector
from numpy.typing import NDArray

Vector = NDArray[np.float32]

_HEADER = struct.Struct(">HH")


def from_wire(sent: bytes | memoryview) -> Vector:
    """Return the components of what pgvector's ``vector_send`` gives."""
    return pgvector.Vector.from_binary(bytes(sent)).to_numpy()


def to_wire(vector: Vector) -> bytes:
    """Return what pgvector's ``vector_recv`` takes: the number of components, and these."""
    return _HEADER.pack(len(vector), 0) + vector.astype(">f4").tobytes()


def literal(vector: Vector) -> str:
    """Return pgvector's text form; every float32 survives the way there and back."""
    # Nine digits tell every float32 from its neighbours.
    return "[" + ",".join(["%.9g"] * len(vector)) % tuple(vector.tolist()) + "]"
