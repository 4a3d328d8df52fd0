"""The forms of knowledge bases and documents: what a person types → what the use cases take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.admin import widgets

from registry.form_fields import JSONTextField, remember_shown
from retrieval.chunking import STRATEGIES
from retrieval.embedding_models import model_names
from retrieval.encoders import DEFAULT_MODEL
from retrieval.models import EmbeddingModel, KnowledgeBase
from retrieval.purging import LONGEST_REASON
from retrieval.search_settings import MODES, SearchSettings, settings_of

# Path of a field in an error of the use cases → field of a form.
KNOWLEDGE_BASE_FIELDS: Mapping[str, str] = {
    "name": "name",
    "embeddingModel": "model",
    "chunking.strategy": "strategy",
    "chunking.size": "size",
    "chunking.overlap": "overlap",
    "failurePolicy": "failure_policy",
    "settings.defaultTopK": "default_top_k",
    "settings.similarityThreshold": "similarity_threshold",
    "settings.maxContextLength": "max_context_length",
    "settings.rerankEnabled": "rerank_enabled",
    "settings.diversityEnabled": "diversity_enabled",
    "settings.settingsMode": "settings_mode",
}
DOCUMENT_FIELDS: Mapping[str, str] = {
    "name": "name",
    "metadata": "metadata",
    "chunking.strategy": "strategy",
    "chunking.size": "size",
    "chunking.overlap": "overlap",
}
QUESTION_FIELDS: Mapping[str, str] = {
    "query": "query",
    "topK": "top_k",
    "confidenceThreshold": "confidence_threshold",
}
_STRATEGY_LABELS = {
    "recursive": "recursive: at paragraphs, then sentences, then words",
    "markdown": "markdown: at headings; tables and code stay whole",
    "sentence": "sentence: whole sentences",
    "page": "page: no piece crosses a page",
    "document": "document: one piece for each document, cut where the model stops reading",
}


def _number(step: str = "1", **limits: float) -> forms.NumberInput:
    return forms.NumberInput(attrs={"class": "vIntegerField", "step": step, **limits})


class KnowledgeBaseForm(forms.Form):
    """Name, model, chunking and settings; the ranges stand beside the fields, the use case holds
    them."""

    name = forms.CharField(widget=widgets.AdminTextInputWidget(), help_text="1 to 200 characters.")
    model = forms.ChoiceField(label="Embedding model")
    strategy = forms.ChoiceField(
        label="Strategy",
        choices=[(name, _STRATEGY_LABELS.get(name, name)) for name in STRATEGIES],
        help_text="Where a document may be cut into pieces.",
    )
    size = forms.IntegerField(widget=_number(min=1))
    overlap = forms.IntegerField(widget=_number(min=0))
    failure_policy = forms.ChoiceField(
        label="A build in which documents failed",
        choices=[
            ("becomeCurrent", "becomes current, with the last readable revision of each"),
            ("holdBack", "is held back: what is searched stays as it is"),
        ],
        help_text="A document that failed and has no earlier revision is in no case searched.",
    )
    default_top_k = forms.IntegerField(label="Default top K", widget=_number(min=1, max=50))
    similarity_threshold = forms.FloatField(
        required=False, widget=_number(step="0.01", min=0, max=1)
    )
    max_context_length = forms.IntegerField(required=False, widget=_number(min=500, max=16000))
    rerank_enabled = forms.BooleanField(required=False, label="Reranking")
    diversity_enabled = forms.BooleanField(required=False, label="Diversity")
    settings_mode = forms.ChoiceField(
        choices=[(mode, mode) for mode in MODES],
        help_text=(
            "<b>recorded</b>: only Default top K is read, the others are kept and have no "
            "effect. <b>applied</b>: all of them act on every search."
        ),
    )

    def __init__(self, *args: Any, base: KnowledgeBase | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        limits = dict(EmbeddingModel.objects.values_list("name", "max_tokens"))
        self.fields["model"].choices = [  # type: ignore[attr-defined]
            (name, f"{name}, size up to {limits[name] - 2} tokens" if name in limits else name)
            for name in model_names()
        ]
        effect = (settings_of(base) if base else SearchSettings()).effect()
        self._help(limits[base.model.name if base else settings.EMBEDDING_MODEL] - 2, effect)

        remember_shown(self)

    def _help(self, most: int, effect: Mapping[str, str]) -> None:
        texts = {
            "model": (
                "Another model embeds every document again; search goes on meanwhile. The bundled "
                f"{DEFAULT_MODEL} is <b>English only</b>: other languages work, but little is "
                "found (nDCG@10 of 0.24 on a Chinese collection, where a multilingual model "
                "reaches 0.94). For those there is multilingual-e5-small, where "
                "requirements-multilingual.txt is installed."
            ),
            "size": f"1 to {most} tokens of the model: how long a piece may be.",
            "overlap": "0 to less than the size: how many tokens neighbouring pieces share.",
            "default_top_k": (
                "1 to 50, at most 25 are returned: how many passages when the caller does not say. "
                + _tag(effect["defaultTopK"])
            ),
            "similarity_threshold": (
                "0 to 1, empty for none: the floor when the caller does not say. "
                + _tag(effect["similarityThreshold"])
            ),
            "max_context_length": (
                "500 to 16,000 characters, empty for none: whole passages while they fit. "
                + _tag(effect["maxContextLength"])
            ),
            "rerank_enabled": (
                "Candidates are put into a better order; confidences stay. "
                + _tag(effect["rerankEnabled"])
            ),
            "diversity_enabled": (
                "Passages that repeat one ranked before them (overlaps, boilerplate) are left out. "
                + _tag(effect["diversityEnabled"])
            ),
        }
        for name, text in texts.items():
            self.fields[name].help_text = text

    @staticmethod
    def initial_of(base: KnowledgeBase | None) -> dict[str, Any]:
        """Return what the form shows of ``base`` as it is, or of a new one."""
        model = base.model.name if base else settings.EMBEDDING_MODEL
        base = base or KnowledgeBase()
        return {
            "name": base.name,
            "model": model,
            "strategy": base.chunking_strategy,
            "size": base.chunk_size,
            "overlap": base.chunk_overlap,
            "failure_policy": base.failure_policy,
            "default_top_k": base.default_top_k,
            "similarity_threshold": base.similarity_threshold,
            "max_context_length": base.max_context_length,
            "rerank_enabled": base.rerank_enabled,
            "diversity_enabled": base.diversity_enabled,
            "settings_mode": base.settings_mode,
        }

    def values(self) -> dict[str, Any]:
        """Return what was typed as the use cases take it."""
        typed = self.cleaned_data
        return {
            "name": typed["name"],
            "embeddingModel": typed["model"],
            "chunking": {
                "strategy": typed["strategy"],
                "size": typed["size"],
                "overlap": typed["overlap"],
            },
            "failurePolicy": typed["failure_policy"],
            "settings": {
                "defaultTopK": typed["default_top_k"],
                "similarityThreshold": typed["similarity_threshold"],
                "maxContextLength": typed["max_context_length"],
                "rerankEnabled": typed["rerank_enabled"],
                "diversityEnabled": typed["diversity_enabled"],
                "settingsMode": typed["settings_mode"],
            },
        }

    def changes(self) -> dict[str, Any]:
        """Return what was changed on the page, as the use cases take it."""
        values, changed = self.values(), set(self.changed_data)
        members = {
            "name": {"name"},
            "embeddingModel": {"model"},
            "chunking": {"strategy", "size", "overlap"},
            "failurePolicy": {"failure_policy"},
        }
        settings = {
            member: value
            for member, value in values["settings"].items()
            if KNOWLEDGE_BASE_FIELDS[f"settings.{member}"] in changed
        }
        return {
            **{member: values[member] for member, names in members.items() if names & changed},
            **({"settings": settings} if settings else {}),
        }


def _tag(effect: str) -> str:
    if effect == "read":
        return '<span class="registry-tag good">read</span>'
    return '<span class="registry-tag">only recorded, no effect in this mode</span>'


class ManyFilesInput(forms.ClearableFileInput):
    allow_multiple_selected = True


class UploadForm(forms.Form):
    """Several files at once. Each is a document of its own; the use case looks at each."""

    uploads = forms.Field(
        label="Files",
        widget=ManyFilesInput(),
        required=False,
        help_text="Several files at once: hold Ctrl, Shift or ⌘ while choosing.",
    )
    folder = forms.CharField(
        required=False,
        widget=widgets.AdminTextInputWidget(),
        help_text="Optional, put before each name: eu makes eu/refunds.pdf of refunds.pdf.",
    )
    replace = forms.BooleanField(
        required=False,
        label="Replace documents of the same name",
        help_text="Without it a name that is taken by other content is refused.",
    )
    metadata = JSONTextField(
        required=False,
        rows=3,
        help_text='Optional JSON object for each of the files: {"audience": "customers"}.',
    )


class DocumentForm(forms.Form):
    """Name, metadata, whether a document is in the next snapshot, and how it is cut."""

    name = forms.CharField(
        widget=widgets.AdminTextInputWidget(),
        help_text="1 to 500 characters, unique in the knowledge base; may contain “/”.",
    )
    metadata = JSONTextField(required=False, help_text="A JSON object; returned with passages.")
    enabled = forms.BooleanField(
        required=False,
        help_text="Switched off, it leaves the next snapshot and keeps its history.",
    )
    strategy = forms.ChoiceField(
        required=False,
        choices=[
            ("", "as its knowledge base"),
            *((name, _STRATEGY_LABELS.get(name, name)) for name in STRATEGIES),
        ],
        help_text="Where this document may be cut. A change embeds it anew, and no other.",
    )
    size = forms.IntegerField(
        required=False,
        widget=_number(min=1),
        help_text="In tokens of the model, empty: what suits the strategy.",
    )
    overlap = forms.IntegerField(
        required=False,
        widget=_number(min=0),
        help_text="In tokens, less than the size; empty: what suits the size.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        remember_shown(self)

    def clean(self) -> dict[str, Any]:
        typed: dict[str, Any] = super().clean() or self.cleaned_data
        if not typed.get("strategy"):
            for name in ("size", "overlap"):
                if typed.get(name) is not None:
                    self.add_error(name, "Choose a strategy first.")
        return typed

    def changes(self) -> dict[str, Any]:
        """Return what was changed on the page, as the use case takes it."""
        typed, changed = self.cleaned_data, set(self.changed_data)
        values = {
            "name": typed["name"],
            "metadata": {} if typed["metadata"] is None else typed["metadata"],
            "enabled": typed["enabled"],
        }
        found = {name: value for name, value in values.items() if name in changed}
        if changed & {"strategy", "size", "overlap"}:
            found["chunking"] = self.chunking()
        return found

    def chunking(self) -> dict[str, Any] | None:
        """Return the chunking of its own as the use case takes it; None: that of its base."""
        typed = self.cleaned_data
        if not typed["strategy"]:
            return None
        given = {name: typed[name] for name in ("strategy", "size", "overlap")}
        return {name: value for name, value in given.items() if value is not None}


class PurgeForm(forms.Form):
    """Why a document is erased, and that somebody means it."""

    reason = forms.CharField(
        widget=widgets.AdminTextareaWidget(attrs={"rows": 3}),
        max_length=LONGEST_REASON,
        help_text="Kept for ever, in the audit log too: write no word of what is to be erased.",
    )
    sure = forms.BooleanField(label="I know that this cannot be undone")


class ReplaceForm(forms.Form):
    """The next revision of a document."""

    file = forms.FileField(
        allow_empty_file=True,
        label="New content",
        help_text="Makes the next revision; earlier ones are kept. The document keeps its name.",
    )


class QuestionForm(forms.Form):
    """What the test box asks."""

    query = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 2, "class": "vLargeTextField"}),
        label="Question",
    )
    top_k = forms.IntegerField(
        required=False,
        label="Top K",
        widget=_number(min=1, max=50),
        help_text="1 to 50; empty: the knowledge base's default. Never more than 25.",
    )
    confidence_threshold = forms.FloatField(
        required=False,
        widget=_number(step="0.01", min=0, max=1),
        help_text="0 to 1; 0: no floor; empty: what the settings say, else 0.3.",
    )
    snapshot = forms.TypedChoiceField(
        required=False, coerce=int, empty_value=None, help_text="Which state of the documents."
    )
    answer = forms.BooleanField(
        required=False,
        initial=True,
        label="Let a model answer from the passages",
        help_text="It follows after the passages, and takes some seconds.",
    )

    def __init__(self, *args: Any, snapshots: Sequence[tuple[int, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["snapshot"].choices = [  # type: ignore[attr-defined]
            ("", "the current one"),
            *snapshots,
        ]

    def body(self) -> dict[str, Any]:
        """Return the question as a request would carry it."""
        typed = self.cleaned_data
        return {
            "query": typed["query"],
            "topK": typed["top_k"],
            "confidenceThreshold": typed["confidence_threshold"],
        }
