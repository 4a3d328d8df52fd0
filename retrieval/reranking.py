"""Rerankers that can run here. There is none yet: asking for one is refused, never ignored."""

from __future__ import annotations

from registry.errors import FieldError, Invalid
from retrieval.search_settings import SearchSettings


def require_available(settings: SearchSettings) -> None:
    """Raise Invalid (``reranker.not_configured``) where settings ask for a reranker that is missing.

    In mode ``recorded`` the setting is stored and has no effect, so nothing is asked for.
    """
    if settings.applied and settings.rerank_enabled:
        raise Invalid(
            "rerankEnabled acts in settingsMode “applied”, and no reranker is configured.",
            code="reranker.not_configured",
            errors=[
                FieldError(
                    field="settings.rerankEnabled",
                    value=True,
                    message="no reranker is configured",
                    allowed=[False],
                )
            ],
        )
