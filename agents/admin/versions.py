"""The pages of published versions: looked at, never changed; one can be restored into the draft."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from agents.admin.previews import shown_changes
from agents.configuration import configuration_of
from agents.drafting import draft_of
from agents.models import AgentVersion
from agents.rendering import render_version
from agents.restoring import restore_version
from agents.versions import HOLDER_KIND
from registry.admin_base import (
    ReadOnlyAdmin,
    access_of,
    actor_of,
    refusals_shown,
    require_permission,
)
from registry.admin_parts import PartAdmin
from registry.errors import RegistryError
from retrieval.pins import pinned_snapshots


@admin.register(AgentVersion)
class AgentVersionAdmin(PartAdmin[AgentVersion], ReadOnlyAdmin[AgentVersion]):
    object_type = "agent"
    whole, whole_column, whole_tab = "agent", "agent", ("versions", "Versions")
    list_display = ["number_of", "agent", "published_at", "published_by", "notes_of", "short"]
    list_display_links = ["number_of"]
    list_filter = ["agent"]
    list_select_related = ["agent"]
    search_fields = ["=agent__slug", "notes", "=digest", "=published_by"]
    search_help_text = "An agent's slug, words of the notes, a digest or who published it."
    ordering = ["-published_at"]
    pages = [("<path:object_id>/restore/", "restore_page")]

    def get_queryset(self, request: HttpRequest) -> QuerySet[AgentVersion]:
        """Leave drafts out: they are a page of their agent."""
        return super().get_queryset(request).filter(state="published")

    def audit_id(self, obj: AgentVersion) -> str:
        return obj.agent.slug

    def display(self, obj: AgentVersion) -> str:
        return f"Version {obj.number}"

    @admin.display(description="version", ordering="number")
    def number_of(self, version: AgentVersion) -> str:
        return f"v{version.number}"

    @admin.display(description="notes")
    def notes_of(self, version: AgentVersion) -> str:
        return version.notes if len(version.notes) <= 80 else version.notes[:79] + "…"

    @admin.display(description="digest")
    def short(self, version: AgentVersion) -> str:
        return version.digest.removeprefix("sha256:")[:12]

    @refusals_shown
    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        draft = AgentVersion.objects.filter(state="draft", pk__in=_uuids(object_id)).first()
        if draft is not None:
            return HttpResponseRedirect(self.wholes.url("draft", draft.agent))
        version = self.found(request, object_id)
        before = version.agent.versions.filter(number=(version.number or 0) - 1).first()
        snapshots = pinned_snapshots(holder_kind=HOLDER_KIND, holder_id=version.pk)
        rendered = render_version(version.agent, version)
        names = {base["id"]: base["name"] for base in rendered["knowledgeBases"]}
        return self.page(
            request,
            "agents/version.html",
            title=f"{version.agent.slug} v{version.number}",
            obj=version,
            tab="change",
            configuration=configuration_of(version),
            names=names,
            pinned=[
                {**base, "row": snapshots[UUID(base["id"])]} for base in rendered["knowledgeBases"]
            ],
            manifest=json.loads(version.manifest),
            aliases=version.aliases.order_by("name"),
            before=before,
            changes=shown_changes(version.agent, before, version) if before else [],
            may_restore=request.user.has_perm("agents.add_agentversion"),
        )

    def restore_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask, then make the draft a copy of a version."""
        version = self.found(request, object_id)
        require_permission(request, "agents.add_agentversion")
        agent = version.agent
        if request.method == "POST":
            try:
                restore_version(
                    actor=actor_of(request),
                    access=access_of(request),
                    agent=agent,
                    number=version.number or 0,
                    expected_revision=request.POST.get("revision"),
                )
            except RegistryError as error:
                messages.error(request, error.detail)
                return HttpResponseRedirect(self.url("restore", version))
            messages.success(request, f"The draft is a copy of version {version.number} now.")
            return HttpResponseRedirect(self.wholes.url("draft", agent))
        revision = draft_of(agent).revision
        return self.page(
            request,
            "registry/confirm.html",
            title=f"Restore version {version.number} into the draft?",
            obj=version,
            hidden={"revision": revision},
            lines=[
                f"The draft (revision {revision}) becomes a copy of version {version.number}. "
                "Nothing is published by this, and no version changes.",
            ],
            submit="Yes, replace the draft",
            cancel_url=self.url("change", version),
        )


def _uuids(object_id: str) -> list[UUID]:
    try:
        return [UUID(unquote(object_id))]
    except ValueError:
        return []
