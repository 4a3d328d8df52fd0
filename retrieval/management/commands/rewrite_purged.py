"""Write the tables that held purged contents anew, so that no dead row of them is left on disk."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection
from django.db.backends.utils import CursorWrapper

from retrieval.models import Chunk, DocumentRevision, Extraction, PendingVector

_TICK = 0.2
# Dead rows that a snapshot may still show are copied: one of this database, and our own, which
# is as old as the oldest transaction of the whole server.
_SHOWN_TO_SOMEBODY = """
SELECT pg_snapshot_xmin(pg_current_snapshot()) < %(mark)s::xid8 OR EXISTS (
    SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND age(backend_xmin) > age(%(mark)s::xid8::xid)
)
"""


class Command(BaseCommand):
    help = (
        "After a purge: write the tables with contents of documents anew (VACUUM FULL), so that "
        "PostgreSQL's files hold no dead row of it. Needs the owner of the tables, free disk space "
        "as large as the largest of them, and stops searches and builds meanwhile. Answers never "
        "depend on it: what is purged is gone from them at once."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        with connection.cursor() as cursor:
            # Somebody who is searching now is waited for, however long.
            cursor.execute("SET lock_timeout = 0")
            self._wait_for_earlier_transactions(cursor)
            for model in (DocumentRevision, Extraction, Chunk, PendingVector):
                table = model._meta.db_table
                cursor.execute(
                    "SELECT pg_get_userbyid(relowner) = current_user FROM pg_class WHERE oid = %s::regclass",
                    [table],
                )
                (owns,) = cursor.fetchone()
                if not owns:
                    raise CommandError(f"Only the owner of {table} can write it anew.")
                try:
                    cursor.execute(f"VACUUM (FULL, ANALYZE) {table}")
                except DatabaseError as error:
                    raise CommandError(f"{table} was not written anew: {error}") from error
                self.stdout.write(f"{table}: written anew")

    def _wait_for_earlier_transactions(self, cursor: CursorWrapper) -> None:
        cursor.execute("SELECT pg_current_xact_id()::text")
        (mark,) = cursor.fetchone()
        told = False
        while True:
            cursor.execute(_SHOWN_TO_SOMEBODY, {"mark": mark})
            if not cursor.fetchone()[0]:
                return
            if not told:
                self.stdout.write("waiting for transactions that began before, on this server")
                told = True
            time.sleep(_TICK)
