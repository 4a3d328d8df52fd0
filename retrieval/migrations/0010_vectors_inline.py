"""Keep vectors in the rows of their chunks.

A chunk's row is often over 2 kB, and PostgreSQL then moves its largest value, the vector, out of
line: reading it costs a look into another table's index for each chunk. Moved out is now the text
first, which only results are asked for. Counts for rows written from here on.
"""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("retrieval", "0009_retention")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE retrieval_chunk ALTER COLUMN vector SET STORAGE MAIN",
            "ALTER TABLE retrieval_chunk ALTER COLUMN vector SET STORAGE EXTERNAL",
        )
    ]
