"""Remove what nothing needs any more."""

from __future__ import annotations

import uuid
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.template.defaultfilters import filesizeformat

from registry.actors import Actor
from retrieval.models import KnowledgeBase
from retrieval.pruning import Keep, Pruned, prune

# Days: what lies further back has no date
_MOST = 100_000


class Command(BaseCommand):
    help = (
        "Remove snapshots that no published version pins, but the current one, the last few and "
        "those of the last days; and what no snapshot holds any more: indexed documents, deleted "
        "documents. Beat does the same every hour."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        configured = Keep.configured()
        parser.add_argument("--dry-run", action="store_true", help="Only say what would go.")
        parser.add_argument("--knowledge-base", metavar="ID", help="Its id or name; default: all.")
        parser.add_argument(
            "--keep-last",
            type=int,
            metavar="N",
            default=configured.last,
            help="Snapshots kept besides the current one (default: %(default)s).",
        )
        parser.add_argument(
            "--keep-days",
            type=int,
            metavar="N",
            default=configured.days,
            help="What is younger is kept (default: %(default)s).",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not (0 <= options["keep_last"] <= _MOST and 0 <= options["keep_days"] <= _MOST):
            raise CommandError(f"--keep-last and --keep-days are whole numbers from 0 to {_MOST}.")
        wanted = options["knowledge_base"]
        found = prune(
            actor=Actor(kind="command", label="prune"),
            base=None if wanted is None else _base(wanted),
            keep=Keep(last=options["keep_last"], days=options["keep_days"]),
            dry_run=options["dry_run"],
        )
        for pruned in found.bases:
            self.stdout.write(f"{pruned.name}: {_sentence(pruned)}")
        if wanted is None:
            self.stdout.write(
                f"Vectors of questions to drafts and test boxes: {found.questions}; "
                f"of builds that ended early: {found.pending_vectors}"
            )
        self.stdout.write("Nothing was removed." if options["dry_run"] else "Removed.")


def _base(text: str) -> KnowledgeBase:
    try:
        base = KnowledgeBase.objects.filter(pk=uuid.UUID(text)).first()
    except ValueError:
        base = KnowledgeBase.objects.filter(name=text).first()
    if base is None:
        raise CommandError(f"There is no knowledge base {text!r}.")
    return base


def _sentence(pruned: Pruned) -> str:
    numbers = ", ".join(f"#{number}" for number in pruned.snapshots)
    parts = [f"snapshots {numbers}"] if numbers else []
    parts += [
        f"{count} {what}"
        for count, what in (
            (pruned.indexed_documents, "indexed documents"),
            (pruned.chunks, "chunks"),
            (pruned.readings, "readings that a newer one replaced"),
            (len(pruned.documents), "deleted documents"),
        )
        if count
    ]
    text = "; ".join(parts) + f": {filesizeformat(pruned.bytes)}" if parts else "nothing"
    return text + (" (a build is running: its documents wait)" if pruned.waits else "")
