"""Prove that published versions are what was published."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from agents.management.bars import progress_bar
from agents.management.versions import VersionCommand
from agents.models import AgentVersion
from agents.verification import chunks_to_verify, to_verify, verify_version
from retrieval.verification import Verifier


class Command(VersionCommand):
    help = (
        "Recompute the digests of published versions from the rows, down to chunk texts, vectors "
        "and document bytes. Exit code 1 where anything differs."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", metavar="SLUG", help="Only this agent's versions.")
        parser.add_argument(
            "--version", "--version-number", type=int, metavar="N", help="Only this version."
        )
        parser.add_argument("--all", action="store_true", help="Every published version.")

    def handle(self, *args: Any, **options: Any) -> None:
        versions = to_verify(AgentVersion.objects.filter(state="published"))
        versions = versions.select_related("agent")
        if options["agent"]:
            versions = versions.filter(agent__slug=options["agent"])
        if options["version"] is not None:
            versions = versions.filter(number=options["version"])
        if not (options["all"] or options["agent"]):
            raise CommandError("Say which: --all, or --agent SLUG with --version N.")
        different = checked = 0
        with progress_bar("verified", chunks_to_verify(versions)) as progress:
            verifier = Verifier(progress)
            for version in versions.order_by("agent__slug", "number"):
                checked += 1
                different += not self._verify(version, verifier)
        if not checked:
            raise CommandError("There is no such published version.")
        self.stdout.write(f"{checked} versions verified, {different} differ")
        if different:
            sys.exit(1)

    def _verify(self, version: AgentVersion, verifier: Verifier) -> bool:
        label = f"{version.agent.slug} v{version.number}"
        parts = purged = 0
        whole = True
        for part in verify_version(version, verifier):
            parts += 1
            purged += part.purged
            if part.difference is not None:
                found = part.difference
                where = f"{found.document or part.part}"
                if found.chunk is not None:
                    where += f", chunk {found.chunk}"
                self.stdout.write(
                    f"{label}: {where}: {found.what} differs: "
                    f"sealed {found.expected}, found {found.found}"
                )
                whole = False
        note = f", {purged} purged" if purged else ""
        self.stdout.write(f"{label}: {parts} parts{note}: {'ok' if whole else 'DIFFERS'}")
        return whole
