"""Give an empty installation its first content: an admin, an API key, the example handbook."""

from __future__ import annotations

import json
import secrets
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from agents.examples import load_example
from registry import audit
from registry.access import create_api_key
from registry.actors import Actor
from registry.errors import RegistryError
from registry.models import ApiKey, AuditEvent
from retrieval.models import KnowledgeBase

ACTOR = Actor(kind="command", label="bootstrap")
_STARTED = "example.load_started"
_LOADED = "example.loaded"
_QUESTION = "How long do I have to send something back?"


class Command(BaseCommand):
    help = (
        "Create an admin user and an API key where there are none, and load the example handbook "
        "into an empty database. Needs running workers for the handbook. Safe to run again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--no-demo", action="store_true", help="Leave the handbook out.")
        parser.add_argument(
            "--json", action="store_true", help="End with one line of JSON for a program."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["no_demo"] and _wants_example():
            try:
                self._load_example()
            except RegistryError as error:
                raise CommandError(error.detail) from error
        # Last, so that an interrupted start loses no secret that nobody has seen.
        made: dict[str, Any] = {"admin": _first_admin(), "apiKey": _first_key(), "curl": None}
        if AuditEvent.objects.filter(action=_LOADED).exists():
            made["curl"] = _curl(made["apiKey"])
        if options["json"]:
            self.stdout.write(json.dumps(made))
            return
        for name, value in made.items():
            if value:
                self.stdout.write(f"{name}: {value}")

    def _load_example(self) -> None:
        with transaction.atomic():
            audit.record(actor=ACTOR, action=_STARTED, object_type="example", object_id="handbook")
        load_example(
            settings.BASE_DIR / "examples" / "handbook", actor=ACTOR, say=self.stdout.write
        )
        with transaction.atomic():
            audit.record(actor=ACTOR, action=_LOADED, object_type="example", object_id="handbook")


def _first_admin() -> dict[str, str] | None:
    users = get_user_model()
    if users.objects.exists():
        return None
    password = secrets.token_urlsafe(12)
    with transaction.atomic():
        users.objects.create_superuser("admin", password=password)
        audit.record(actor=ACTOR, action="user.created", object_type="user", object_id="admin")
    return {"username": "admin", "password": password}


def _first_key() -> str | None:
    if ApiKey.objects.exists():
        return None
    return create_api_key(actor=ACTOR, name="first key", scope="admin")


def _wants_example() -> bool:
    """An empty database wants it, and one in which loading it was interrupted."""
    loaded = AuditEvent.objects.filter(action__in=(_STARTED, _LOADED))
    actions = set(loaded.values_list("action", flat=True))
    if _LOADED in actions:
        return False
    return _STARTED in actions or not KnowledgeBase.objects.exists()


def _curl(key: str | None) -> str:
    body = json.dumps({"alias": "production", "query": _QUESTION, "topK": 2})
    return (
        f"curl -s {{base}}/api/v1/agents/support/tools/search_eu/call"
        f" -H 'Authorization: Bearer {key or '<API key>'}'"
        f" -H 'Content-Type: application/json' -d '{body}'"
    )
