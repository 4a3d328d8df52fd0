"""Traces and embedding models: made by the system, only looked at here."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from registry.admin_base import ReadOnlyAdmin, refusals_shown
from retrieval.models import EmbeddingModel, Trace
from retrieval.traces import described_with_texts, flush_traces


@admin.register(Trace)
class TraceAdmin(ReadOnlyAdmin[Trace]):
    list_display = ["at", "kind", "agent_slug", "version", "api_key_name", "conversation_id"]
    list_filter = ["kind"]
    search_fields = ["=agent_slug", "=conversation_id", "=receipt", "=api_key_name"]
    search_help_text = "An agent's slug, a conversation's id, an API key's name or a receipt."
    ordering = ["-at", "id"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Trace]:
        flush_traces()
        return super().get_queryset(request)

    @admin.display(description="version")
    def version(self, trace: Trace) -> str:
        if trace.version_number is None:
            return f"draft, revision {trace.draft_revision}"
        return f"v{trace.version_number}"

    def display(self, obj: Trace) -> str:
        return f"{obj.get_kind_display()} of {obj.agent_slug}, {obj.at:%Y-%m-%d %H:%M:%S}"

    @refusals_shown
    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        trace = self.found(request, object_id)
        return self.page(
            request,
            "retrieval/trace.html",
            title=self.display(trace),
            obj=trace,
            tab="change",
            trace=described_with_texts(trace),
            version=self.version(trace),
        )


@admin.register(EmbeddingModel)
class EmbeddingModelAdmin(ReadOnlyAdmin[EmbeddingModel]):
    list_display = ["name", "dimensions", "max_tokens", "fingerprint"]
    fields = ["name", "dimensions", "max_tokens", "fingerprint"]
