"""Traces in tests: written by the real writer, on its own connection, after the answer."""

from __future__ import annotations

import psycopg
from django.db import connection
from django.db.models import QuerySet

from retrieval.models import Trace
from retrieval.traces import writer
from tests.servers import INSTANCE


def kept_traces() -> QuerySet[Trace]:
    """Return the traces, those included that were recorded just now."""
    assert writer.flush()
    return Trace.objects.all()


def forget_traces() -> None:
    """Delete what the writer committed, and close its connection."""
    writer.stop(seconds=120)
    dsn = INSTANCE.postgres_dsn("owner", connection.settings_dict["NAME"])
    with psycopg.connect(dsn) as session:
        session.execute("DELETE FROM retrieval_trace")
