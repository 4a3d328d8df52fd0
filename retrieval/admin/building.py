"""Buttons about builds: pause, resume, build again; and trying failed documents again."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from registry.admin_base import RegistryAdmin, actor_of, attempt
from registry.errors import RegistryError
from retrieval.build_control import pause_build, reindex, resume_build, retry_document
from retrieval.document_states import STATUSES, with_status
from retrieval.models import Document, KnowledgeBase


class BuildButtons(RegistryAdmin[KnowledgeBase]):
    """What a knowledge base's page can do about its builds."""

    button_pages = (
        ("<path:object_id>/reindex/", "reindex_page"),
        ("<path:object_id>/pause/", "pause_page"),
        ("<path:object_id>/resume/", "resume_page"),
    )

    def reindex_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        anew = "reextract" in request.POST
        return self._act(
            request,
            object_id,
            partial(reindex, reextract=anew),
            "A build was asked for; documents that failed are tried again"
            + (", and those that another extractor has read are read anew." if anew else "."),
        )

    def pause_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._act(
            request, object_id, pause_build, "Paused. What workers hold is finished and kept."
        )

    def resume_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._act(request, object_id, resume_build, "The build goes on where it stopped.")

    def _act(self, request: HttpRequest, object_id: str, use_case: Any, done: str) -> HttpResponse:
        base = self.found(request, object_id, "change")
        if request.method == "POST":
            attempt(request, lambda: use_case(actor=actor_of(request), base=base), done)
        return HttpResponseRedirect(self.url("change", base))


class StatusFilter(admin.SimpleListFilter):
    """Documents by where their newest revision stands."""

    title = "status"
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(status, status) for status in STATUSES]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() not in STATUSES:
            return queryset
        return with_status(queryset, str(self.value()))


class RetryButtons(RegistryAdmin[Document]):
    """Trying failed documents again: the one of a page, or those chosen in the list."""

    button_pages = (("<path:object_id>/retry/", "retry_page"),)

    def retry_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        document = self.found(request, object_id, "change")
        if request.method == "POST":
            attempt(
                request,
                lambda: retry_document(
                    actor=actor_of(request), base=document.knowledge_base, document=document
                ),
                "It is tried again by the build that follows.",
            )
        return HttpResponseRedirect(self.url("change", document))

    @admin.action(description="Try again what failed", permissions=["change"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Document]) -> None:
        done = 0
        for document in queryset.select_related("knowledge_base"):
            try:
                retry_document(
                    actor=actor_of(request), base=document.knowledge_base, document=document
                )
            except RegistryError as error:
                messages.error(request, error.detail)
            else:
                done += 1
        if done:
            messages.success(request, f"Tried again: {done}. A build follows.")
