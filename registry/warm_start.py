"""Make a web process warm: its first question costs what the next ones do."""

from __future__ import annotations

import logging
import threading

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from agents.warm_start import aliased_snapshots
from registry.errors import RegistryError
from retrieval.encoders import encoder_for
from retrieval.host_copies import copies

logger = logging.getLogger("registry.warm_start")


def begin() -> None:
    """Load the embedding model, then have the copies of aliased snapshots made ready.

    Returns when the model is loaded. What is missing (the model, the database) is logged: the
    process serves what it can, and `/readyz` names the rest.
    """
    try:
        encoder_for(settings.EMBEDDING_MODEL).encode_query("ready?")
    except RegistryError as error:
        logger.warning("warm_start.no_model %s", error.detail)
    copies.keep()
    threading.Thread(target=_open_copies, name="warm-start", daemon=True).start()


def _open_copies() -> None:
    try:
        for snapshot in aliased_snapshots():
            copies.want(snapshot)
    except (DatabaseError, InterfaceError) as error:
        logger.warning("warm_start.no_copies %s", error)
    finally:
        connection.close()
