"""Several files at once: each is one use case of its own, and one bad file stops no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.core.files.uploadedfile import UploadedFile

from registry.actors import Actor
from registry.errors import RegistryError
from retrieval.admin.forms import UploadForm
from retrieval.documents import NAME_TAKEN, Upload, add_document, check_size, replace_document
from retrieval.models import Document, KnowledgeBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one file: ``kind`` is added, replaced, unchanged or refused."""

    name: str
    kind: str
    text: str
    document: Document | None = None


def upload_files(
    actor: Actor, base: KnowledgeBase, files: Sequence[UploadedFile], form: UploadForm
) -> list[Outcome]:
    """Add each file to ``base`` as the (valid) form says, and tell what became of it."""
    return [_upload(actor, base, file, form) for file in files]


def _upload(actor: Actor, base: KnowledgeBase, file: UploadedFile, form: UploadForm) -> Outcome:
    typed = form.cleaned_data
    folder = typed["folder"].strip().strip("/")
    name = f"{folder}/{file.name}" if folder else str(file.name)
    try:
        upload = Upload(name=name, content=read_upload(file), metadata=typed["metadata"])
        document, added = add_document(actor=actor, base=base, upload=upload)
    except RegistryError as error:
        if error.code != NAME_TAKEN:
            return Outcome(name=name, kind="refused", text=error.detail)
        if typed["replace"]:
            return _replace(actor, base, upload)
        text = "Its name is taken by other content. Tick “Replace documents of the same name”."
        return Outcome(name=name, kind="refused", text=text)
    if added:
        return Outcome(name=name, kind="added", text="", document=document)
    return Outcome(name=name, kind="unchanged", text="It is there already.", document=document)


def _replace(actor: Actor, base: KnowledgeBase, upload: Upload) -> Outcome:
    try:
        existing = Document.objects.get(
            knowledge_base=base, name=upload.name.strip(), deleted_at__isnull=True
        )
        document, _ = replace_document(
            actor=actor, base=base, document_id=existing.pk, upload=upload
        )
    except Document.DoesNotExist:
        return Outcome(
            name=upload.name, kind="refused", text="It was deleted meanwhile; try again."
        )
    except RegistryError as error:
        return Outcome(name=upload.name, kind="refused", text=error.detail)
    return Outcome(name=upload.name, kind="replaced", text="", document=document)


def read_upload(file: UploadedFile) -> bytes:
    """Return a file's content. Raises TooLarge, before any of it is in memory."""
    check_size(file.size or 0)
    return bytes(file.read())
