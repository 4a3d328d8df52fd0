"""Traces and embedding models: made by the system, only looked at here."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from registry.admin_base import ReadOnlyAdmin, refusals_shown
from retrieval.models import EmbeddingModel, Trace
from retrieval.replaying import replayed
from retrieval.traces import described_with_texts, flush_traces


@admin.register(Trace)
class TraceAdmin(ReadOnlyAdmin[Trace]):
    list_display = ["at", "kind", "agent_slug", "version", "api_key_name", "conversation_id"]
    list_filter = ["kind"]
    search_fields = ["=agent_slug", "=conversation_id", "=receipt", "=api_key_name"]
    search_help_text = "An agent's slug, a conversation's id, an API key's name or a receipt."
    ordering = ["-at", "id"]
    pages = [("<path:object_id>/replay/", "replay_page")]

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
        return self._trace_page(request, self.found(request, object_id))

    def replay_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask again what the trace says was asked, and show what came of it."""
        trace = self.found(request, object_id)
        if request.method != "POST":
            return HttpResponseRedirect(self.url("change", trace))
        replay = replayed(trace)
        difference = replay.get("firstDifference", {})
        return self._trace_page(
            request,
            trace,
            replay=replay,
            **{
                name: json.dumps(difference.get(name), ensure_ascii=False, indent=2)
                for name in ("expected", "found")
            },
        )

    def _trace_page(self, request: HttpRequest, trace: Trace, **context: Any) -> HttpResponse:
        return self.page(
            request,
            "retrieval/trace.html",
            title=self.display(trace),
            obj=trace,
            tab="change",
            trace=described_with_texts(trace),
            version=self.version(trace),
            **context,
        )


@admin.register(EmbeddingModel)
class EmbeddingModelAdmin(ReadOnlyAdmin[EmbeddingModel]):
    list_display = ["name", "dimensions", "max_tokens", "fingerprint"]
    fields = ["name", "dimensions", "max_tokens", "fingerprint"]
