"""The admin's site: Django's own, with what it would change past the audit log in the log."""

from __future__ import annotations

from functools import wraps
from typing import Any

from django.contrib import admin
from django.core.exceptions import SuspiciousOperation
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from registry import audit
from registry.admin_base import PageView, actor_of


class RegistrySite(admin.AdminSite):
    """Where people sign in and change their own password."""

    def admin_view(  # type: ignore[override]
        self,
        view: PageView,
        cacheable: bool = False,  # noqa: FBT001, FBT002 - as Django calls it
    ) -> PageView:
        """Refuse a NUL in the address: PostgreSQL compares no text with it."""

        @wraps(view)
        def without_nul(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            said = [request.path, *(text for _, texts in request.GET.lists() for text in texts)]
            if any("\x00" in text for text in said):
                raise SuspiciousOperation("The address holds a NUL character.")
            return view(request, *args, **kwargs)

        return super().admin_view(without_nul, cacheable)

    def password_change(  # type: ignore[override]
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Change one's own password and write its audit row in one transaction."""
        # Django's stubs know of the page alone, not of the redirect after it.
        with transaction.atomic():
            response = super().password_change(request, extra_context)
            # The form is shown again where it refused; it leads on only once it has saved.
            if request.method == "POST" and response.status_code == 302:
                audit.record(
                    actor=actor_of(request),
                    action="user.updated",
                    object_type="user",
                    object_id=request.user.get_username(),
                    before={},
                    after={"password": "changed"},
                )
            return response
