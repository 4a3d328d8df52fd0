"""What belongs to a knowledge base: listed under its tabs, with the way back to it."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import UUID

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest, HttpResponse

from registry.admin_base import RegistryAdmin
from retrieval.models import KnowledgeBase

_FILTER = "knowledge_base__id__exact"
M = TypeVar("M", bound=Model)


class BelowBases(RegistryAdmin[M]):
    """A model of which each row belongs to a knowledge base.

    ``base_tab`` is the tab of the knowledge base that its list is, and what that tab says. The
    last column of the list names the knowledge base; a list of one leaves it out.
    """

    base_tab: tuple[str, str]

    def get_list_display(self, request: HttpRequest) -> Any:
        columns = [*self.list_display]
        return columns[:-1] if _FILTER in request.GET else columns

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        base = _listed_base(request)
        context = {} if base is None else self.base_context(base)
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def base_context(self, base: KnowledgeBase) -> dict[str, Any]:
        """Return what the list of one knowledge base shows of it."""
        tab, _ = self.base_tab
        return {
            "title": base.name,
            "tabs": self._bases.tabs_of(base, tab),
            "crumbs": self._bases.crumbs(base, tab),
        }

    def crumbs(self, obj: M | None, tab: str) -> list[tuple[str, str]]:
        crumbs = super().crumbs(obj, tab)
        if obj is None:
            return crumbs
        base = _base_of(obj)
        name, label = self.base_tab
        way = [*self._bases.crumbs(base, ""), (label, self._bases.tab_url(base, name))]
        return [*way, *crumbs[2:]]

    @property
    def _bases(self) -> Any:
        return self.admin_site.get_model_admin(KnowledgeBase)

    @admin.display(description="knowledge base", ordering="knowledge_base__name")
    def base(self, obj: M) -> str:
        return _base_of(obj).name


def _base_of(obj: Any) -> KnowledgeBase:
    base: KnowledgeBase = obj.knowledge_base
    return base


def _listed_base(request: HttpRequest) -> KnowledgeBase | None:
    try:
        wanted = UUID(request.GET.get(_FILTER, ""))
    except ValueError:
        return None
    bases = KnowledgeBase.objects.select_related("model", "current_snapshot")
    return bases.filter(pk=wanted).first()
