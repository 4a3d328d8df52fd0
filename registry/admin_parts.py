"""Rows that belong to a whole: listed under its tabs, with the way back to it."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model
from django.http import HttpRequest, HttpResponse

from registry.admin_base import RegistryAdmin

M = TypeVar("M", bound=Model)


class PartAdmin(RegistryAdmin[M]):
    """A model of which each row belongs to a row of another, by the foreign key ``whole``.

    ``whole_tab`` is the tab of the whole that the list of its parts is, and what that tab says.
    ``whole_column`` is the column that names the whole; a list of one whole leaves it out.
    """

    whole: str
    whole_column: str
    whole_tab: tuple[str, str]
    change_list_template = "admin/registry/parts.html"

    def get_list_display(self, request: HttpRequest) -> Any:
        of_one = self._filter in request.GET
        return [name for name in self.list_display if not (of_one and name == self.whole_column)]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        whole = self._listed_whole(request)
        context = {} if whole is None else self.whole_context(whole)
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def whole_context(self, whole: Any) -> dict[str, Any]:
        """Return what the list of the parts of ``whole`` shows of it."""
        tab, _ = self.whole_tab
        return {
            "title": str(whole),
            "tabs": self.wholes.tabs_of(whole, tab),
            "crumbs": self.wholes.crumbs(whole, tab),
        }

    def crumbs(self, obj: M | None, tab: str) -> list[tuple[str, str]]:
        crumbs = super().crumbs(obj, tab)
        if obj is None:
            return crumbs
        whole = getattr(obj, self.whole)
        name, label = self.whole_tab
        way = [*self.wholes.crumbs(whole, ""), (label, self.wholes.tab_url(whole, name))]
        return [*way, *crumbs[2:]]

    @property
    def wholes(self) -> Any:
        """The admin of the wholes."""
        model: Any = self.opts.get_field(self.whole).related_model
        return self.admin_site.get_model_admin(model)

    @property
    def _filter(self) -> str:
        return f"{self.whole}__id__exact"

    def _listed_whole(self, request: HttpRequest) -> Model | None:
        try:
            wanted = UUID(request.GET.get(self._filter, ""))
        except ValueError:
            return None
        found: Model | None = self.wholes.model.objects.filter(pk=wanted).first()
        return found
