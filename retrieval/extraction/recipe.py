"""The name of the way documents are read here: another name whenever a text may come out other."""

from __future__ import annotations

import functools
import unicodedata
from importlib.metadata import version

from retrieval.extraction.ocr import NONE, Ocr

# Raise it with every change of this package that can change a text; a test holds the two together
REVISION = 7
_LIBRARIES = ("kreuzberg", "pypdfium2", "lxml", "markdown-it-py", "chardetng-py")


@functools.lru_cache(maxsize=16)
def recipe(ocr: Ocr | None = None) -> str:
    """Return the recipe: libraries with versions, our own revision, the OCR engine or none.

    Raises Unavailable ``ocr.not_available`` when its language data are missing.
    """
    libraries = "/".join(f"{name}-{version(name)}" for name in _LIBRARIES)
    return f"{libraries}/unicode-{unicodedata.unidata_version}/{REVISION}/ocr:{ocr.name if ocr else NONE}"


RECIPE = recipe()
