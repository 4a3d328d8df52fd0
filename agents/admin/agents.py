"""The pages of an agent: overview, draft, trying a context, publishing, aliases, settings."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.core.paginator import Paginator
from django.db.models import Count, Max, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from agents.admin.drafts import ROWS, DraftEditor, with_another_row
from agents.admin.forms import (
    AGENT_FIELDS,
    ALIAS_FIELDS,
    AgentForm,
    AliasForm,
    NewAgentForm,
    PublishForm,
)
from agents.admin.previews import publication_of, try_context, versions_to_look_at
from agents.aliases import move_alias
from agents.coverage import coverage_of
from agents.drafting import create_agent, draft_of, update_agent
from agents.models import Agent, AgentVersion
from agents.publishing import OUTDATED, publish_draft
from agents.versions import DRAFT, choose_version, runnable
from registry.admin_base import (
    RegistryAdmin,
    SetFilter,
    access_of,
    actor_of,
    fieldsets,
    refusals_shown,
    require_permission,
    show_errors,
)
from registry.errors import RegistryError, StaleRevision

_MOVES_PER_PAGE = 50
_NOT_CONFIRMED = (
    "Changes are not yet in the snapshots. Wait for the build, or say below that it is meant."
)


class ArchivedFilter(SetFilter):
    title = "archived"
    field = "archived_at"
    words = ("Not archived", "Archived")
    parameter_name = "archived"


@admin.register(Agent)
class AgentAdmin(RegistryAdmin[Agent]):
    object_type = "agent"
    list_display = ["slug", "name", "newest_version", "alias_total", "draft", "archived"]
    list_filter = [ArchivedFilter]
    search_fields = ["slug", "name"]
    ordering = ["slug"]
    pages = [
        ("<path:object_id>/draft/", "draft_page"),
        ("<path:object_id>/context/", "context_page"),
        ("<path:object_id>/coverage/", "coverage_page"),
        ("<path:object_id>/publish/", "publish_page"),
        ("<path:object_id>/aliases/", "aliases_page"),
        ("<path:object_id>/settings/", "settings_page"),
    ]
    tabs = [
        ("change", "Overview"),
        ("draft", "Draft"),
        ("context", "Try a context"),
        ("coverage", "Coverage"),
        ("publish", "Publish"),
        ("versions", "Versions"),
        ("aliases", "Aliases"),
        ("settings", "Settings"),
        ("history", "Audit log"),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Agent]:
        drafts = AgentVersion.objects.filter(agent=OuterRef("pk"), state="draft")
        return (
            super()
            .get_queryset(request)
            .annotate(
                newest=Max("versions__number"),
                alias_count=Count("aliases", distinct=True),
                draft_revision=Subquery(drafts.values("revision")[:1]),
            )
        )

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Agent | None:
        """Find an agent by its id or its slug, which is what the audit log knows."""
        by_id = super().get_object(request, object_id, from_field)
        return by_id or self.get_queryset(request).filter(slug=object_id).first()

    def has_delete_permission(self, request: HttpRequest, obj: Agent | None = None) -> bool:
        """An agent is archived, never deleted."""
        return False

    def audit_id(self, obj: Agent) -> str:
        return obj.slug

    def tab_url(self, obj: Agent, name: str) -> str:
        if name != "versions":
            return super().tab_url(obj, name)
        query = urlencode({"agent__id__exact": obj.pk})
        return reverse("admin:agents_agentversion_changelist") + f"?{query}"

    @admin.display(description="newest version", ordering="newest")
    def newest_version(self, agent: Any) -> str:
        return f"v{agent.newest}" if agent.newest else "none yet"

    @admin.display(description="aliases", ordering="alias_count")
    def alias_total(self, agent: Any) -> int:
        return int(agent.alias_count)

    @admin.display(description="draft")
    def draft(self, agent: Any) -> SafeString:
        return format_html(
            '<a href="{}">revision {}</a>', self.url("draft", agent), agent.draft_revision
        )

    @admin.display(description="archived", boolean=True, ordering="archived_at")
    def archived(self, agent: Agent) -> bool:
        return agent.archived_at is not None

    # -- the agent itself ----------------------------------------------------------------------

    @refusals_shown
    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        self.require(request, "add")
        form = NewAgentForm(request.POST or None)
        if form.is_valid():
            typed = form.cleaned_data
            values = {"slug": typed["slug"], **({"name": typed["name"]} if typed["name"] else {})}
            try:
                agent = create_agent(actor=actor_of(request), values=values)
            except RegistryError as error:
                show_errors(form, error, AGENT_FIELDS)
            else:
                messages.success(request, f"Agent {agent.slug} was created. Now write its draft.")
                return HttpResponseRedirect(self.url("draft", agent))
        return self.page(
            request,
            "registry/form.html",
            title="Add agent",
            adminform=fieldsets(form, (None, ["slug", "name"], "")),
            submit="Create",
            cancel_url=self.url("changelist"),
        )

    @refusals_shown
    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        agent = self.found(request, object_id)
        return self.page(
            request,
            "agents/agent.html",
            title=agent.slug,
            obj=agent,
            tab="change",
            draft=draft_of(agent),
            publication=publication_of(agent),
            aliases=agent.aliases.select_related("version"),
            versions=agent.versions.filter(state="published").order_by("-number")[:10],
        )

    def settings_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        agent = self.found(request, object_id, "change")
        form = AgentForm(
            request.POST or None,
            initial={"name": agent.name, "archived": agent.archived_at is not None},
        )
        if form.is_valid():
            try:
                update_agent(actor=actor_of(request), agent=agent, values=form.changes())
            except RegistryError as error:
                show_errors(form, error, AGENT_FIELDS)
            else:
                messages.success(request, "The agent is saved.")
                return HttpResponseRedirect(self.url("change", agent))
        return self.page(
            request,
            "registry/form.html",
            title="Settings",
            obj=agent,
            tab="settings",
            adminform=fieldsets(form, (None, ["name", "archived"], "")),
            cancel_url=self.url("change", agent),
        )

    # -- its draft -----------------------------------------------------------------------------

    def draft_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        agent = self.found(request, object_id)
        if request.method == "POST":
            self.require(request, "change")
        adds = request.POST.get("add", "")
        if adds in ROWS:
            editor = DraftEditor(agent, with_another_row(request.POST, adds))
        elif request.method == "POST":
            editor = DraftEditor(agent, request.POST)
            before = editor.draft.revision
            draft = editor.save(access_of(request), request.POST.get("over"))
            if draft is not None:
                saved = f"The draft is saved as revision {draft.revision}."
                messages.success(
                    request, saved if draft.revision != before else "Nothing had changed."
                )
                return HttpResponseRedirect(self.url("draft", agent))
        else:
            editor = DraftEditor(agent)
        return self.page(
            request,
            "agents/draft.html",
            title="Draft",
            obj=agent,
            tab="draft",
            editor=editor,
            adding=adds in ROWS,
            may_change=self.may(request, "change") and agent.archived_at is None,
            adminform=fieldsets(editor.form, (None, ["prompt", "model", "parameters"], "")),
            warnings=editor.warnings() if request.method == "GET" else {},
        )

    def context_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        agent = self.found(request, object_id)
        form, answer = try_context(agent, access_of(request), request.POST or None)
        return self.page(
            request,
            "agents/context.html",
            title="Try a context",
            obj=agent,
            tab="context",
            adminform=fieldsets(form, (None, ["context", "version"], "")),
            answer=answer,
            submit="Which knowledge bases apply?",
        )

    def coverage_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        agent = self.found(request, object_id)
        versions, chosen = versions_to_look_at(agent), request.GET.get("version", DRAFT)
        version = choose_version(agent, {"version": chosen}, access_of(request))
        ready = runnable(agent, version)
        return self.page(
            request,
            "agents/coverage.html",
            title="Coverage",
            obj=agent,
            tab="coverage",
            versions=versions,
            chosen=chosen,
            coverage=coverage_of(ready.configuration, ready.names),
            names={str(base_id): name for base_id, name in ready.names.items()},
        )

    # -- publishing ----------------------------------------------------------------------------

    def publish_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        agent = self.found(request, object_id)
        require_permission(request, "agents.add_agentversion")
        publication = publication_of(agent)
        outdated = publication.outdated
        initial = {"revision": str(publication.revision)}
        form = PublishForm(request.POST or None, initial=initial)
        if form.is_valid():
            typed = form.cleaned_data
            try:
                version = publish_draft(
                    actor=actor_of(request),
                    agent=agent,
                    notes=typed["notes"],
                    accept_outdated=typed["accept_outdated"],
                    expected_revision=typed["revision"],
                )
            except StaleRevision:
                messages.error(
                    request, "The draft was edited since this page was opened: look at it again."
                )
                return HttpResponseRedirect(self.url("publish", agent))
            except RegistryError as error:
                outdated = outdated or error.code == OUTDATED
                form.add_error(None, _NOT_CONFIRMED if error.code == OUTDATED else error.detail)
            else:
                messages.success(request, f"Version {version.number} is published.")
                return HttpResponseRedirect(
                    reverse("admin:agents_agentversion_change", args=[quote(version.pk)])
                )
        fields = ["revision", "notes"]
        if outdated:
            fields.append("accept_outdated")
        return self.page(
            request,
            "agents/publish.html",
            title="Publish",
            obj=agent,
            tab="publish",
            adminform=fieldsets(form, (None, fields, "")),
            publication=publication,
            submit=f"Publish as version {publication.next_number}",
            cancel_url=self.url("draft", agent),
        )

    def aliases_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        agent = self.found(request, object_id)
        published = agent.versions.filter(state="published").order_by("-number")
        numbers = [version.number or 0 for version in published.only("number")]
        form = AliasForm(numbers=numbers)
        if request.method == "POST":
            require_permission(request, "agents.change_alias")
            form = AliasForm(request.POST, numbers=numbers)
            if self._moved(request, agent, form):
                return HttpResponseRedirect(self.url("aliases", agent))
        return self.page(
            request,
            "agents/aliases.html",
            title="Aliases",
            obj=agent,
            tab="aliases",
            aliases=agent.aliases.select_related("version"),
            numbers=numbers,
            adminform=fieldsets(form, (None, ["name", "version"], "")),
            moves=Paginator(agent.alias_moves.all(), _MOVES_PER_PAGE).get_page(
                request.GET.get("p")
            ),
        )

    def _moved(self, request: HttpRequest, agent: Agent, form: AliasForm) -> bool:
        if not form.is_valid():
            return False
        typed = form.cleaned_data
        expected = typed["expected"]
        try:
            move_alias(
                actor=actor_of(request),
                agent=agent,
                name=typed["name"],
                number=typed["version"],
                expected=expected,
            )
        except RegistryError as error:
            show_errors(form, error, ALIAS_FIELDS)
            return False
        messages.success(request, f"Alias {typed['name']} points to version {typed['version']}.")
        return True
