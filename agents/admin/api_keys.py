"""The pages of API keys: made (shown once), looked at, revoked.

They stand here and not in ``registry.admin`` because a key is limited to agents and knowledge
bases, and this is where both are known.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.safestring import SafeString

from agents.admin.forms import KEY_FIELDS, ApiKeyForm
from agents.models import Agent
from registry.access import create_api_key, revoke_api_key
from registry.admin_base import (
    RegistryAdmin,
    SetFilter,
    actor_of,
    attempt,
    fieldsets,
    refusals_shown,
    show_errors,
    tag,
)
from registry.errors import RegistryError
from registry.models import ApiKey
from retrieval.models import KnowledgeBase


class RevokedFilter(SetFilter):
    title = "state"
    field = "revoked_at"
    words = ("Active", "Revoked")
    parameter_name = "state"


@admin.register(ApiKey)
class ApiKeyAdmin(RegistryAdmin[ApiKey]):
    object_type = "api_key"
    list_display = ["name", "scope", "reach", "prefix", "created_at", "state"]
    list_filter = ["scope", RevokedFilter]
    search_fields = ["name", "prefix"]
    ordering = ["name"]
    pages = [("<path:object_id>/revoke/", "revoke_page")]

    def has_delete_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        """A key is revoked, never deleted."""
        return False

    def display(self, obj: ApiKey) -> str:
        return obj.name

    @admin.display(description="reaches")
    def reach(self, key: ApiKey) -> str:
        if key.all_agents:
            return "all agents"
        return ", ".join(key.agent_slugs) or "no agent"

    @admin.display(description="state", ordering="revoked_at")
    def state(self, key: ApiKey) -> SafeString:
        return tag("active", "good") if key.revoked_at is None else tag("revoked", "bad")

    @refusals_shown
    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        self.require(request, "add")
        bases = KnowledgeBase.objects.order_by("name").values_list("pk", "name")
        form = ApiKeyForm(
            request.POST or None,
            agents=[(slug, slug) for slug in Agent.objects.values_list("slug", flat=True)],
            bases=[(str(pk), name) for pk, name in bases],
        )
        if form.is_valid():
            typed = form.cleaned_data
            everything = typed["all_agents"]
            try:
                key = create_api_key(
                    actor=actor_of(request),
                    name=typed["name"],
                    scope=typed["scope"],
                    agents=None if everything else typed["agents"],
                    knowledge_bases=[] if everything else map(UUID, typed["knowledge_bases"]),
                )
            except RegistryError as error:
                show_errors(form, error, KEY_FIELDS)
            else:
                return self._shown_once(request, key, typed["name"])
        return self.page(
            request,
            "registry/form.html",
            title="Add API key",
            adminform=fieldsets(
                form,
                (None, ["name", "scope"], ""),
                ("What it reaches", ["all_agents", "agents", "knowledge_bases"], ""),
            ),
            submit="Create the key",
            cancel_url=self.url("changelist"),
        )

    def _shown_once(self, request: HttpRequest, key: str, name: str) -> HttpResponse:
        """Show a new key in the answer itself: it is stored nowhere, so no page can show it again."""
        return self.page(request, "agents/new_key.html", title=f"The key of {name}", key=key)

    @refusals_shown
    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        key = self.found(request, object_id)
        bases = KnowledgeBase.objects.filter(pk__in=key.knowledge_base_ids).order_by("name")
        return self.page(
            request,
            "agents/api_key.html",
            title=key.name,
            obj=key,
            tab="change",
            bases=bases,
            may_revoke=self.may(request, "change") and key.revoked_at is None,
        )

    def revoke_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask, then revoke a key for ever."""
        key = self.found(request, object_id, "change")
        if request.method == "POST":
            attempt(
                request,
                lambda: revoke_api_key(actor=actor_of(request), key_id=key.pk),
                f"The key {key.name} is revoked; within two seconds nobody gets in with it.",
            )
            return HttpResponseRedirect(self.url("change", key))
        return self.page(
            request,
            "registry/confirm.html",
            title=f"Revoke {key.name}?",
            obj=key,
            lines=["Whoever uses this key is refused from now on. This cannot be undone."],
            submit="Yes, revoke it",
            cancel_url=self.url("change", key),
        )
