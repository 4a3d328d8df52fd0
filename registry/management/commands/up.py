"""Start the whole registry on this machine and stay in the foreground."""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.core.management import get_commands
from django.core.management.base import BaseCommand, CommandError, CommandParser

from registry.embedded.instance import Instance
from registry.embedded.up import Plan, run_up

_MOST_WORKERS_UNASKED = 8


class Command(BaseCommand):
    help = (
        "Start what is not configured elsewhere (PostgreSQL, Valkey), bring the database up to "
        "date, start web server, workers and beat, and stay until Ctrl-C. --data-dir DIR, which "
        "every command takes, says where everything is kept."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="Address to listen on.")
        parser.add_argument("--port", type=int, default=8000, help="Port; 0 takes a free one.")
        parser.add_argument(
            "--no-demo", action="store_true", help="Do not load the example handbook."
        )
        parser.add_argument(
            "--workers",
            type=_positive,
            default=min(_cores(), _MOST_WORKERS_UNASKED),
            help="Worker processes for documents (default: one a core, at most 8).",
        )
        parser.add_argument(
            "--web-workers", type=_positive, default=2, help="Web processes (default: 2)."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        run_up(
            Plan(
                instance=Instance(settings.DATA_DIR),
                base_dir=settings.BASE_DIR,
                host=options["host"],
                port=options["port"],
                web_workers=options["web_workers"],
                workers=options["workers"],
                demo=not options["no_demo"],
                commands=frozenset(get_commands()),
                database=None if settings.DATABASE_IS_EMBEDDED else settings.DATABASES["default"],
                redis_url=None if settings.REDIS_IS_EMBEDDED else settings.REDIS_URL,
                broker_url=None if _broker_is_redis() else settings.BROKER_URL,
                allowed_hosts=tuple(settings.ALLOWED_HOSTS),
            ),
            self._write,
        )

    def _write(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _broker_is_redis() -> bool:
    """Tell whether the broker is the embedded server or the one of REDIS_URL."""
    return settings.BROKER_URL in {settings.REDIS_URL, settings.INSTANCE.broker_url}


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise CommandError("--workers and --web-workers are whole numbers from 1.")
    return number
