"""Form fields that hand texts and JSON through a browser and back without changing them."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from registry.errors import Malformed
from registry.strict_json import loads


class ExactTextField(forms.CharField):
    """A text whose spaces are kept; line ends come back from browsers as CRLF and become LF."""

    def __init__(self, *, rows: int = 3, code: bool = False, **options: Any) -> None:
        classes = "vLargeTextField code" if code else "vLargeTextField"
        widget = forms.Textarea(attrs={"rows": rows, "class": classes, "spellcheck": not code})
        super().__init__(strip=False, widget=widget, **options)

    def to_python(self, value: Any) -> str:
        return one_line_end(super().to_python(value) or "")


class JSONTextField(ExactTextField):
    """JSON that users own, edited as text; key order and numbers stay as they were typed.

    ``cleaned_data`` holds the value, None for an empty field.
    """

    def __init__(self, *, rows: int = 4, **options: Any) -> None:
        super().__init__(rows=rows, code=True, **options)

    def prepare_value(self, value: Any) -> Any:
        if value is None or isinstance(value, str):
            return value
        return json.dumps(value, indent=2, ensure_ascii=False)

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        if not text.strip():
            return None
        try:
            return loads(text)
        except Malformed as error:
            raise ValidationError(error.detail.replace("The body", "This")) from error


def remember_shown(form: forms.BaseForm) -> None:
    """Let a form send back what its page showed, so that ``changed_data`` is what a person changed.

    Somebody else may have changed the rest meanwhile.
    """
    for field in form.fields.values():
        field.show_hidden_initial = True


def one_line_end(text: str) -> str:
    """Return ``text`` with every line end as LF."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def as_before(typed: str, before: str) -> str:
    """Return ``before`` where ``typed`` differs from it by line ends alone, else ``typed``.

    A text that came by the API with other line ends must not change by being looked at.
    """
    return before if one_line_end(before) == one_line_end(typed) else typed
