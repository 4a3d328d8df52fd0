"""The draft as a form: its texts, and rows of context variables, bindings and tools.

What was not touched goes back exactly as it came: line ends, key order and members that a client
of the API left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.contrib.admin import widgets
from django.core.exceptions import ValidationError
from django.forms import formset_factory

from agents.configuration import MOST_BINDINGS, MOST_TOOLS, BindingValues, ToolValues
from agents.expressions import TYPES
from agents.expressions.limits import MAX_VARIABLES
from agents.samples import MOST_SAMPLES
from registry.errors import Malformed
from registry.fields import dump_received
from registry.form_fields import ExactTextField, JSONTextField, as_before
from registry.strict_json import loads

_TEXT_TYPES = ("string", "list")


def _text(**options: Any) -> forms.CharField:
    return forms.CharField(
        strip=False, required=False, widget=widgets.AdminTextInputWidget(), **options
    )


def _knowledge_base(**options: Any) -> forms.ChoiceField:
    return forms.ChoiceField(label="Knowledge base", **options)


class DraftForm(forms.Form):
    """What a draft has once; ``revision`` is the one that the edit started from."""

    revision = forms.CharField(widget=forms.HiddenInput)
    prompt = ExactTextField(required=False, rows=14, help_text="What the model is told first.")
    model = _text(help_text="The name that the agent's runtime gives its model provider.")
    parameters = JSONTextField(
        required=False, rows=4, help_text='A JSON object for the model: {"temperature": 0}.'
    )
    coverage_errors = forms.BooleanField(
        required=False, label="Refuse to publish while the coverage has warnings"
    )
    accept_warnings = forms.BooleanField(
        required=False, label="These expressions are meant as they are: save them"
    )


class VariableForm(forms.Form):
    """One declared context variable; ``given`` is it as the draft has it, for untouched members."""

    given = forms.CharField(widget=forms.HiddenInput, required=False)
    name = forms.CharField(
        widget=widgets.AdminTextInputWidget(), help_text="region, or dotted: customer.tier"
    )
    type = forms.ChoiceField(choices=[(kind, kind) for kind in TYPES], initial=TYPES[0])
    values = forms.CharField(
        required=False,
        widget=widgets.AdminTextInputWidget(),
        label="Allowed values",
        help_text="EU, UK, US; or a JSON list. Empty: every value of the type.",
    )
    example = forms.CharField(
        required=False,
        strip=False,
        widget=widgets.AdminTextInputWidget(),
        help_text="Shown to people, and tried in “Try a context”.",
    )
    description = _text()
    required = forms.BooleanField(required=False)
    sensitive = forms.BooleanField(
        required=False, help_text="Traces keep it as a fingerprint (HMAC) only."
    )

    def clean(self) -> dict[str, Any]:
        typed = self.cleaned_data
        kind = typed.get("type", "")
        for field, read in (("values", _read_values), ("example", _read_example)):
            try:
                typed[field] = read(typed.get(field, ""), kind)
            except Malformed as error:
                self.add_error(field, error.detail.replace("The body", "This"))
        return typed

    @staticmethod
    def initial_of(variable: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a row shows of a declaration."""
        kind = variable.get("type", "")
        return {
            "given": dump_received(variable),
            "name": variable.get("name", ""),
            "type": kind,
            "values": _shown_values(variable.get("values"), kind),
            "example": _shown_example(variable.get("example"), kind),
            "description": variable.get("description") or "",
            "required": variable.get("required", False),
            "sensitive": variable.get("sensitive", False),
        }

    def value(self) -> dict[str, Any]:
        """Return the declaration, with the members that were not touched as they were."""
        typed = self.cleaned_data
        try:
            given = loads(typed["given"]) if typed["given"] else {}
        except Malformed:
            given = {}
        before = given if isinstance(given, dict) else {}
        nothing: dict[str, Any] = {
            "name": "",
            "type": "",
            "values": None,
            "required": False,
            "sensitive": False,
            "example": None,
            "description": "",
        }
        declared = dict(before)
        for member, empty in nothing.items():
            if typed[member] != (before.get(member) or empty):
                declared[member] = typed[member]
        return declared


class BindingForm(forms.Form):
    """One binding: which knowledge base, and for which conversations."""

    id = forms.CharField(widget=forms.HiddenInput, required=False)
    knowledge_base = _knowledge_base()
    label = _text(help_text="Empty: the knowledge base's name.")
    expression = ExactTextField(
        required=False,
        rows=2,
        code=True,
        help_text='region == "EU" and customer.tier in ["gold", "platinum"]. Empty: always.',
    )
    instruction = ExactTextField(
        required=False, rows=2, help_text="What the model should use it for."
    )
    enabled = forms.BooleanField(required=False, initial=True)

    @staticmethod
    def initial_of(binding: BindingValues) -> dict[str, Any]:
        """Return what a row shows of a binding."""
        return {
            "id": str(binding.id),
            "knowledge_base": str(binding.knowledge_base),
            "label": binding.label,
            "expression": binding.expression or "",
            "instruction": binding.instruction,
            "enabled": binding.enabled,
        }

    def value(self, known: Mapping[str, BindingValues]) -> dict[str, Any]:
        """Return the binding as a request carries it; ``known`` are those of the draft, by id."""
        typed = self.cleaned_data
        before = known.get(typed["id"])
        expression = typed["expression"]
        if before is not None:
            expression = as_before(expression, before.expression or "")
        value = {
            "knowledgeBase": typed["knowledge_base"],
            "label": typed["label"],
            "expression": expression or None,
            "instruction": as_before(typed["instruction"], before.instruction if before else ""),
            "enabled": typed["enabled"],
        }
        return value if before is None else {"id": typed["id"], **value}


class ToolForm(forms.Form):
    """One tool: ``rag`` searches a knowledge base, ``function`` is run by the agent's runtime."""

    id = forms.CharField(widget=forms.HiddenInput, required=False)
    type = forms.ChoiceField(
        choices=[("rag", "rag: search a knowledge base"), ("function", "function: own code")],
        initial="rag",
    )
    name = forms.CharField(
        strip=False,
        widget=widgets.AdminTextInputWidget(),
        help_text="Letters, digits, _ and -, starting with a letter: search_returns.",
    )
    description = ExactTextField(
        required=False, rows=3, help_text="When the model should call it, and what for."
    )
    knowledge_base = _knowledge_base(required=False, help_text="For a rag tool.")
    parameters = JSONTextField(
        required=False, rows=3, help_text="For a function: a JSON Schema of type object."
    )

    def clean(self) -> dict[str, Any]:
        typed = self.cleaned_data
        if typed.get("type") == "rag" and not typed.get("knowledge_base"):
            self.add_error("knowledge_base", "Choose the knowledge base that it searches.")
        return typed

    @staticmethod
    def initial_of(tool: ToolValues) -> dict[str, Any]:
        """Return what a row shows of a tool."""
        return {
            "id": str(tool.id),
            "type": tool.type,
            "name": tool.name,
            "description": tool.description,
            "knowledge_base": str(tool.knowledge_base or ""),
            "parameters": tool.parameters,
        }

    def value(self, known: Mapping[str, ToolValues]) -> dict[str, Any]:
        """Return the tool as a request carries it; ``known`` are those of the draft, by id."""
        typed = self.cleaned_data
        before = known.get(typed["id"])
        value = {
            "type": typed["type"],
            "name": typed["name"],
            "description": as_before(typed["description"], before.description if before else ""),
            "knowledgeBase": typed["knowledge_base"] or None,
            "parameters": typed["parameters"],
        }
        return value if before is None else {"id": typed["id"], **value}


class SampleForm(forms.Form):
    """One sample context: a name, and the JSON object of an invented conversation."""

    name = forms.CharField(widget=widgets.AdminTextInputWidget(), help_text="Gold customer, EU")
    context = JSONTextField(
        required=False, rows=3, help_text='{"region": "EU"}; invented, never a real customer.'
    )

    @staticmethod
    def initial_of(sample: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a row shows of a sample."""
        return dict(sample)

    def value(self) -> dict[str, Any]:
        """Return the sample as a request carries it."""
        typed = self.cleaned_data
        context = {} if typed["context"] is None else typed["context"]
        return {"name": typed["name"], "context": context}


class Rows(forms.BaseFormSet[Any]):
    """Rows of a draft; a request that has lost some is refused, since a missing row is a deletion."""

    def _construct_form(self, i: int, **kwargs: Any) -> Any:
        """Read each row of the draft, however many the request says that its page had."""
        row = super()._construct_form(i, **kwargs)  # type: ignore[misc]
        row.empty_permitted = row.empty_permitted and not row.initial
        return row

    def clean(self) -> None:
        if self.total_form_count() < self.initial_form_count():
            raise ValidationError("Rows are missing from this request: open the page again.")


def _rows(
    form: type[forms.Form], most: int, *, ordered: bool = True
) -> type[forms.BaseFormSet[Any]]:
    return formset_factory(
        form,
        formset=Rows,
        extra=0,
        can_delete=True,
        can_order=ordered,
        max_num=most,
        absolute_max=most + 1,
        validate_max=True,
    )


VariableRows = _rows(VariableForm, MAX_VARIABLES, ordered=False)
BindingRows = _rows(BindingForm, MOST_BINDINGS)
ToolRows = _rows(ToolForm, MOST_TOOLS)
SampleRows = _rows(SampleForm, MOST_SAMPLES, ordered=False)


def offer_knowledge_bases(form: forms.BaseForm, choices: Sequence[tuple[str, str]]) -> None:
    """Fill a row's choice of knowledge bases; one that is gone stays to be seen."""
    offered = [("", "–"), *choices]
    chosen = form.initial.get("knowledge_base") if form.initial else None
    if chosen and chosen not in dict(choices):
        offered.append((chosen, f"missing: {chosen}"))
    form.fields["knowledge_base"].choices = offered  # type: ignore[attr-defined]


def _read_values(text: str, kind: str) -> list[Any] | None:
    text = text.strip()
    if not text:
        return None
    if text.startswith("["):
        values = loads(text)
        return values if isinstance(values, list) else [values]
    if kind in _TEXT_TYPES:
        return [part.strip() for part in text.split(",") if part.strip()]
    values = loads(f"[{text}]")
    return list(values)


def _shown_values(values: Any, kind: str) -> str:
    if not values:
        return ""
    if kind in _TEXT_TYPES and _read_values(", ".join(map(str, values)), kind) == values:
        return ", ".join(values)
    return json.dumps(values, ensure_ascii=False)


def _read_example(text: str, kind: str) -> Any:
    if not text.strip():
        return None
    return text if kind == "string" else loads(text)


def _shown_example(example: Any, kind: str) -> str:
    if example is None:
        return ""
    return str(example) if kind == "string" else json.dumps(example, ensure_ascii=False)
