"""The pages of documents: the list, one document with its revisions, what was read out of it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.safestring import SafeString

from registry.admin_base import (
    actor_of,
    attempt,
    fieldsets,
    refusals_shown,
    require_permission,
    show_errors,
    tag,
)
from registry.admin_parts import PartAdmin
from registry.errors import RegistryError
from retrieval.admin.building import RetryButtons, StatusFilter
from retrieval.admin.forms import DOCUMENT_FIELDS, DocumentForm, PurgeForm, ReplaceForm
from retrieval.admin.revisions import comparison_context, segments_context
from retrieval.admin.standing import standing_of
from retrieval.admin.uploading import read_upload
from retrieval.document_states import DocumentState, document_states
from retrieval.documents import (
    Upload,
    delete_document,
    find_document,
    own_chunking,
    replace_document,
    update_document,
)
from retrieval.models import Document, DocumentRevision, KnowledgeBase
from retrieval.purging import purge_document, record_of

_MAY_PURGE = "retrieval.add_purge"
_ABOUT_PURGES = (
    "For what the law wants gone. The bytes, texts and vectors of all its revisions are erased, in "
    "every snapshot and for every published version, and cannot be brought back; a living document "
    "is deleted with it. Published versions go on answering without its passages, and say so. Its "
    "name, its metadata and all digests stay, and so does what has left this system: backups, "
    "exports, answers that were given."
)
_TAGS = {"indexed": "good", "extracted": "warn", "pending": "warn", "failed": "bad"}


class DeletedFilter(admin.SimpleListFilter):
    """Tombstones stay out of the list until they are asked for."""

    title = "deleted"
    parameter_name = "deleted"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "Deleted"), ("all", "All")]

    def choices(self, changelist: ChangeList) -> Any:
        found = list(super().choices(changelist))
        found[0]["display"] = "Not deleted"
        return found

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "all":
            return queryset
        return queryset.filter(deleted_at__isnull=self.value() != "yes")


class DocumentList(ChangeList):
    """A page of documents, each with its state: one more query for the page."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        states = document_states(self.result_list)
        for document in self.result_list:
            document.state = states.get(document.pk)


@admin.register(Document)
class DocumentAdmin(PartAdmin[Document], RetryButtons):
    object_type = "document"
    whole, whole_column, whole_tab = "knowledge_base", "base", ("documents", "Documents")
    change_list_template = "admin/retrieval/documents.html"
    list_display = ["name", "status", "revision", "page_total", "chunk_total", "on", "base"]
    list_filter = [StatusFilter, DeletedFilter, "enabled", "knowledge_base"]
    list_select_related = ["knowledge_base"]
    search_fields = ["name"]
    ordering = ["name"]
    actions = ["switch_off", "switch_on", "retry"]
    pages = [
        ("<path:object_id>/segments/", "segments_page"),
        ("<path:object_id>/compare/", "compare_page"),
        ("<path:object_id>/replace/", "replace_page"),
        ("<path:object_id>/purge/", "purge_page"),
        *RetryButtons.button_pages,
    ]
    tabs = [
        ("change", "Document"),
        ("segments", "Segments"),
        ("compare", "Compare revisions"),
        ("replace", "Replace content"),
        ("history", "Audit log"),
    ]

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Documents come in through the Upload tab of their knowledge base."""
        return False

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return DocumentList

    def whole_context(self, whole: KnowledgeBase) -> dict[str, Any]:
        return {**super().whole_context(whole), "standing": standing_of(whole), "original": whole}

    @admin.display(description="status")
    def status(self, document: Any) -> SafeString | str:
        if document.deleted_at is not None:
            return tag("deleted")
        return state_tag(document.state)

    @admin.display(description="revision")
    def revision(self, document: Any) -> Any:
        return document.state.revision if document.state else "–"

    @admin.display(description="pages")
    def page_total(self, document: Any) -> Any:
        return (document.state and document.state.pages) or "–"

    @admin.display(description="chunks")
    def chunk_total(self, document: Any) -> Any:
        return (document.state and document.state.chunks) or "–"

    @admin.display(description="switched on", boolean=True, ordering="enabled")
    def on(self, document: Document) -> bool:
        return document.enabled

    @admin.display(description="knowledge base", ordering="knowledge_base__name")
    def base(self, document: Document) -> str:
        return document.knowledge_base.name

    # -- actions on many -----------------------------------------------------------------------

    @admin.action(description="Switch off (from the next snapshot on)", permissions=["change"])
    def switch_off(self, request: HttpRequest, queryset: QuerySet[Document]) -> None:
        self._switch(request, queryset, enabled=False)

    @admin.action(description="Switch on", permissions=["change"])
    def switch_on(self, request: HttpRequest, queryset: QuerySet[Document]) -> None:
        self._switch(request, queryset, enabled=True)

    def _switch(self, request: HttpRequest, queryset: QuerySet[Document], *, enabled: bool) -> None:
        done = 0
        for document in queryset.select_related("knowledge_base"):
            try:
                update_document(
                    actor=actor_of(request),
                    base=document.knowledge_base,
                    document_id=document.pk,
                    enabled=enabled,
                )
            except RegistryError as error:
                messages.error(request, f"{document.name}: {error.detail}")
            else:
                done += 1
        word = "on" if enabled else "off"
        messages.success(request, f"Switched {word}: {done}. A new snapshot follows.")

    # -- one document --------------------------------------------------------------------------

    @refusals_shown
    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        document = self.found(request, object_id)
        own = own_chunking(document)
        initial = {
            "name": document.name,
            "metadata": document.metadata,
            "enabled": document.enabled,
            **(own.as_json() if own else {}),
        }
        form = DocumentForm(request.POST or None, initial=initial)
        if request.method == "POST":
            self.require(request, "change")
            find_document(document.knowledge_base, document.pk)  # refuses a tombstone
            if form.is_valid() and self._saved(request, document, form):
                return HttpResponseRedirect(self.url("change", document))
        return self.page(
            request,
            "retrieval/document.html",
            title=document.name,
            obj=document,
            tab="change",
            state=document_states([document]).get(document.pk),
            adminform=fieldsets(
                form,
                (None, ["name", "enabled", "metadata"], ""),
                ("Chunking of its own", ["strategy", "size", "overlap"], ""),
            ),
            revisions=_revisions(document),
            purge=(purge := record_of(document)),
            may_purge=purge is None and request.user.has_perm(_MAY_PURGE),
            may_change=self.may(request, "change") and document.deleted_at is None,
            may_delete=self.may(request, "delete") and document.deleted_at is None,
        )

    def _saved(self, request: HttpRequest, document: Document, form: DocumentForm) -> bool:
        try:
            update_document(
                actor=actor_of(request),
                base=document.knowledge_base,
                document_id=document.pk,
                **form.changes(),
            )
        except RegistryError as error:
            show_errors(form, error, DOCUMENT_FIELDS)
            return False
        messages.success(request, "The document is saved.")
        return True

    def replace_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        document = self.found(request, object_id, "change")
        form = ReplaceForm(request.POST or None, request.FILES or None)
        if form.is_valid():
            try:
                upload = Upload(name="", content=read_upload(form.cleaned_data["file"]))
                _, is_new = replace_document(
                    actor=actor_of(request),
                    base=document.knowledge_base,
                    document_id=document.pk,
                    upload=upload,
                )
            except RegistryError as error:
                form.add_error("file", error.detail)
            else:
                done = "The new revision is being indexed." if is_new else "These bytes are there."
                messages.success(request, done)
                return HttpResponseRedirect(self.url("change", document))
        return self.page(
            request,
            "registry/form.html",
            title="Replace content",
            obj=document,
            tab="replace",
            adminform=fieldsets(form, (None, ["file"], "")),
            submit="Replace",
            cancel_url=self.url("change", document),
        )

    def segments_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        document = self.found(request, object_id)
        return self.page(
            request,
            "retrieval/segments.html",
            title="Segments",
            obj=document,
            tab="segments",
            **segments_context(document, request.GET),
        )

    def compare_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        document = self.found(request, object_id)
        return self.page(
            request,
            "retrieval/compare.html",
            title="Compare revisions",
            obj=document,
            tab="compare",
            **comparison_context(document, request.GET),
        )

    @refusals_shown
    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        document = self.found(request, object_id, "delete")
        if request.method == "POST":
            attempt(
                request,
                lambda: delete_document(
                    actor=actor_of(request),
                    base=document.knowledge_base,
                    document_id=document.pk,
                ),
                f"Deleted {document.name}; it leaves the next snapshot.",
            )
            return HttpResponseRedirect(self.wholes.tab_url(document.knowledge_base, "documents"))
        return self.page(
            request,
            "registry/confirm.html",
            title=f"Delete {document.name}?",
            obj=document,
            lines=[
                "It leaves the next snapshot, and its name is free at once. Snapshots that hold it "
                "keep it, so published versions go on answering from it.",
                "Erasing its content for good is another act: Purge, on its page.",
            ],
            submit="Yes, delete it",
            cancel_url=self.url("change", document),
        )

    def purge_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        document = self.found(request, object_id)
        require_permission(request, _MAY_PURGE)
        form = PurgeForm(request.POST or None)
        if form.is_valid():
            try:
                purged = purge_document(
                    actor=actor_of(request),
                    base=document.knowledge_base,
                    document_id=document.pk,
                    reason=form.cleaned_data["reason"],
                )
            except RegistryError as error:
                show_errors(form, error, {"reason": "reason"})
            else:
                messages.success(
                    request,
                    f"The contents of {document.name} are erased (revisions: "
                    f"{len(purged.revisions)}, passages: {purged.chunks}).",
                )
                for copy in purged.copies:
                    messages.warning(
                        request,
                        f"The same bytes are in {copy.name} ({copy.document}), which is a document "
                        "of its own.",
                    )
                return HttpResponseRedirect(self.url("change", document))
        return self.page(
            request,
            "registry/form.html",
            title=f"Purge {document.name}",
            obj=document,
            tab="purge",
            introduction=_ABOUT_PURGES,
            adminform=fieldsets(form, (None, ["reason", "sure"], "")),
            submit="Erase its contents for good",
            danger=True,
            cancel_url=self.url("change", document),
        )


def state_tag(state: DocumentState | None) -> SafeString | str:
    """Return a document's status as a tag, with why it failed on hovering."""
    if state is None:
        return "–"
    error = state.error
    return tag(state.status, _TAGS[state.status], title=error["message"] if error else "")


def _revisions(document: Document) -> QuerySet[DocumentRevision]:
    return (
        document.revisions.defer("content")
        .annotate(purged=ExpressionWrapper(Q(content__isnull=True), output_field=BooleanField()))
        .prefetch_related("extractions")
        .order_by("-number")
    )
