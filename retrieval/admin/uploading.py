"""Several files at once, as the upload form has them."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.files.uploadedfile import UploadedFile

from registry.actors import Actor
from retrieval.admin.forms import UploadForm
from retrieval.documents import NAME_TAKEN, check_size
from retrieval.ingestion import Incoming, Outcome, in_folder, ingest
from retrieval.models import KnowledgeBase

_TAKEN = "Its name is taken by other content. Tick “Replace documents of the same name”."


def upload_files(
    actor: Actor, base: KnowledgeBase, files: Sequence[UploadedFile], form: UploadForm
) -> list[tuple[Outcome, str]]:
    """Add each file as the (valid) form says; return what became of it, with a sentence."""
    typed = form.cleaned_data
    incoming = [
        Incoming(
            name=in_folder(typed["folder"], str(file.name)), size=file.size or 0, read=file.read
        )
        for file in files
    ]
    outcomes = ingest(
        actor=actor,
        base=base,
        files=incoming,
        metadata=typed["metadata"],
        replace=typed["replace"],
    )
    return [(outcome, _sentence(outcome)) for outcome in outcomes]


def _sentence(outcome: Outcome) -> str:
    if outcome.error is not None:
        return _TAKEN if outcome.error.code == NAME_TAKEN else outcome.error.detail
    if outcome.kind == "unchanged":
        return "It is there already."
    return "The same content with other metadata." if outcome.kind == "updated" else ""


def read_upload(file: UploadedFile) -> bytes:
    """Return a file's content. Raises TooLarge, before any of it is in memory."""
    check_size(file.size or 0)
    return bytes(file.read())
