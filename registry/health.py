"""Whether the service runs, and which of its parts do not.

Wiring: it looks at everything that the apps below rely on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from threading import Event
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from kombu import Connection
from kombu.exceptions import OperationalError as BrokerError

from registry.errors import RegistryError
from retrieval.encoders import encoder_for

# A worker that is there answers at once; one that is not costs a probe this long.
_PING_SECONDS = 1.0
_PING_IS_GOOD_FOR_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """``detail`` says what is wrong and what still works; None where all is well.

    Without a part that is ``needed`` nothing can be answered.
    """

    name: str
    needed: bool
    detail: str | None

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.detail is None, "detail": self.detail}


def healthz(request: HttpRequest) -> JsonResponse:
    """Say that this process answers; looks at nothing else."""
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> JsonResponse:
    """Name every part and the degraded ones: 503 where nothing can be answered, else 200."""
    checks: list[tuple[str, bool, Callable[[], str | None]]] = [
        ("database", True, _database),
        ("model", False, _model),
        ("broker", False, _broker),
    ]
    parts = [Part(name=name, needed=needed, detail=check()) for name, needed, check in checks]
    broker_is_down = parts[-1].detail is not None
    no_workers = "Not known: the broker is down." if broker_is_down else _workers()
    parts.append(Part(name="workers", needed=False, detail=no_workers))
    degraded = [part.name for part in parts if part.detail is not None]
    down = any(part.needed and part.detail is not None for part in parts)
    return JsonResponse(
        {
            "status": "unavailable" if down else "degraded" if degraded else "ready",
            "degraded": degraded,
            "parts": {part.name: part.as_json() for part in parts},
        },
        status=503 if down else 200,
    )


def _database() -> str | None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        pending = _pending_migrations()
    except DatabaseError:
        return "The database does not answer."
    return f"Migrations are pending: {', '.join(pending)}." if pending else None


_migrated = Event()


def _pending_migrations() -> list[str]:
    """Return the migrations not yet applied; once there are none, they are not looked for again."""
    if _migrated.is_set():
        return []
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not plan:
        _migrated.set()
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]


def _model() -> str | None:
    try:
        encoder_for(settings.EMBEDDING_MODEL)
    except RegistryError as error:
        return f"{error.detail} Questions asked before are still answered."
    return None


def _broker() -> str | None:
    with current_app.connection_for_write() as broker:
        failures = _failures_of(broker)
        try:
            broker.connect()
        except failures:
            return "The broker does not answer. Uploads are accepted and indexed once it is back."
    return None


def _failures_of(broker: Connection) -> tuple[type[Exception], ...]:
    own = [kind for kind in broker.connection_errors if issubclass(kind, Exception)]
    return (BrokerError, OSError, *own)


def _workers() -> str | None:
    found = _worker_answers(int(time.monotonic() / _PING_IS_GOOD_FOR_SECONDS))
    return None if found else "No worker answers. Uploads are accepted and wait for one."


@lru_cache(maxsize=1)
def _worker_answers(moment: int) -> bool:
    """Ask the workers, at most once per ``moment``: probes come often, and silence takes long."""
    # A pooled connection may be one to a broker that has been restarted since.
    with current_app.connection_for_write() as broker:
        failures = _failures_of(broker)
        try:
            return bool(current_app.control.ping(timeout=_PING_SECONDS, limit=1, connection=broker))
        except failures:
            return False


def forget() -> None:
    """Forget what earlier probes have found."""
    _migrated.clear()
    _worker_answers.cache_clear()
