"""Optical character recognition, off unless asked for: which languages, and where their data lie.

The engine, tesseract, is inside the extraction library; its language data are not.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path

from registry.errors import Unavailable

NONE = "none"
# Recognising a page takes seconds of one core, so a document may take longer, up to so many pages
MOST_PAGES = 60
CPU_SECONDS = 180
MEMORY = 640 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Ocr:
    """Tesseract with some languages ("eng", "deu+eng") and the folder of ``*.traineddata``."""

    languages: str
    data_folder: str

    @property
    def name(self) -> str:
        """Name engine, languages and the exact data; raises Unavailable ``ocr.not_available``."""
        return f"tesseract:{self.languages}:{_data_digest(self.languages, self.data_folder)}"


@functools.lru_cache(maxsize=16)
def _data_digest(languages: str, data_folder: str) -> str:
    digest = hashlib.sha256()
    for language in languages.split("+"):
        path = Path(data_folder) / f"{language}.traineddata"
        try:
            digest.update(path.read_bytes())
        except OSError as error:
            raise Unavailable(
                f"OCR is switched on, but {path} is not there.", code="ocr.not_available"
            ) from error
    return digest.hexdigest()[:8]
