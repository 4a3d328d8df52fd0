"""Who this installation is, for others that take over what was made here."""

from __future__ import annotations

from registry.models import Installation


def installation_id() -> str:
    """Return the id of this database, made at its first use and kept for ever.

    A restored dump is the same installation.
    """
    return str(Installation.objects.get_or_create(only=True)[0].pk)
