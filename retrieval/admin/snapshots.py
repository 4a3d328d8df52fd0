"""The pages of snapshots: looked at, never changed; a running build can be cancelled."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.defaultfilters import filesizeformat
from django.utils.safestring import SafeString

from registry.admin_base import ReadOnlyAdmin, actor_of, attempt, refusals_shown, tag
from registry.admin_parts import PartAdmin
from retrieval.build_control import cancel_build
from retrieval.chunking import Chunking
from retrieval.models import IndexSnapshot
from retrieval.pins import grouped_holders
from retrieval.pruning import Keep
from retrieval.sizes import snapshot_bytes

_MEMBERS_PER_PAGE = 100
_TAGS = {"ready": "good", "building": "warn", "failed": "bad"}


class SnapshotList(ChangeList):
    """A page of snapshots, each with its size: one more query for the page."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        sizes = snapshot_bytes([snapshot.pk for snapshot in self.result_list])
        for snapshot in self.result_list:
            snapshot.bytes = sizes[snapshot.pk]


@admin.register(IndexSnapshot)
class IndexSnapshotAdmin(PartAdmin[IndexSnapshot], ReadOnlyAdmin[IndexSnapshot]):
    object_type = "knowledge_base"
    whole, whole_column, whole_tab = "knowledge_base", "base", ("snapshots", "Snapshots")
    list_display = [
        "number_of",
        "state_of",
        "documents",
        "chunks",
        "size",
        "held_by",
        "started_at",
        "base",
    ]
    list_filter = ["state", "knowledge_base"]
    list_select_related = ["knowledge_base"]
    ordering = ["-started_at"]
    pages = [("<path:object_id>/cancel/", "cancel_page")]

    def get_queryset(self, request: HttpRequest) -> QuerySet[IndexSnapshot]:
        return super().get_queryset(request).prefetch_related("pins")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return SnapshotList

    def audit_id(self, obj: IndexSnapshot) -> str:
        return str(obj.knowledge_base_id)

    def display(self, obj: IndexSnapshot) -> str:
        return f"Snapshot {obj.number}"

    @admin.display(description="number", ordering="number")
    def number_of(self, snapshot: IndexSnapshot) -> str:
        current = snapshot.knowledge_base.current_snapshot_id == snapshot.pk
        return f"#{snapshot.number} (current)" if current else f"#{snapshot.number}"

    @admin.display(description="knowledge base", ordering="knowledge_base__name")
    def base(self, snapshot: IndexSnapshot) -> str:
        return snapshot.knowledge_base.name

    @admin.display(description="state", ordering="state")
    def state_of(self, snapshot: IndexSnapshot) -> SafeString:
        return tag(snapshot.state, _TAGS.get(snapshot.state, ""), title=snapshot.detail)

    @admin.display(description="documents", ordering="document_count")
    def documents(self, snapshot: IndexSnapshot) -> str:
        failed = f", {snapshot.failed_count} failed" if snapshot.failed_count else ""
        return f"{snapshot.document_count}{failed}"

    @admin.display(description="chunks", ordering="chunk_count")
    def chunks(self, snapshot: IndexSnapshot) -> int:
        return snapshot.chunk_count

    @admin.display(description="size")
    def size(self, snapshot: Any) -> str:
        return filesizeformat(snapshot.bytes)

    @admin.display(description="held by")
    def held_by(self, snapshot: IndexSnapshot) -> str:
        held = grouped_holders(pin.holder_label for pin in snapshot.pins.all())
        return "; ".join(held) or "–"

    @refusals_shown
    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        snapshot = self.found(request, object_id)
        members = snapshot.members.select_related("indexed_document").order_by("name")
        return self.page(
            request,
            "retrieval/snapshot.html",
            title=f"Snapshot {snapshot.number} of {snapshot.knowledge_base.name}",
            obj=snapshot,
            tab="change",
            chunking=Chunking.from_recipe(snapshot.chunking),
            members=Paginator(members, _MEMBERS_PER_PAGE).get_page(request.GET.get("p")),
            held_by=grouped_holders(pin.holder_label for pin in snapshot.pins.all()),
            keep=Keep.configured(),
            bytes=snapshot_bytes([snapshot.pk])[snapshot.pk],
            may_cancel=snapshot.state == "building"
            and request.user.has_perm("retrieval.change_knowledgebase"),
        )

    def cancel_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        snapshot = self.found(request, object_id)
        base = snapshot.knowledge_base
        self.wholes.require(request, "change")
        if request.method == "POST":
            attempt(
                request,
                lambda: cancel_build(actor=actor_of(request), base=base, number=snapshot.number),
                f"The build of snapshot {snapshot.number} was cancelled; what is searched stays.",
            )
        return HttpResponseRedirect(self.wholes.url("change", base))
