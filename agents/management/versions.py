"""Commands whose ``--version`` is an agent's."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser


class VersionCommand(BaseCommand):
    """Django's own ``--version``, which says which Django this is, gives way to the agent's."""

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser(prog_name, subcommand, conflict_handler="resolve", **kwargs)
