"""Messages to the workers: hints that there may be work, never the record of it."""

from __future__ import annotations

import logging

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

# Beat repeats what is still due, so old hints need not pile up behind a long build.
_EXPIRES_SECONDS = 60

logger = logging.getLogger("retrieval.hints")


def send_hint(task: str, **arguments: str | int) -> None:
    """Send a task after commit. A broker that is down costs the hint, never the change.

    Beat looks for due work in PostgreSQL every few seconds and finds what a lost hint meant.
    """
    transaction.on_commit(lambda: _send(task, arguments), robust=True)


def _send(task: str, arguments: dict[str, str | int]) -> None:
    try:
        current_app.send_task(task, kwargs=arguments, retry=False, expires=_EXPIRES_SECONDS)
    except (OperationalError, OSError) as error:
        logger.warning("hint.lost task=%s reason=%s", task, error)
