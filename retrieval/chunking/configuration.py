"""How a knowledge base is cut: its strategy, size and overlap, and their canonical form."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from registry.canonical import canonical_json
from registry.errors import FieldError, Invalid

# Raise it when any text is cut otherwise than before: what was indexed keeps its recipe.
RECIPE_VERSION = 1

STRATEGIES = ("recursive", "markdown", "sentence", "page", "document")
# These want as much in one chunk as the model reads; the others a passage.
_WHOLE = ("page", "document")

DEFAULT_SIZE = 200
DEFAULT_OVERLAP = 20
# What a model adds to every text ([CLS], [SEP]) and a chunk leaves room for.
_SPECIAL_TOKENS = 2
_MEMBERS = ("strategy", "size", "overlap")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunking:
    """A strategy with size and overlap in tokens of the embedding model; 0 ≤ overlap < size."""

    strategy: str = "recursive"
    size: int = DEFAULT_SIZE
    overlap: int = DEFAULT_OVERLAP

    @property
    def recipe(self) -> str:
        """The canonical JSON text that, with the model, decides how every text is cut."""
        return canonical_json({"recipe": RECIPE_VERSION, **self.as_json()})

    @classmethod
    def from_recipe(cls, recipe: str) -> Chunking:
        """Return the chunking of a recipe. Raises ``ValueError`` for that of another version."""
        value = json.loads(recipe)
        if value.pop("recipe", None) != RECIPE_VERSION:
            raise ValueError(f"this is not a chunking recipe of version {RECIPE_VERSION}: {recipe}")
        return cls(**value)

    @property
    def stored(self) -> str:
        """How it is kept: canonical JSON, without the version of the recipe of the day."""
        return canonical_json(self.as_json())

    @classmethod
    def from_stored(cls, stored: str) -> Chunking:
        return cls(**json.loads(stored))

    def as_json(self) -> dict[str, Any]:
        return {"strategy": self.strategy, "size": self.size, "overlap": self.overlap}

    @classmethod
    def from_json(cls, value: object, max_tokens: int) -> Chunking:
        """Read ``{strategy?, size?, overlap?}`` for a model that reads ``max_tokens`` tokens.

        What is not given has the default: recursive; 200 tokens, with page and document all that
        the model reads; overlap a tenth of the size, 20 at most, none with document. Raises
        ``Invalid`` with every field that is wrong, its value and what is allowed.
        """
        if not isinstance(value, dict):
            raise Invalid.field("chunking", value, "must be a JSON object", allowed="object")
        largest = max_tokens - _SPECIAL_TOKENS
        errors = [
            FieldError(
                field=f"chunking.{name}",
                value=value[name],
                message="is not a member of chunking",
                allowed=list(_MEMBERS),
            )
            for name in value
            if name not in _MEMBERS
        ]
        strategy = value.get("strategy", "recursive")
        if strategy not in STRATEGIES:
            errors.append(
                FieldError(
                    field="chunking.strategy",
                    value=strategy,
                    message="is not a chunking strategy",
                    allowed=list(STRATEGIES),
                )
            )
        size = value.get("size", largest if strategy in _WHOLE else min(DEFAULT_SIZE, largest))
        if not _is_integer(size, 1, largest):
            errors.append(_out_of_range("size", size, 1, largest))
            size = None
        default_overlap = 0
        if size is not None and strategy != "document":
            default_overlap = min(DEFAULT_OVERLAP, size // 10)
        overlap = value.get("overlap", default_overlap)
        most = (largest if size is None else size) - 1
        if not _is_integer(overlap, 0, most):
            errors.append(_out_of_range("overlap", overlap, 0, most))
        if errors:
            sentence = "; ".join(f"{error.field}: {error.message}" for error in errors)
            raise Invalid(sentence, code="chunking.invalid", errors=errors)
        return cls(strategy=strategy, size=size, overlap=overlap)


def _is_integer(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _out_of_range(name: str, value: object, least: int, most: int) -> FieldError:
    below = " (less than size)" if name == "overlap" else ""
    return FieldError(
        field=f"chunking.{name}",
        value=value,
        message=f"must be a whole number from {least} to {most}{below}",
        allowed={"minimum": least, "maximum": most},
    )
