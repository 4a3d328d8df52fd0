"""Who holds a knowledge base or a snapshot of it.

A published version pins one snapshot per knowledge base, for ever. Drafts hold by reference; the
apps above tell how, since retrieval never imports them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping

from django.db import connection
from django.db.models import QuerySet

from registry.access import Access
from registry.errors import NotFound
from retrieval.models import IndexSnapshot, KnowledgeBase, SnapshotPin

_UNNAMED = "another agent"
HolderFinder = Callable[[KnowledgeBase], Iterable[str]]
_holder_finders: list[HolderFinder] = []


def register_holder_finder(finder: HolderFinder) -> None:
    """Add a function that names the drafts (or others) that refer to a knowledge base."""
    if finder not in _holder_finders:
        _holder_finders.append(finder)


def holders_of(base: KnowledgeBase) -> list[str]:
    """Return who holds ``base``, for a person: ``support v3``, ``draft of support``."""
    pinned = SnapshotPin.objects.filter(knowledge_base=base).values_list("holder_label", flat=True)
    labels = sorted(set(pinned))
    for finder in _holder_finders:
        labels += finder(base)
    return labels


def shown_holders(labels: Iterable[str], access: Access) -> list[str]:
    """Return ``labels`` as ``access`` may read them: agents outside it go unnamed, and count."""
    return [label if _names_a_reachable_agent(label, access) else _UNNAMED for label in labels]


def grouped_holders(labels: Iterable[str]) -> list[str]:
    """Return published versions together by agent, for a person: ``v2, v5 of support``."""
    versions: dict[str, list[int]] = {}
    others = []
    for label in labels:
        slug, _, number = label.rpartition(" v")
        if slug and number.isdecimal():
            versions.setdefault(slug, []).append(int(number))
        else:
            others.append(label)
    grouped = [
        ", ".join(f"v{number}" for number in sorted(numbers)) + f" of {slug}"
        for slug, numbers in sorted(versions.items())
    ]
    return grouped + sorted(others)


def _names_a_reachable_agent(label: str, access: Access) -> bool:
    return access.agents is None or any(
        label == f"draft of {slug}" or label.startswith(f"{slug} v") for slug in access.agents
    )


def lock_references(knowledge_base_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Hold off the deletion of knowledge bases for this transaction; return their names.

    Ids that are gone are missing in the answer. Builds go on: only a deletion waits.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, name FROM retrieval_knowledgebase WHERE id = ANY(%s) "
            "ORDER BY id FOR KEY SHARE",
            [sorted(set(knowledge_base_ids))],
        )
        return dict(cursor.fetchall())


def lock_for_publishing(knowledge_base_ids: Iterable[uuid.UUID]) -> QuerySet[KnowledgeBase]:
    """Lock knowledge bases ``FOR SHARE`` in id order, so that no snapshot switches meanwhile.

    Raises NotFound for an id that is gone.
    """
    wanted = sorted(set(knowledge_base_ids))
    bases = KnowledgeBase.objects.raw(
        "SELECT * FROM retrieval_knowledgebase WHERE id = ANY(%s) ORDER BY id FOR SHARE",
        [wanted],
    )
    found = {base.id for base in bases}
    for missing in wanted:
        if missing not in found:
            raise NotFound(
                f"There is no knowledge base {missing}.", code="knowledge_base.not_found"
            )
    return (
        KnowledgeBase.objects.filter(pk__in=wanted)
        .select_related("model", "current_snapshot")
        .order_by("pk")
    )


def pin(
    *, holder_kind: str, holder_id: uuid.UUID, holder_label: str, snapshots: Iterable[IndexSnapshot]
) -> None:
    """Pin one ready snapshot per knowledge base for a holder, in the caller's transaction."""
    SnapshotPin.objects.bulk_create(
        SnapshotPin(
            snapshot=snapshot,
            knowledge_base_id=snapshot.knowledge_base_id,
            holder_kind=holder_kind,
            holder_id=str(holder_id),
            holder_label=holder_label,
        )
        for snapshot in snapshots
    )


def pinned_snapshots(
    *, holder_kind: str, holder_id: uuid.UUID
) -> Mapping[uuid.UUID, IndexSnapshot]:
    """Return the snapshots a holder pinned, by knowledge base."""
    pins = SnapshotPin.objects.filter(
        holder_kind=holder_kind, holder_id=str(holder_id)
    ).select_related("snapshot__model")
    return {pin_row.knowledge_base_id: pin_row.snapshot for pin_row in pins}
