#!/usr/bin/env python
"""Run a command on the instance in ``--data-dir`` (or ``DATA_DIR``, or the default folder)."""
# ruff: noqa: TID251 - it decides, before settings load, what they will find in the environment

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

from registry.embedded.commands import OWNER_COMMANDS, needs_database, servers_for_command
from registry.embedded.external import check_database
from registry.embedded.failure import StartFailed
from registry.embedded.instance import Instance, default_data_dir, take_data_dir

BASE_DIR = Path(__file__).resolve().parent


def main() -> None:
    """Run the command with its database there; end with one sentence where that fails."""
    try:
        argv, data_dir = take_data_dir(sys.argv)
    except ValueError as error:
        sys.exit(str(error))
    instance = Instance(data_dir or Path(os.environ.get("DATA_DIR") or default_data_dir(BASE_DIR)))
    os.environ["DATA_DIR"] = str(instance.data_dir)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "registry.settings")
    command = argv[1] if len(argv) > 1 else ""
    if command in OWNER_COMMANDS:
        os.environ["DATABASE_ROLE"] = "owner"
    servers: AbstractContextManager[None] = nullcontext()
    try:
        # Settings load after the embedded servers: their start writes the secret key.
        if needs_database(argv) and not os.environ.get("DATABASE_URL", "").strip():
            servers = servers_for_command(instance, command)
        elif needs_database(argv):
            check_database(
                settings.DATABASES["default"],
                settings.DATABASE_VARIABLE,
                will_migrate=command in ("migrate", "restore"),
            )
        with servers:
            execute_from_command_line(argv)
    except (StartFailed, ImproperlyConfigured) as failure:
        sys.exit(str(failure))


if __name__ == "__main__":
    main()
