"""Export a published version with everything it answers from, as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from agents.drafting import find_agent
from agents.exporting import export_version
from agents.management.bars import progress_bar
from agents.management.versions import VersionCommand
from agents.versions import HOLDER_KIND, find_version
from registry.actors import Actor
from registry.errors import RegistryError
from retrieval.pins import pinned_snapshots

ACTOR = Actor(kind="command", label="export_agent")


class Command(VersionCommand):
    help = (
        "Export a published version with its manifest, its knowledge bases as it pins them "
        "(documents, texts, vectors) and the vectors of its model's questions. import_agent makes "
        "the same version of it elsewhere."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", metavar="SLUG", help="The agent.")
        parser.add_argument(
            "--version", dest="number", type=int, required=True, metavar="N", help="Its version."
        )
        parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="A new file.")
        parser.add_argument(
            "--without-questions",
            action="store_true",
            help=(
                "Leave the vectors of questions out. Answers may then differ in a confidence's "
                "sixth decimal on another machine."
            ),
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            agent = find_agent(options["slug"])
            version = find_version(agent, options["number"])
            pinned = pinned_snapshots(holder_kind=HOLDER_KIND, holder_id=version.pk)
            total = sum(snapshot.chunk_count for snapshot in pinned.values())
            with progress_bar("exported", total) as progress:
                exported = export_version(
                    actor=ACTOR,
                    agent=agent,
                    number=options["number"],
                    path=options["out"],
                    with_questions=not options["without_questions"],
                    progress=progress,
                )
        except RegistryError as error:
            raise CommandError(error.detail) from error
        except OSError as error:
            raise CommandError(f"{options['out']} cannot be written: {error.strerror}") from error
        self.stdout.write(f"version  {agent.slug} v{version.number} {version.digest}")
        self.stdout.write(f"holds    {total} chunks, {exported.questions} questions")
        self.stdout.write(f"archive  {options['out']} {exported.digest}")
