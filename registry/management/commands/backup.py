"""Write the whole database to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from registry.backups import dump_database
from registry.embedded.failure import StartFailed
from registry.errors import RegistryError


class Command(BaseCommand):
    help = (
        "Write the whole database to a new file, as it is at one moment, by pg_dump. Everything "
        "may go on running meanwhile. `restore` reads it into an empty database."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="A new file.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            dump_database(connection, options["file"])
        except RegistryError as error:
            raise CommandError(error.detail) from error
        except StartFailed as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{options['file']}: {options['file'].stat().st_size:,} bytes")
