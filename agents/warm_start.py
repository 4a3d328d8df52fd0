"""What agents are about to ask for: known before the first of them does."""

from __future__ import annotations

from agents.models import Alias
from agents.versions import HOLDER_KIND
from retrieval.models import IndexSnapshot


def aliased_snapshots() -> list[IndexSnapshot]:
    """Return the snapshots that are pinned by versions to which an alias points."""
    versions = Alias.objects.filter(agent__archived_at__isnull=True).values_list("version")
    return list(
        IndexSnapshot.objects.filter(
            pins__holder_kind=HOLDER_KIND,
            pins__holder_id__in=[str(version) for (version,) in versions],
        )
        .select_related("model")
        .distinct()
    )
