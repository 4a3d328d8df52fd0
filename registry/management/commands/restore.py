"""Read a backup into an empty database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from registry.backups import restore_database
from registry.embedded.failure import StartFailed
from registry.errors import RegistryError


class Command(BaseCommand):
    help = (
        "Read what `backup` wrote into an empty database (a new --data-dir, or a new database of "
        "a server with the two roles), all of it or nothing, and bring it to this version."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="The backup.")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["file"].is_file():
            raise CommandError(f"There is no file {options['file']}.")
        try:
            restore_database(connection, options["file"])
        except RegistryError as error:
            raise CommandError(error.detail) from error
        except StartFailed as error:
            raise CommandError(str(error)) from error
        # Also gives the serving role its rights.
        call_command("migrate", verbosity=0, interactive=False)
        self.stdout.write("Restored. `verify --all` proves the published versions.")
