"""What the admin's pages share: who acts, how refusals read, how a page is put together.

No page writes a row. Each form and button calls one use case; what that refuses
(``RegistryError``) is shown beside the field it is about, or as a message.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar
from urllib.parse import urlencode

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME, AdminForm
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied, SuspiciousOperation, ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from registry.access import Access
from registry.actors import Actor
from registry.errors import FieldError, NotFound, RegistryError

M = TypeVar("M", bound=Model)
PageView = Callable[..., HttpResponse]
# From the path of a field in an error (``settings.defaultTopK``) to the name of a form's field.
FieldNames = Mapping[str, str]


def actor_of(request: HttpRequest) -> Actor:
    """Return the signed-in person as the audit log names them."""
    return Actor(kind="user", label=request.user.get_username())


def access_of(request: HttpRequest) -> Access:
    """Return what a person in the admin reaches; Django's permissions say who does what there."""
    return Access(actor=actor_of(request), scope="admin")


def sentence(error: FieldError) -> str:
    """Return what is wrong with a field, with what would be right, for a person."""
    text = error.message[:1].upper() + error.message[1:]
    if not text.endswith((".", "?", "!")):
        text += "."
    allowed = _allowed_text(error.allowed)
    return f"{text} Allowed: {allowed}." if allowed and allowed not in text else text


def _allowed_text(allowed: Any) -> str:
    if isinstance(allowed, Mapping) and {"minimum", "maximum"} <= set(allowed):
        return f"{allowed['minimum']} to {allowed['maximum']}"
    if isinstance(allowed, Sequence) and not isinstance(allowed, str):
        return ", ".join(str(value) for value in allowed)
    return ""


def show_errors(form: forms.BaseForm, error: RegistryError, names: FieldNames) -> None:
    """Put what a use case refused beside the fields of ``form``; the rest stands above them."""
    for field_error in error.errors:
        name = names.get(field_error.field)
        if name is not None and name in form.fields:
            form.add_error(name, sentence(field_error))
        else:
            form.add_error(None, f"{field_error.field}: {sentence(field_error)}")
    if not error.errors:
        form.add_error(None, error.detail)


def attempt(request: HttpRequest, act: Callable[[], object], done: str) -> bool:
    """Do ``act`` and say ``done``, or say why it was refused; returns whether it was done."""
    try:
        act()
    except RegistryError as error:
        messages.error(request, error.detail)
        return False
    messages.success(request, done)
    return True


def require_permission(request: HttpRequest, permission: str) -> None:
    """Raise PermissionDenied where the person lacks ``permission`` (``agents.change_alias``)."""
    if not request.user.has_perm(permission):
        raise PermissionDenied


def refusals_shown(view: PageView) -> PageView:
    """Make a refusal that a page does not handle a message above the list of its model."""

    @wraps(view)
    def guarded(
        self: RegistryAdmin[Any], request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        try:
            return view(self, request, *args, **kwargs)
        except RegistryError as error:
            messages.error(request, error.detail)
            return HttpResponseRedirect(self.url("changelist"))

    return guarded


class FilteredList(admin.ModelAdmin[M]):
    """A model whose list is narrowed by its filters, and by ``lookups``, and by nothing else.

    Django takes any lookup of any column from the address, and some of them fail in the database.
    """

    lookups: Collection[str] = ()

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        allowed = {*self.lookups}
        for one in self.list_filter or ():
            if isinstance(one, str):
                allowed.update((one, f"{one}__exact", f"{one}__isnull", f"{one}__id__exact"))
        name, *_ = lookup.split("__")
        columns = {"pk", *(field.attname for field in self.opts.concrete_fields)}
        is_column = name in columns | {field.name for field in self.opts.get_fields()}
        # What is no column is a filter of our own, or goes unheeded with a message.
        return lookup in allowed or not is_column


class RegistryAdmin(FilteredList[M]):
    """A model whose pages change nothing but through use cases.

    ``object_type`` is what the audit log calls the model: its history is there, and nowhere
    else. ``pages`` and ``tabs`` are further pages of one object: address below the model's, name
    of the method that shows it; and name of the page, what its tab says.
    """

    object_type = ""
    pages: Sequence[tuple[str, str]] = ()
    tabs: Sequence[tuple[str, str]] = ()
    actions: Any = None
    list_per_page = 50
    show_full_result_count = False

    class Media:
        css = {"all": ["registry/admin.css"]}

    def get_urls(self) -> list[URLPattern]:
        further = [
            path(
                address,
                self.admin_site.admin_view(_bound(self, name)),
                name=self._url_name(name.removesuffix("_page")),
            )
            for address, name in self.pages
        ]
        return [*further, *super().get_urls()]

    def _url_name(self, name: str) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{name}"

    def url(self, name: str, obj: M | None = None, *further: object) -> str:
        """Return the address of a page of this model, or of ``obj``."""
        arguments = [] if obj is None else [quote(obj.pk)]
        return reverse(f"admin:{self._url_name(name)}", args=[*arguments, *further])

    def response_action(self, request: HttpRequest, queryset: QuerySet[M]) -> HttpResponse | None:
        """Refuse chosen rows whose ids are none, which Django would ask the database for."""
        try:
            for chosen in request.POST.getlist(ACTION_CHECKBOX_NAME):
                self.opts.pk.to_python(chosen)
        except ValidationError as error:
            raise SuspiciousOperation("A chosen row has no id.") from error
        return super().response_action(request, queryset)

    def found(self, request: HttpRequest, object_id: str, permission: str = "view") -> M:
        """Return the object of a page. Raises PermissionDenied and NotFound."""
        self.require(request, permission)
        obj = self.get_object(request, unquote(object_id))
        if obj is None:
            raise NotFound(f"This {self.opts.verbose_name} does not exist. Perhaps it was deleted.")
        return obj

    def require(self, request: HttpRequest, permission: str) -> None:
        """Raise PermissionDenied where the person lacks view, add, change or delete here."""
        if not self.may(request, permission):
            raise PermissionDenied

    def may(self, request: HttpRequest, permission: str) -> bool:
        """Say whether the person has view, add, change or delete here."""
        if permission == "view":
            return self.has_view_permission(request)
        codename = f"{self.opts.app_label}.{permission}_{self.opts.model_name}"
        return request.user.has_perm(codename)

    def page(
        self,
        request: HttpRequest,
        template: str,
        *,
        title: str,
        obj: M | None = None,
        tab: str = "",
        **context: Any,
    ) -> TemplateResponse:
        """Return a page of the admin; with ``obj``, one below its tabs."""
        name = "" if obj is None or tab == "change" else self.display(obj)
        return TemplateResponse(
            request,
            f"admin/{template}",
            {
                **self.admin_site.each_context(request),
                "title": name or title,
                "subtitle": title if name else None,
                "here": title,
                "opts": self.opts,
                "original": obj,
                "media": self.media,
                "crumbs": self.crumbs(obj, tab),
                "tabs": [] if obj is None else self.tabs_of(obj, tab),
                **context,
            },
        )

    def crumbs(self, obj: M | None, tab: str) -> list[tuple[str, str]]:
        """Return the way to a page: what each step is called, and its address."""
        plural = str(self.opts.verbose_name_plural)
        crumbs = [
            (
                str(self.opts.app_config.verbose_name),
                reverse("admin:app_list", args=[self.opts.app_label]),
            ),
            (plural[:1].upper() + plural[1:], self.url("changelist")),
        ]
        if obj is not None and tab != "change":
            crumbs.append((self.display(obj), self.url("change", obj)))
        return crumbs

    def tabs_of(self, obj: M, current: str) -> list[dict[str, object]]:
        """Return the pages of ``obj`` for its tabs."""
        return [
            {"label": label, "url": self.tab_url(obj, name), "current": name == current}
            for name, label in self.tabs
        ]

    def tab_url(self, obj: M, name: str) -> str:
        """Return where a tab of ``obj`` leads."""
        return self.url(name, obj)

    def display(self, obj: M) -> str:
        """Return what a person calls ``obj``."""
        return str(obj)

    def audit_id(self, obj: M) -> str:
        """Return what the audit log calls ``obj``."""
        return str(obj.pk)

    @refusals_shown
    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        """Lead to the audit log: there is no other history."""
        obj = self.found(request, object_id)
        return HttpResponseRedirect(history_url(self.object_type, self.audit_id(obj)))

    # Whatever would write a row past the use cases is a mistake of this software.
    def save_model(self, request: HttpRequest, obj: M, form: Any, change: Any) -> None:
        raise NotImplementedError(f"{self.opts.label} is changed through its use cases")

    def delete_model(self, request: HttpRequest, obj: M) -> None:
        raise NotImplementedError(f"{self.opts.label} is deleted through its use cases")


def _bound(model_admin: RegistryAdmin[Any], name: str) -> PageView:
    view: PageView = refusals_shown(getattr(type(model_admin), name))
    return lambda request, *args, **kwargs: view(model_admin, request, *args, **kwargs)


class SetFilter(admin.SimpleListFilter):
    """Choose rows by whether ``field`` is set; ``words`` say what unset and set mean."""

    field: str
    words: tuple[str, str]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("no", self.words[0]), ("yes", self.words[1])]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() not in {"no", "yes"}:
            return queryset
        return queryset.filter(**{f"{self.field}__isnull": self.value() == "no"})


class ReadOnlyAdmin(RegistryAdmin[M]):
    """A model whose rows are made by the system and only looked at here."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False


def history_url(object_type: str, object_id: str) -> str:
    """Return the address of an object's rows in the audit log."""
    query = urlencode({"object_type__exact": object_type, "object_id__exact": object_id})
    return f"{reverse('admin:registry_auditevent_changelist')}?{query}"


def tag(word: str, tone: str = "", *, title: str = "") -> SafeString:
    """Return a word as a tag; ``tone``: good, warn, bad or none. ``title`` shows on hovering."""
    return format_html('<span class="registry-tag {}" title="{}">{}</span>', tone, title, word)


def fieldsets(form: Any, *groups: tuple[str | None, Iterable[Any], str]) -> AdminForm:
    """Return ``form`` in the admin's own fieldsets: name, fields, what to know about them."""
    shown: Any = [
        (name, {"fields": list(fields), "description": description})
        for name, fields, description in groups
    ]
    return AdminForm(form, shown, {})
