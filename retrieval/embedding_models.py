"""The embedding models this installation knows, by their identity."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from registry.errors import Invalid, Unavailable
from retrieval.encoders import DEFAULT_MODEL, encoder_for, optional_models
from retrieval.models import EmbeddingModel


def ensure_model(name: str) -> EmbeddingModel:
    """Return the row of the model called ``name``, made at its first use.

    Raises Unavailable (``model.not_available``) where it is not installed, and Invalid where the
    installed weights are not those that the name stood for before.
    """
    encoder = encoder_for(name)
    row = EmbeddingModel.objects.filter(name=name).first()
    if row is None:
        try:
            with transaction.atomic():
                row = EmbeddingModel.objects.create(
                    name=name,
                    dimensions=encoder.dimensions,
                    max_tokens=encoder.max_tokens,
                    fingerprint=encoder.fingerprint,
                )
        except IntegrityError:
            row = EmbeddingModel.objects.get(name=name)
    if row.fingerprint != encoder.fingerprint:
        raise Unavailable(
            f"The installed model {name!r} has other weights than the one its vectors were made by.",
            code="model.not_available",
            model=name,
            fingerprint=row.fingerprint,
        )
    return row


def model_names() -> list[str]:
    """Return the names of the models that a knowledge base can have, sorted."""
    known = set(EmbeddingModel.objects.values_list("name", flat=True))
    return sorted(known | {DEFAULT_MODEL, settings.EMBEDDING_MODEL, *optional_models()})


def known_model(name: str) -> EmbeddingModel:
    """Return the row of a model that a request names; raises Invalid naming the choices."""
    allowed = model_names()
    if name not in allowed:
        raise Invalid.field(
            "embeddingModel",
            name,
            "is not a model of this installation",
            allowed=allowed,
            code="model.unknown",
        )
    return ensure_model(name)


def ensure_default_model(**_: Any) -> None:
    """Make the row that every installation needs, after each migration or flush."""
    ensure_model(settings.EMBEDDING_MODEL)
