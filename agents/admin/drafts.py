"""Editing the draft: one form for the whole configuration, one ``edit_draft`` for one save."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from agents.admin.draft_forms import (
    BindingForm,
    BindingRows,
    DraftForm,
    SampleForm,
    SampleRows,
    ToolForm,
    ToolRows,
    VariableForm,
    VariableRows,
    offer_knowledge_bases,
)
from agents.configuration import Configuration, configuration_of
from agents.drafting import draft_of, edit_draft
from agents.models import Agent, AgentVersion
from agents.remarks import NOT_ACCEPTED, remarks_on
from registry.access import Access
from registry.admin_base import sentence
from registry.errors import RegistryError, StaleRevision
from registry.form_fields import as_before
from retrieval.models import KnowledgeBase

ROWS = ("variables", "bindings", "tools", "samples")
_PATHS = {
    "contextVariables": "variables",
    "bindings": "bindings",
    "tools": "tools",
    "sampleContexts": "samples",
}
_FIELDS = {"knowledgeBase": "knowledge_base"}
_ITEM = re.compile(r"(contextVariables|bindings|tools|sampleContexts)\.(\d+)(?:\.(\w+))?.*")


class DraftEditor:
    """A draft as forms: shown from its rows, or bound to what was typed."""

    def __init__(self, agent: Agent, typed: Mapping[str, Any] | None = None) -> None:
        self.agent = agent
        self.draft = draft_of(agent)
        self.configuration: Configuration = configuration_of(self.draft)
        # The draft's revision now, where the edit started from an earlier one
        self.moved_on_to: int | None = None
        # Something in it is hardly meant: the person is asked
        self.asks_to_accept = False
        bases = [
            (str(pk), name)
            for pk, name in KnowledgeBase.objects.order_by("name").values_list("pk", "name")
        ]
        self.form = DraftForm(typed, initial=self._initial())
        self.variables = VariableRows(
            typed,
            prefix="variables",
            initial=[VariableForm.initial_of(one) for one in self._declared()],
        )
        self.bindings = BindingRows(
            typed,
            prefix="bindings",
            initial=[BindingForm.initial_of(one) for one in self.configuration.bindings],
        )
        self.tools = ToolRows(
            typed,
            prefix="tools",
            initial=[ToolForm.initial_of(one) for one in self.configuration.tools],
        )
        self.samples = SampleRows(
            typed,
            prefix="samples",
            initial=[SampleForm.initial_of(one) for one in self.configuration.sample_contexts],
        )
        for row in (*self.bindings.forms, *self.tools.forms):
            offer_knowledge_bases(row, bases)

    def _declared(self) -> list[Mapping[str, Any]]:
        declared = self.configuration.context_variables or []
        return [one for one in declared if isinstance(one, Mapping)]

    def _initial(self) -> dict[str, Any]:
        return {
            "revision": str(self.draft.revision),
            "prompt": self.configuration.prompt,
            "model": self.configuration.model,
            "parameters": self.configuration.parameters,
            "coverage_errors": self.configuration.coverage_errors,
        }

    @property
    def _rows(self) -> tuple[forms.BaseFormSet[Any], ...]:
        return self.variables, self.bindings, self.tools, self.samples

    @property
    def wrong(self) -> int:
        """How many fields are wrong, those of all rows counted."""
        return len(self.form.errors) + sum(rows.total_error_count() for rows in self._rows)

    def save(self, access: Access, over: str | None) -> AgentVersion | None:
        """Save what was typed and return the draft, or None with the errors in the forms.

        ``over`` is the revision that the person knows about and means to replace.
        """
        parts: tuple[Any, ...] = (self.form, *self._rows)
        if not all(part.is_valid() for part in parts):
            return None
        variables = [form for form in self.variables.forms if _stays(form)]
        bindings = [form for form in self.bindings.ordered_forms if _stays(form)]
        tools = [form for form in self.tools.ordered_forms if _stays(form)]
        samples = [form for form in self.samples.forms if _stays(form)]
        typed = self.form.cleaned_data
        try:
            return edit_draft(
                actor=access.actor,
                access=access,
                agent=self.agent,
                values=self._values(variables, bindings, tools, samples),
                expected_revision=over or typed["revision"],
                whole=True,
                accept_warnings=typed["accept_warnings"],
            )
        except StaleRevision as error:
            self.moved_on_to = error.data["revision"]
        except RegistryError as error:
            self.asks_to_accept = error.code == NOT_ACCEPTED
            rows = {"variables": variables, "bindings": bindings, "tools": tools}
            self._show(error, {**rows, "samples": samples})
        return None

    def _values(
        self,
        variables: Sequence[Any],
        bindings: Sequence[Any],
        tools: Sequence[Any],
        samples: Sequence[Any],
    ) -> dict[str, Any]:
        typed, before = self.form.cleaned_data, self.configuration
        known_bindings = {str(one.id): one for one in before.bindings}
        known_tools = {str(one.id): one for one in before.tools}
        return {
            "prompt": as_before(typed["prompt"], before.prompt),
            "model": typed["model"],
            "parameters": {} if typed["parameters"] is None else typed["parameters"],
            "contextVariables": [form.value() for form in variables],
            "bindings": [form.value(known_bindings) for form in bindings],
            "tools": [form.value(known_tools) for form in tools],
            "sampleContexts": [form.value() for form in samples],
            "coverageErrors": typed["coverage_errors"],
        }

    def _show(self, error: RegistryError, rows: Mapping[str, Sequence[forms.Form]]) -> None:
        """Put each refusal at the field it is about."""
        for one in error.errors:
            form, field = self._place(one.field, rows)
            if field in form.fields:
                form.add_error(field, sentence(one))
            else:
                form.add_error(None, f"{one.field}: {sentence(one)}")
        if not error.errors:
            self.form.add_error(None, error.detail)

    def _place(
        self, path: str, rows: Mapping[str, Sequence[forms.Form]]
    ) -> tuple[forms.BaseForm, str]:
        item = _ITEM.fullmatch(path)
        if item is None:
            return self.form, path
        forms_of_kind = rows[_PATHS[item[1]]]
        position = int(item[2])
        if position >= len(forms_of_kind):
            return self.form, path
        field = item[3] or ""
        return forms_of_kind[position], _FIELDS.get(field, field)

    def warnings(self) -> dict[str, list[str]]:
        """Return, by the id of its binding, what an expression makes one wonder about."""
        found: dict[str, list[str]] = {}
        for remark in remarks_on(self.configuration):
            item = _ITEM.fullmatch(remark.field)
            if item is not None:
                binding = self.configuration.bindings[int(item[2])]
                found.setdefault(str(binding.id), []).append(remark.message)
        return found


def with_another_row(typed: Any, rows: str) -> Any:
    """Return what was typed with one more empty row of ``rows``."""
    more = typed.copy()
    counter = f"{rows}-TOTAL_FORMS"
    count = more.get(counter, "")
    more[counter] = str(int(count) + 1) if count.isdecimal() and len(count) < 5 else count
    if rows == "bindings":
        more[f"bindings-{count}-enabled"] = "on"
    return more


def _stays(form: Any) -> bool:
    """Say whether a row is meant: not deleted, and not one that was added and left empty."""
    return not form.cleaned_data.get("DELETE") and bool(form.has_changed() or form.initial)
