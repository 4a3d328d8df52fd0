"""Which drafts refer to a knowledge base."""

from __future__ import annotations

from django.db.models import Q

from agents.models import AgentVersion
from retrieval.models import KnowledgeBase


def draft_holders(base: KnowledgeBase) -> list[str]:
    """Return the drafts whose bindings or tools refer to ``base``: ``draft of support``."""
    slugs = (
        AgentVersion.objects.filter(state="draft")
        .filter(Q(bindings__knowledge_base=base) | Q(tools__knowledge_base=base))
        .values_list("agent__slug", flat=True)
        .distinct()
    )
    return [f"draft of {slug}" for slug in sorted(slugs)]
