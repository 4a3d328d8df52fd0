"""The preview beside the chunking form: what the typed values would make of a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from registry.errors import RegistryError
from retrieval.chunk_previews import ChunkPreview, PreviewedChunk, preview_document
from retrieval.chunking import Chunking
from retrieval.embedding_models import known_model
from retrieval.models import Document, KnowledgeBase

SHOWN_CHUNKS = 100
_MOST_NAMES = 300


class PreviewForm(forms.Form):
    """Which document to try the chunking on."""

    preview_document = forms.CharField(
        required=False,
        label="Document",
        widget=forms.TextInput(attrs={"class": "vTextField", "list": "preview-documents"}),
    )

    def __init__(self, *args: Any, base: KnowledgeBase, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._base = base
        self.fields["preview_document"].help_text = format_html(
            "Its name; empty: the first that has been read. Nothing is saved.{}", self._names()
        )

    def _names(self) -> SafeString:
        names = self._documents().values_list("name", flat=True)[:_MOST_NAMES]
        options = format_html_join("", '<option value="{}"></option>', ((name,) for name in names))
        return format_html('<datalist id="preview-documents">{}</datalist>', options)

    def _documents(self) -> Any:
        living = Document.objects.filter(knowledge_base=self._base, deleted_at__isnull=True)
        return living.order_by("name")

    def preview(self, values: Mapping[str, Any]) -> ChunkPreview | None:
        """Return what ``values`` (embeddingModel, chunking) make of the document.

        What is wrong with the document stands at its field, and None is returned. Raises what
        reading the values raises.
        """
        model = known_model(values["embeddingModel"])
        chunking = Chunking.from_json(values["chunking"], model.max_tokens)
        name = self.cleaned_data["preview_document"].strip()
        documents = self._documents()
        document = documents.filter(name=name).first() if name else self._first_read(documents)
        if document is None:
            self.add_error(
                "preview_document",
                f"There is no document {name!r}." if name else "No document has been read yet.",
            )
            return None
        try:
            return preview_document(document=document, chunking=chunking, model=model)
        except RegistryError as error:
            self.add_error("preview_document", error.detail)
            return None

    def _first_read(self, documents: Any) -> Document | None:
        read: Document | None = documents.filter(
            revisions__extractions__status="sealed", revisions__extractions__segments__isnull=False
        ).first()
        return read


def shown_chunks(preview: ChunkPreview | None) -> list[tuple[PreviewedChunk, str, str]]:
    """Return the first chunks, each with what the one before has too and with its own text."""
    if preview is None:
        return []
    return [
        (one, one.piece.text[: one.shared], one.piece.text[one.shared :])
        for one in preview.chunks[:SHOWN_CHUNKS]
    ]
