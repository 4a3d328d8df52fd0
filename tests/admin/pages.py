"""Pages of the admin: their addresses, their text, and their forms as a browser sends them."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from django.db.models import Model
from django.urls import reverse


def address_of(obj: Model, page: str, *further: object) -> str:
    """Return the address of a page of one object; ``further`` is what stands behind its id."""
    name = f"{obj._meta.app_label}_{obj._meta.model_name}_{page}"
    return reverse(f"admin:{name}", args=[obj.pk, *further])


class _Form(HTMLParser):
    """Collects what a browser would send of the first form that has ``field``."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[dict[str, str]] = []
        self._area: str | None = None
        self._select: str | None = None
        self._takes_first = self._first_line = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name = given.get("name") or ""
        if tag == "form":
            self.forms.append({})
        elif not self.forms:
            return
        elif tag == "input" and given.get("type") not in {"submit", "file"}:
            ticked = given.get("type") not in {"checkbox", "radio"} or "checked" in given
            if name and ticked:
                self.forms[-1][name] = given.get("value") or ("on" if "checked" in given else "")
        elif tag == "textarea":
            self._area, self._first_line = name, True
            self.forms[-1][name] = ""
        elif tag == "select":
            self._select, self._takes_first = name, "multiple" not in given
        elif (
            tag == "option"
            and self._select
            and ("selected" in given or (self._takes_first and self._select not in self.forms[-1]))
        ):
            self.forms[-1][self._select] = given.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._area = None
        elif tag == "select":
            self._select = None

    def handle_data(self, data: str) -> None:
        if self._area is None:
            return
        if self._first_line:
            data = data.removeprefix("\r\n").removeprefix("\n")
            self._first_line = False
        self.forms[-1][self._area] += data


def sent_by(page: Any, field: str, **typed: Any) -> dict[str, Any]:
    """Return what a browser sends of the form with ``field`` on ``page``, ``typed`` over it.

    Line ends go as CRLF, as browsers do. None takes a value out: a box that is unticked.
    """
    parser = _Form()
    parser.feed(page.content.decode())
    found = next(form for form in parser.forms if field in form)
    values = {**found, **typed}
    return {
        name: value.replace("\r\n", "\n").replace("\n", "\r\n") if isinstance(value, str) else value
        for name, value in values.items()
        if value is not None
    }


def text_of(page: Any) -> str:
    """Return what a person reads on ``page``, in one line."""
    parser = _Text()
    parser.feed(page.content.decode())
    return " ".join(" ".join(parser.parts).split())


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)
