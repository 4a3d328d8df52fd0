"""Make the configured embedding model ready, so that the first question need not wait."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from registry.errors import RegistryError
from retrieval.encoders import encoder_for


class Command(BaseCommand):
    help = "Load the configured embedding model once; the bundled one's graph is exported."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            encoder = encoder_for(settings.EMBEDDING_MODEL)
            encoder.encode_query("ready?")
        except RegistryError as error:
            raise CommandError(error.detail) from error
        self.stdout.write(f"{encoder.name}: {encoder.dimensions} dimensions")
