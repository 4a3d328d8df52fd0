"""A signed-in person, and what the audit log says of what they did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from django.contrib.auth.models import User
from django.test import Client

from registry.models import AuditEvent

Audited = Callable[[str], AbstractContextManager[None]]


@pytest.fixture
def person(db: None) -> User:
    return User.objects.create_superuser("ada")


@pytest.fixture
def browser(person: User, client: Client) -> Client:
    """A client in which the superuser ada is signed in."""
    client.force_login(person)
    return client


@pytest.fixture
def audited() -> Audited:
    """Return a context manager: what is done in it leaves one audit row, of that action, by ada.

    An empty action means that no row is left.
    """

    @contextmanager
    def hold(action: str) -> Iterator[None]:
        newest = AuditEvent.objects.order_by("-id").values_list("id", flat=True).first() or 0
        yield
        rows = AuditEvent.objects.filter(id__gt=newest)
        found = [(row.action, row.actor_kind, row.actor) for row in rows]
        assert found == ([(action, "user", "ada")] if action else [])

    return hold
