"""Keep texts and vectors of documents out of the planner's statistics.

ANALYZE copies values of the columns it looks at into a catalog that no purge reaches. Nothing
is searched by them, so nothing is lost. Setting the type again drops what was copied before.
"""

from __future__ import annotations

from django.db import migrations

_COLUMNS = (
    ("retrieval_documentrevision", "content", "bytea"),
    ("retrieval_documentrevision", "notice", "text"),
    ("retrieval_extraction", "segments", "text"),
    ("retrieval_extraction", "notices", "jsonb"),
    ("retrieval_extraction", "error", "text"),
    ("retrieval_chunk", "text", "text"),
    ("retrieval_chunk", "section", "text"),
    ("retrieval_chunk", "vector", "vector"),
    ("retrieval_pendingvector", "vector", "vector"),
)


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0002_trace_time")]

    operations = [
        migrations.RunSQL(
            [
                f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0, "
                f"ALTER COLUMN {column} TYPE {kind}"
                for table, column, kind in _COLUMNS
            ],
            [
                f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS -1"
                for table, column, _ in _COLUMNS
            ],
        )
    ]
