"""Import an exported version as the next version of its agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents.importing import Imported, import_version
from agents.management.bars import progress_bar
from registry.actors import Actor
from registry.errors import RegistryError
from retrieval.importing import ImportedBase

ACTOR = Actor(kind="command", label="import_agent")


class Command(BaseCommand):
    help = (
        "Import what export_agent wrote: the version gets the next number and has the same digest "
        "and, for the same calls, the same receipts. Everything or nothing is imported."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE", help="The archive.")
        parser.add_argument(
            "--into",
            metavar="SLUG",
            help="The agent to import into, made where there is none; else the archive's.",
        )
        parser.add_argument(
            "--expect",
            metavar="DIGEST",
            help="Refuse any other archive than the one whose digest export_agent has shown.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with progress_bar("imported", 0) as progress:
                imported = import_version(
                    actor=ACTOR,
                    path=options["file"],
                    slug=options["into"],
                    expected_digest=options["expect"],
                    progress=progress,
                )
        except RegistryError as error:
            raise CommandError(f"{error.code}: {error.detail}") from error
        for line in _told(imported):
            self.stdout.write(line)


def _told(imported: Imported) -> list[str]:
    label = f"{imported.agent.slug} v{imported.version.number} {imported.version.digest}"
    if imported.unchanged:
        return [f"unchanged: this is {label} already"]
    lines = [f"version         {label}"]
    lines += [f"knowledge base  {_told_base(base)}" for base in imported.bases]
    lines.append(f"questions       {imported.questions.added} added")
    if imported.questions.different:
        lines.append(
            f"                {imported.questions.different} were asked here before and keep the "
            "vector they have here, which is not the same to the bit: their confidences may "
            "differ in the sixth decimal"
        )
    return lines


def _told_base(imported: ImportedBase) -> str:
    base = f"{imported.base.name} ({imported.base.pk}), snapshot {imported.snapshot.number}"
    if imported.reused_snapshot:
        return f"{base}: was here"
    added = imported.added
    told = (
        f"{base}: {added.documents} documents, {added.revisions} revisions, "
        f"{added.chunks} chunks added"
    )
    if added.hidden:
        names = ", ".join(added.hidden[:5]) + ("…" if len(added.hidden) > 5 else "")
        told += f"; kept for the version alone, as their names are taken here: {names}"
    return told
