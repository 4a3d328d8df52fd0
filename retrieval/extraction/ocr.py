"""Optical character recognition: which languages, and where their data lie.

The engine, tesseract, is inside the extraction library; its language data are not, and are what
an installation of tesseract brings.
"""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from registry.errors import Unavailable

logger = logging.getLogger(__name__)

NONE = "none"
# Recognising a page takes seconds of one core, so a document may take longer, up to so many pages
MOST_PAGES = 60
CPU_SECONDS = 180
MEMORY = 640 * 1024 * 1024
# Where Debian, Fedora, Alpine, Arch, source builds and Homebrew put language data
_USUAL_FOLDERS = (
    "/usr/share/tesseract-ocr/*/tessdata",
    "/usr/share/tesseract-ocr/tessdata",
    "/usr/share/tesseract/tessdata",
    "/usr/share/tessdata",
    "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ocr:
    """Tesseract with some languages ("eng", "deu+eng") and the folder of ``*.traineddata``."""

    languages: str
    data_folder: str

    @property
    def name(self) -> str:
        """Name engine, languages and the exact data; raises Unavailable ``ocr.not_available``.

        The engine's version is that of the extraction library, which the recipe has besides.
        """
        return f"tesseract:{self.languages}:{_data_digest(self.languages, self.data_folder)}"


def installed_ocr(languages: str, data_folder: str = "") -> Ocr | None:
    """Return OCR with those of ``languages`` ("eng+deu") whose data are there; None without any.

    A blank ``data_folder`` means the first of the usual ones that has one of them.
    """
    return _installed(languages, data_folder)


@functools.lru_cache(maxsize=16)
def _installed(languages: str, data_folder: str) -> Ocr | None:
    wanted = [language for language in languages.replace(",", "+").split("+") if language.strip()]
    for folder in [Path(data_folder)] if data_folder else _usual_folders():
        found = [name for name in wanted if (folder / f"{name.strip()}.traineddata").is_file()]
        if found:
            if missing := sorted(set(wanted) - set(found)):
                logger.warning("ocr.languages_missing %s folder=%s", "+".join(missing), folder)
            return Ocr(languages="+".join(map(str.strip, found)), data_folder=str(folder))
    return None


def _usual_folders() -> Iterator[Path]:
    for pattern in _USUAL_FOLDERS:
        # The newest version of Debian's first
        yield from sorted(Path("/").glob(pattern.lstrip("/")), reverse=True)


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
