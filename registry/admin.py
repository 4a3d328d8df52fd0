"""The admin of the foundation: the audit log, and accounts whose changes are in it too.

API keys are limited to agents and knowledge bases, so their pages stand in ``agents.admin``,
where both are known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from registry import audit
from registry.admin_base import FilteredList, ReadOnlyAdmin, actor_of
from registry.models import AuditEvent

admin.site.site_header = "Agent registry"
admin.site.site_title = "Agent registry"
admin.site.index_title = "Agents and what they know"
admin.site.site_url = None
# It deletes rows past the use cases.
admin.site.disable_action("delete_selected")

# What the audit log calls an object → the page that shows it.
_PAGES = {
    "agent": "admin:agents_agent_change",
    "knowledge_base": "admin:retrieval_knowledgebase_change",
    "document": "admin:retrieval_document_change",
    "api_key": "admin:registry_apikey_change",
}
_LONGEST_SUMMARY = 120


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin[AuditEvent]):
    """Every change, newest first: who, what, before, after."""

    list_display = ["at", "who", "action", "what", "summary"]
    list_display_links = ["at"]
    list_filter = ["object_type", "action", "actor_kind"]
    lookups = ["object_type__exact", "object_id__exact"]
    search_fields = ["object_id", "actor"]
    search_help_text = "Who did it, or the id (an agent's slug) of what was changed."
    fields = ["at", "who", "action", "what", "before_json", "after_json"]
    readonly_fields = ["at", "who", "action", "what", "before_json", "after_json"]
    ordering = ["-id"]

    @admin.display(description="by", ordering="actor")
    def who(self, event: AuditEvent) -> str:
        return f"{event.actor} ({event.actor_kind})"

    @admin.display(description="what")
    def what(self, event: AuditEvent) -> str | SafeString:
        label = f"{event.object_type.replace('_', ' ')} {event.object_id}"
        page = _PAGES.get(event.object_type)
        if page is None or event.action.endswith(".deleted"):
            return label
        return format_html(
            '<a href="{}">{}</a>', reverse(page, args=[quote(event.object_id)]), label
        )

    @admin.display(description="after")
    def summary(self, event: AuditEvent) -> str:
        said = [
            f"{name} {value}" if isinstance(value, str | int | float) else name
            for name, value in (event.after or {}).items()
        ]
        text = ", ".join(said)
        return text if len(text) <= _LONGEST_SUMMARY else text[: _LONGEST_SUMMARY - 1] + "…"

    @admin.display(description="before")
    def before_json(self, event: AuditEvent) -> SafeString | str:
        return _block(event.before)

    @admin.display(description="after")
    def after_json(self, event: AuditEvent) -> SafeString | str:
        return _block(event.after)


def _block(value: Any) -> SafeString | str:
    if value is None:
        return "–"
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return format_html('<pre class="registry-text">{}</pre>', text)


class _AuditedAccounts(FilteredList[Any]):
    """Django's own pages for accounts, with their changes in the audit log instead of its own.

    Django calls the ``log_`` methods once for each change, inside its transaction.
    """

    actions: Any = None
    show_full_result_count = False

    def construct_change_message(
        self, request: HttpRequest, form: Any, formsets: Any, *args: Any, **kwargs: Any
    ) -> Any:
        secret = {"password", "password1", "password2", "usable_password"}
        names = [name for name in form.changed_data if name not in secret]
        return {
            "before": {name: _plain(form.initial.get(name)) for name in names},
            "after": {
                **{name: _plain(form.cleaned_data[name]) for name in names},
                **({"password": "changed"} if secret & set(form.changed_data) else {}),
            },
        }

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        self._record(request, obj, "created", after=message["after"])

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        self._record(request, obj, "updated", before=message["before"], after=message["after"])

    def log_deletions(self, request: HttpRequest, queryset: Iterable[Any]) -> Any:
        for obj in queryset:
            self._record(request, obj, "deleted", before={"name": str(obj)})

    def _record(
        self,
        request: HttpRequest,
        obj: Model,
        done: str,
        *,
        before: dict[str, Any] | None = None,
        after: dict[str, Any] | None = None,
    ) -> None:
        kind = str(self.opts.model_name)
        audit.record(
            actor=actor_of(request),
            action=f"{kind}.{done}",
            object_type=kind,
            object_id=str(obj),
            before=before,
            after=after,
        )


def _plain(value: Any) -> Any:
    if isinstance(value, QuerySet | list | tuple):
        return sorted(str(item) for item in value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)


admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class AuditedUserAdmin(_AuditedAccounts, UserAdmin):  # type: ignore[type-arg]
    def user_change_password(
        self, request: HttpRequest, id: str, form_url: str = ""
    ) -> HttpResponse:
        """Change a password and write its audit row in one transaction."""
        with transaction.atomic():
            return super().user_change_password(request, id, form_url)


@admin.register(Group)
class AuditedGroupAdmin(_AuditedAccounts, GroupAdmin):
    pass
