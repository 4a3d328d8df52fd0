"""What kind a document is, and its text: this package's public face.

Light to import: the libraries that read documents are loaded by the host process alone.
"""

from retrieval.extraction.detection import DetectedType, detect_type
from retrieval.extraction.extracting import extract
from retrieval.extraction.ocr import Ocr, installed_ocr
from retrieval.extraction.recipe import RECIPE, recipe
from retrieval.extraction.results import Extracted, ExtractionFailed
from retrieval.extraction.sandbox import Limits
from retrieval.segments import Segment

__all__ = [
    "RECIPE",
    "DetectedType",
    "Extracted",
    "ExtractionFailed",
    "Limits",
    "Ocr",
    "Segment",
    "detect_type",
    "extract",
    "installed_ocr",
    "recipe",
]
