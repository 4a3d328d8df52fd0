"""Bring a folder into a knowledge base: what is new, what changed, and nothing else."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from registry.actors import Actor
from registry.errors import RegistryError
from retrieval.document_states import document_states
from retrieval.ingestion import (
    Incoming,
    Outcome,
    counted,
    delete_missing,
    document_name,
    in_folder,
    ingest,
)
from retrieval.knowledge_bases import create_knowledge_base, find
from retrieval.models import Document, IndexSnapshot, KnowledgeBase
from retrieval.progress import build_status

_ACTOR = Actor(kind="command", label="ingest")
_POLL_SECONDS = 0.5
# A build in which nothing happens for so long has no worker
_STALLED_SECONDS = 600.0
_STATES_AT_ONCE = 1000


class Command(BaseCommand):
    help = (
        "Add the files of a folder as documents, named by their path in it; replace those that "
        "changed. What is unchanged costs its hash. Exit code 1 where a file failed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("directory", type=Path, metavar="DIR")
        parser.add_argument(
            "--knowledge-base", required=True, metavar="NAME_OR_ID", help="Where they go."
        )
        parser.add_argument(
            "--create", action="store_true", help="Create the knowledge base where there is none."
        )
        parser.add_argument(
            "--folder", default="", metavar="PATH", help="Put before each name, as in eu/a.pdf."
        )
        parser.add_argument(
            "--exclude",
            action="append",
            default=[],
            metavar="PATTERN",
            help="Leave files out whose path or name matches (*.png); may be given again.",
        )
        parser.add_argument(
            "--delete-missing",
            action="store_true",
            help="Delete the documents that are not in the folder (with --folder: only those "
            "below it).",
        )
        parser.add_argument(
            "--force", action="store_true", help="Let --delete-missing empty everything."
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="Say what would be done, and do nothing."
        )
        parser.add_argument(
            "--wait",
            action="store_true",
            help="Wait until everything is indexed, and report what could not be read.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        directory: Path = options["directory"]
        if not directory.is_dir():
            raise CommandError(f"There is no folder {directory}.")
        files, unreadable = _files(directory, options["exclude"])
        base = self._base(options)
        outcomes = self._ingest(base, directory, files, options)
        deleted = self._delete(base, files, unreadable, options)
        counts = counted(outcomes)
        would = "would be " if options["dry_run"] else ""
        self.stdout.write(
            would
            + ", ".join(f"{kind} {count}" for kind, count in counts.items())
            + (f", deleted {deleted}" if options["delete_missing"] else "")
        )
        failures = [(one.name, one.error.detail) for one in outcomes if one.error is not None]
        failures += [(path, f"the folder cannot be read: {why}") for path, why in unreadable]
        if options["wait"] and not options["dry_run"]:
            failures += self._wait(base, [one.name for one in outcomes if one.kind != "failed"])
        for name, why in failures:
            self.stderr.write(f"failed: {_printable(name)}: {_printable(why)}")
        if failures:
            sys.exit(1)

    def _base(self, options: dict[str, Any]) -> KnowledgeBase:
        """Return the knowledge base; an unsaved one in a dry run that would create it."""
        wanted: str = options["knowledge_base"]
        try:
            return find(uuid.UUID(wanted))
        except (ValueError, RegistryError):
            base = KnowledgeBase.objects.filter(name=wanted).first()
        if base is not None:
            return find(base.pk)
        if not options["create"]:
            raise CommandError(f"There is no knowledge base {wanted!r}; --create makes it.")
        if options["dry_run"]:
            return KnowledgeBase(name=wanted)
        try:
            return create_knowledge_base(actor=_ACTOR, values={"name": wanted})
        except RegistryError as error:
            raise CommandError(error.detail) from error

    def _ingest(
        self,
        base: KnowledgeBase,
        directory: Path,
        files: Sequence[str],
        options: dict[str, Any],
    ) -> list[Outcome]:
        incoming = [_incoming(directory, path, options["folder"]) for path in files]
        outcomes: list[Outcome] = []
        found = ingest(
            actor=_ACTOR,
            base=base,
            files=incoming,
            dry_run=options["dry_run"],
        )
        with _bar(total=len(incoming), desc="files", unit="file") as bar:
            for outcome in found:
                outcomes.append(outcome)
                bar.update()
                if options["dry_run"] and outcome.kind not in ("unchanged", "failed"):
                    self.stdout.write(f"would be {outcome.kind}: {_printable(outcome.name)}")
        return outcomes

    def _delete(
        self,
        base: KnowledgeBase,
        files: Sequence[str],
        unreadable: Sequence[tuple[str, str]],
        options: dict[str, Any],
    ) -> int:
        if not options["delete_missing"]:
            return 0
        if unreadable:
            self.stderr.write("Nothing was deleted: not all of the folder could be read.")
            return 0
        folder = options["folder"]
        below = in_folder(folder, "")
        try:
            deleted = delete_missing(
                actor=_ACTOR,
                base=base,
                names=[in_folder(folder, path) for path in files],
                folder=folder,
                keep=lambda name: _is_excluded(name.removeprefix(below), options["exclude"]),
                force=options["force"],
                dry_run=options["dry_run"],
            )
        except RegistryError as error:
            raise CommandError(f"{error.detail} --force does it.") from error
        if options["dry_run"]:
            for document in deleted:
                self.stdout.write(f"would be deleted: {_printable(document.name)}")
        return len(deleted)

    def _wait(self, base: KnowledgeBase, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Wait for the builds to end; yield the documents that could not be indexed, and why."""
        try:
            self._wait_for_builds(base)
        except TimeoutError as error:
            yield str(base), str(error)
            return
        newest = IndexSnapshot.objects.filter(knowledge_base=base).order_by("-number").first()
        if newest is not None and newest.state in ("failed", "cancelled"):
            yield str(base), f"build {newest.number} {newest.state}. {newest.detail}".strip()
        wanted = {document_name(name) for name in names}
        documents = [document for document in _living(base) if document.name in wanted]
        for start in range(0, len(documents), _STATES_AT_ONCE):
            part = documents[start : start + _STATES_AT_ONCE]
            states = document_states(part)
            for document in part:
                failure = states[document.pk].error
                if failure is not None:
                    yield document.name, failure["message"]

    def _wait_for_builds(self, base: KnowledgeBase) -> None:
        moved, before = time.monotonic(), None
        with _bar(total=100.0, desc="indexed", unit="%") as bar:
            while (status := build_status(find(base.pk))) is not None:
                if status.paused:
                    raise TimeoutError("Its build is paused: nothing is indexed meanwhile.")
                if status != before:
                    moved, before = time.monotonic(), status
                elif time.monotonic() - moved > _STALLED_SECONDS:
                    raise TimeoutError(
                        f"Nothing was indexed for {_STALLED_SECONDS:.0f} seconds: is a worker "
                        "running?"
                    )
                bar.n = status.as_json()["progress"]["percent"]
                bar.set_postfix_str(f"{status.done} of {status.documents} documents")
                time.sleep(_POLL_SECONDS)
            bar.n = 100.0
            bar.refresh()


def _files(directory: Path, excluded: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the paths of all files in the folder, sorted, and the folders that cannot be read.

    What is hidden (its name begins with a dot) is left out, and links to folders are not followed.
    """
    unreadable: list[tuple[str, str]] = []

    def note(error: OSError) -> None:
        unreadable.append((str(error.filename), error.strerror or str(error)))

    found = []
    for folder, folders, names in os.walk(directory, onerror=note):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            path = (Path(folder) / name).relative_to(directory).as_posix()
            if not name.startswith(".") and not _is_excluded(path, excluded):
                found.append(path)
    return sorted(found), unreadable


def _is_excluded(path: str, patterns: Sequence[str]) -> bool:
    name = path.rpartition("/")[2]
    return any(fnmatch(path, pattern) or fnmatch(name, pattern) for pattern in patterns)


def _incoming(directory: Path, path: str, folder: str) -> Incoming:
    file = directory / path
    try:
        # A pipe or a device would never end
        size = file.stat().st_size if file.is_file() else -1
    except OSError:
        size = 0

    def read() -> bytes:
        if size < 0:
            raise OSError("it is not a file")
        return file.read_bytes()

    return Incoming(name=in_folder(folder, path), size=max(size, 0), read=read)


def _living(base: KnowledgeBase) -> list[Document]:
    living = Document.objects.filter(knowledge_base=base, deleted_at__isnull=True)
    return list(living.order_by("name"))


def _bar(**options: Any) -> Any:
    # On a terminal only: a log needs no bar
    return tqdm(disable=None, leave=False, **options)


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
