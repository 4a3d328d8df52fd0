"""Erase the contents of a document for good."""

from __future__ import annotations

import uuid
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from registry.actors import Actor
from registry.errors import RegistryError
from retrieval.models import Document
from retrieval.purging import PurgedDocument, purge_document


class Command(BaseCommand):
    help = (
        "Erase the contents of a document, in every revision and everywhere, for good: bytes, "
        "texts and vectors. Digests, name and metadata stay; published versions go on answering "
        "without its passages. docs/retention.md says what this cannot reach."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "document", help="Its id, or its name where one document alone has it; also deleted."
        )
        parser.add_argument("--reason", required=True, help="Kept for ever, in the audit log too.")
        parser.add_argument("--yes", action="store_true", help="Do not ask.")

    def handle(self, *args: Any, **options: Any) -> None:
        document = _found(options["document"])
        if not options["yes"] and not self._agreed(document):
            raise CommandError("Nothing was purged.")
        try:
            purged = purge_document(
                actor=Actor(kind="command", label="purge"),
                base=document.knowledge_base,
                document_id=document.pk,
                reason=options["reason"],
            )
        except RegistryError as error:
            raise CommandError(error.detail) from error
        self._tell(purged)

    def _agreed(self, document: Document) -> bool:
        self.stdout.write(f"{_line(document)}\nIts contents will be gone for good.")
        try:
            return input("Type “purge” to go on: ").strip() == "purge"
        except EOFError as error:
            raise CommandError("Nothing was purged: nobody answers; --yes does not ask.") from error

    def _tell(self, purged: PurgedDocument) -> None:
        self.stdout.write(
            f"Purged {purged.document.name}: {len(purged.revisions)} revisions, "
            f"{purged.chunks} passages, at {purged.at:%Y-%m-%d %H:%M:%S}."
        )
        for copy in purged.copies:
            state = "deleted" if copy.deleted else "living"
            self.stdout.write(
                f"The same bytes are in {copy.name}, {copy.document} ({state}), of knowledge base "
                f"{copy.knowledge_base}: it has its own purge."
            )


def _found(text: str) -> Document:
    try:
        found = Document.objects.filter(pk=uuid.UUID(text))
    except ValueError:
        found = Document.objects.filter(name=text)
    documents = list(found.select_related("knowledge_base").order_by("created_at"))
    if not documents:
        raise CommandError(f"There is no document {text!r}, and none was deleted that is kept.")
    if len(documents) > 1:
        lines = "\n".join(_line(document) for document in documents)
        raise CommandError(f"Several documents are called {text!r}; name one by its id:\n{lines}")
    return documents[0]


def _line(document: Document) -> str:
    deleted = f", deleted {document.deleted_at:%Y-%m-%d %H:%M}" if document.deleted_at else ""
    return f"{document.pk}  {document.name} of {document.knowledge_base.name}{deleted}"
