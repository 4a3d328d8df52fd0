"""The pages of a knowledge base: overview with the build's progress, settings, upload, test box."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
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
from registry.errors import RegistryError
from retrieval.admin.building import BuildButtons
from retrieval.admin.chunk_previews import PreviewForm, shown_chunks
from retrieval.admin.evaluation import EvaluationPages
from retrieval.admin.forms import KNOWLEDGE_BASE_FIELDS, KnowledgeBaseForm, UploadForm
from retrieval.admin.standing import standing_of
from retrieval.admin.test_box import Cancellable, asked
from retrieval.admin.uploading import upload_files
from retrieval.answering import answer_model
from retrieval.knowledge_bases import (
    create_knowledge_base,
    delete_knowledge_base,
    update_knowledge_base,
)
from retrieval.models import IndexSnapshot, KnowledgeBase
from retrieval.pins import holders_of

_FORM_GROUPS = (
    (None, ["name", "model"], ""),
    (
        "Chunking",
        ["strategy", "size", "overlap"],
        "How documents are cut into the pieces that a search returns. A change starts a build; "
        "until it is ready the knowledge base is searched as it was, and published versions for "
        "ever.",
    ),
    (
        "Builds",
        ["failure_policy"],
        "A build makes the next snapshot. Documents that fail are listed on the overview with why, "
        "and can be tried again there.",
    ),
    (
        "Search settings",
        [
            "settings_mode",
            "default_top_k",
            "similarity_threshold",
            "max_context_length",
            "rerank_enabled",
            "diversity_enabled",
        ],
        "Each says whether it is read or only recorded. Published versions keep the settings that "
        "they were published with.",
    ),
)


@admin.register(KnowledgeBase)
class KnowledgeBaseAdmin(BuildButtons, EvaluationPages):
    object_type = "knowledge_base"
    list_display = ["name", "build", "document_total", "searched", "model", "settings_mode"]
    list_select_related = ["model", "current_snapshot"]
    search_fields = ["name"]
    ordering = ["name"]
    pages = [
        ("<path:object_id>/build/", "build_page"),
        ("<path:object_id>/settings/", "settings_page"),
        ("<path:object_id>/upload/", "upload_page"),
        ("<path:object_id>/test-box/", "test_box_page"),
        ("<path:object_id>/test-box/answer/", "test_box_answer_page"),
        *BuildButtons.button_pages,
        *EvaluationPages.evaluation_pages,
    ]
    tabs = [
        ("change", "Overview"),
        ("documents", "Documents"),
        ("upload", "Upload"),
        ("test_box", "Test box"),
        ("evaluation", "Evaluation"),
        ("snapshots", "Snapshots"),
        ("settings", "Settings"),
        ("history", "Audit log"),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[KnowledgeBase]:
        building = IndexSnapshot.objects.filter(knowledge_base=OuterRef("pk"), state="building")
        return (
            super()
            .get_queryset(request)
            .annotate(
                living=Count("documents", filter=Q(documents__deleted_at__isnull=True)),
                is_building=Exists(building),
            )
        )

    def tab_url(self, obj: KnowledgeBase, name: str) -> str:
        models = {"documents": "document", "snapshots": "indexsnapshot"}
        if name not in models:
            return super().tab_url(obj, name)
        query = urlencode({"knowledge_base__id__exact": obj.pk})
        return reverse(f"admin:retrieval_{models[name]}_changelist") + f"?{query}"

    @admin.display(description="documents", ordering="living")
    def document_total(self, base: Any) -> int:
        return int(base.living)

    @admin.display(description="searched snapshot")
    def searched(self, base: KnowledgeBase) -> str:
        snapshot = base.current_snapshot
        return f"#{snapshot.number}, {snapshot.chunk_count:,} chunks" if snapshot else "none yet"

    @admin.display(description="build")
    def build(self, base: Any) -> SafeString:
        if base.build_paused:
            return tag("paused", "warn")
        if base.is_building:
            return tag("building", "warn")
        if base.content_revision != base.settled_revision:
            return tag("waiting", "warn")
        if base.content_revision != base.shown_revision:
            return tag("not up to date", "bad")
        return tag("up to date", "good")

    # -- creating and changing -----------------------------------------------------------------

    @refusals_shown
    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        self.require(request, "add")
        form = KnowledgeBaseForm(request.POST or None, initial=KnowledgeBaseForm.initial_of(None))
        if form.is_valid():
            try:
                base = create_knowledge_base(actor=actor_of(request), values=form.values())
            except RegistryError as error:
                show_errors(form, error, KNOWLEDGE_BASE_FIELDS)
            else:
                messages.success(
                    request, f"Knowledge base {base.name} was created. Now upload its documents."
                )
                return HttpResponseRedirect(self.url("upload", base))
        return self.page(
            request,
            "registry/form.html",
            title="Add knowledge base",
            adminform=fieldsets(form, *_FORM_GROUPS),
            submit="Create",
            cancel_url=self.url("changelist"),
        )

    def settings_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Change a base, or show the chunks that the typed values would give."""
        base = self.found(request, object_id, "change")
        form = KnowledgeBaseForm(
            request.POST or None, initial=KnowledgeBaseForm.initial_of(base), base=base
        )
        preview_form = PreviewForm(request.POST or None, base=base)
        preview = None
        if form.is_valid() and preview_form.is_valid():
            try:
                if "_preview" in request.POST:
                    preview = preview_form.preview(form.values())
                else:
                    update_knowledge_base(
                        actor=actor_of(request), knowledge_base_id=base.pk, values=form.changes()
                    )
                    messages.success(request, "The settings are saved.")
                    return HttpResponseRedirect(self.url("change", base))
            except RegistryError as error:
                show_errors(form, error, KNOWLEDGE_BASE_FIELDS)
        return self.page(
            request,
            "retrieval/settings.html",
            title="Settings",
            obj=base,
            tab="settings",
            adminform=fieldsets(form, *_FORM_GROUPS),
            preview_fields=fieldsets(
                preview_form, ("Preview of the chunks", ["preview_document"], "")
            ),
            preview=preview,
            shown_chunks=shown_chunks(preview),
            cancel_url=self.url("change", base),
        )

    # -- looking -------------------------------------------------------------------------------

    @refusals_shown
    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        base = self.found(request, object_id)
        return self.page(
            request,
            "retrieval/knowledge_base.html",
            title=base.name,
            obj=base,
            tab="change",
            standing=standing_of(base),
            holders=holders_of(base),
            may_change=self.may(request, "change"),
            may_delete=self.may(request, "delete"),
        )

    def build_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return the progress panel alone: what the page's script asks for again and again."""
        base = self.found(request, object_id)
        return TemplateResponse(
            request,
            "admin/retrieval/build_panel.html",
            {"standing": standing_of(base), "original": base},
        )

    def test_box_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        base = self.found(request, object_id)
        now = "now" in request.POST
        form, answer = asked(base, request.POST or None, answer=now)
        return self.page(
            request,
            "retrieval/test_box.html",
            title="Test box",
            obj=base,
            tab="test_box",
            adminform=fieldsets(
                form,
                (None, ["query", ("top_k", "confidence_threshold"), "snapshot", "answer"], ""),
            ),
            answer=answer,
            follows=answer is not None and not now and form.cleaned_data["answer"],
            model=answer_model(),
            submit="Ask",
        )

    def test_box_answer_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return a model's answer alone, which the page's script asks for once passages are shown."""
        base = self.found(request, object_id)
        waiting = Cancellable.of(request.user.pk, request.POST.get("token", ""))
        if "cancel" in request.POST:
            waiting.cancel()
            return HttpResponse(status=204)
        form, answer = asked(base, request.POST, answer=True, is_cancelled=waiting.is_cancelled)
        return TemplateResponse(
            request,
            "admin/retrieval/answer_panel.html",
            {
                "written": answer.written if answer else None,
                "errors": form.errors,
                "model": answer_model(),
            },
        )

    # -- acting --------------------------------------------------------------------------------

    def upload_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        base = self.found(request, object_id)
        require_permission(request, "retrieval.add_document")
        form = UploadForm(request.POST or None, request.FILES or None)
        outcomes = None
        if form.is_valid():
            files = request.FILES.getlist("uploads")
            if files:
                outcomes = upload_files(actor_of(request), base, files, form)
                base.refresh_from_db()
                form = UploadForm(initial={"folder": form.cleaned_data["folder"]})
            else:
                form.add_error("uploads", "Choose at least one file.")
        return self.page(
            request,
            "retrieval/upload.html",
            title="Upload documents",
            obj=base,
            tab="upload",
            adminform=fieldsets(form, (None, ["uploads", "folder", "replace", "metadata"], "")),
            submit="Upload",
            outcomes=outcomes,
            standing=standing_of(base),
        )

    @refusals_shown
    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        base = self.found(request, object_id, "delete")
        if request.method == "POST":
            deleted = attempt(
                request,
                lambda: delete_knowledge_base(actor=actor_of(request), knowledge_base_id=base.pk),
                f"Deleted {base.name} with everything in it.",
            )
            return HttpResponseRedirect(
                self.url("changelist") if deleted else self.url("change", base)
            )
        held = holders_of(base)
        return self.page(
            request,
            "registry/confirm.html",
            title=f"Delete {base.name}?",
            obj=base,
            lines=[
                "It goes with all documents, revisions, snapshots and vectors. This cannot be "
                "undone.",
                *([f"It is in use by {', '.join(held)}: this will be refused."] if held else []),
            ],
            submit="Yes, delete everything in it",
            cancel_url=self.url("change", base),
        )
