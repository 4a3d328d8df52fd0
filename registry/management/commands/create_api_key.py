"""Create an API key and print it once."""

from __future__ import annotations

import argparse
import uuid
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from registry.access import SCOPES, create_api_key
from registry.actors import Actor
from registry.errors import RegistryError


class Command(BaseCommand):
    help = "Create an API key; it is the last word of the output and cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", required=True, help="What it is for; unique.")
        parser.add_argument("--scope", required=True, choices=SCOPES)
        parser.add_argument(
            "--agent",
            action="append",
            metavar="SLUG",
            help="Limit the key to this agent; may be given again. Without it: all agents.",
        )
        parser.add_argument(
            "--knowledge-base",
            action="append",
            default=[],
            type=_uuid,
            metavar="ID",
            help="A knowledge base that a limited key may bind and read; may be given again.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["knowledge_base"] and options["agent"] is None:
            raise CommandError("--knowledge-base limits a key that --agent limits; name an agent.")
        try:
            key = create_api_key(
                actor=Actor(kind="command", label="create_api_key"),
                name=options["name"],
                scope=options["scope"],
                agents=options["agent"],
                knowledge_bases=options["knowledge_base"],
            )
        except RegistryError as error:
            raise CommandError(error.detail) from error
        self.stdout.write(f"{options['name']} ({options['scope']}), shown once: {key}")


def _uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not the id of a knowledge base") from None
