"""The example handbook as its users get it: documents as extracted text, questions, manifest."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from retrieval.extraction import Segment, detect_type, extract

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "handbook"


@cache
def manifest() -> Any:
    return json.loads((FOLDER / "handbook.json").read_text(encoding="utf-8"))


@cache
def questions() -> list[dict[str, Any]]:
    lines = (FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@cache
def documents() -> dict[str, tuple[Segment, ...]]:
    """Every document of the manifest's folders by its name, such as `eu/refunds.md`."""
    files = [
        path
        for base in manifest()["knowledgeBases"]
        for path in sorted((FOLDER / base["folder"]).iterdir())
    ]
    return {str(path.relative_to(FOLDER)): segments(path) for path in files}


def segments(path: Path) -> tuple[Segment, ...]:
    content = path.read_bytes()
    return extract(content, detect_type(name=path.name, content=content).media_type).segments


def text(name: str) -> str:
    """A document's text with every run of whitespace as one space."""
    return flat("\n".join(segment.text for segment in documents()[name]))


def flat(text: str) -> str:
    return " ".join(text.split())
