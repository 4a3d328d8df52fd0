"""What was purged of a snapshot, counted once per purge instead of once per answer.

Each purge gives its knowledge base another ``purge_epoch``, in its own transaction; whatever was
derived from the contents says of which epoch it is.
"""

from __future__ import annotations

import uuid
from functools import lru_cache

from django.db import connection

_COUNT = """
SELECT b.purge_epoch, (
    SELECT count(DISTINCT m.document_id)
    FROM retrieval_snapshotmember AS m
    JOIN retrieval_indexeddocument AS i ON i.id = m.indexed_document_id
    JOIN retrieval_extraction AS e ON e.id = i.extraction_id
    WHERE m.snapshot_id = s.id
      AND EXISTS (SELECT 1 FROM retrieval_purge AS p WHERE p.revision_id = e.revision_id)
)
FROM retrieval_indexsnapshot AS s
JOIN retrieval_knowledgebase AS b ON b.id = s.knowledge_base_id
WHERE s.id = %s
"""


class PurgedSince(Exception):
    """The knowledge base is in another epoch by now."""


@lru_cache(maxsize=4096)
def count_purged(snapshot_id: int, epoch: uuid.UUID) -> int:
    """Return how many documents of a snapshot were purged up to ``epoch``.

    Raises ``PurgedSince`` where that is not the present one.
    """
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, [snapshot_id])
        row = cursor.fetchone()
    if row is None:
        return 0  # the snapshot was deleted meanwhile
    if row[0] != epoch:
        raise PurgedSince
    return int(row[1])
