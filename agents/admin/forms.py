"""The small forms of an agent's pages, and which field of a request each of theirs is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.contrib.admin import widgets

from registry.form_fields import ExactTextField, JSONTextField, remember_shown

AGENT_FIELDS: Mapping[str, str] = {"slug": "slug", "name": "name"}
ALIAS_FIELDS: Mapping[str, str] = {"name": "name", "version": "version"}
KEY_FIELDS: Mapping[str, str] = {"name": "name", "scope": "scope"}
CONTEXT_FIELDS: Mapping[str, str] = {"context": "context", "version": "version"}


class NewAgentForm(forms.Form):
    slug = forms.CharField(
        widget=widgets.AdminTextInputWidget(),
        help_text="Lower-case letters, digits, - and _; part of every address, for ever.",
    )
    name = forms.CharField(
        required=False, widget=widgets.AdminTextInputWidget(), help_text="Empty: the slug."
    )


class AgentForm(forms.Form):
    name = forms.CharField(widget=widgets.AdminTextInputWidget())
    archived = forms.BooleanField(
        required=False,
        help_text="An archived agent is not edited or published; its versions keep answering.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        remember_shown(self)

    def changes(self) -> dict[str, Any]:
        """Return what was changed on the page."""
        return {name: self.cleaned_data[name] for name in self.changed_data}


class ContextForm(forms.Form):
    """A context to try the bindings with."""

    context = JSONTextField(
        rows=8,
        help_text='The JSON object that describes a conversation: {"region": "EU"}.',
    )
    version = forms.ChoiceField(help_text="Whose bindings decide.")

    def __init__(self, *args: Any, versions: Sequence[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["version"].choices = versions  # type: ignore[attr-defined]


class PublishForm(forms.Form):
    revision = forms.CharField(widget=forms.HiddenInput)
    notes = ExactTextField(
        required=False, rows=4, help_text="What is new, for people; no part of the digest."
    )
    accept_outdated = forms.BooleanField(
        required=False,
        label="Publish although changes are not in the snapshots yet",
        help_text="The version then answers from the snapshots as they are now, for ever.",
    )


class AliasForm(forms.Form):
    """Where an alias points; ``expected`` is where it pointed when the page was made."""

    name = forms.CharField(
        widget=widgets.AdminTextInputWidget(),
        help_text="Lower-case letters, digits, - and _: production.",
    )
    version = forms.TypedChoiceField(coerce=int)
    expected = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, numbers: Sequence[int], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["version"].choices = [  # type: ignore[attr-defined]
            (number, f"version {number}") for number in numbers
        ]


class ApiKeyForm(forms.Form):
    """A new key; a limited one reaches the agents and knowledge bases that it names, no others."""

    name = forms.CharField(
        widget=widgets.AdminTextInputWidget(), help_text="Who uses it; traces and audit log say it."
    )
    scope = forms.ChoiceField(
        choices=[
            ("runtime", "runtime: resolve, retrieve, call tools of published versions"),
            ("editor", "editor: and knowledge bases, documents, drafts, test box"),
            ("publisher", "publisher: and publish, restore, aliases, verify"),
            ("admin", "admin: everything"),
        ]
    )
    all_agents = forms.BooleanField(
        required=False,
        initial=True,
        label="For all agents and knowledge bases",
        help_text="Also for those that do not exist yet. Without it: only those chosen below.",
    )
    agents = forms.MultipleChoiceField(
        required=False, widget=forms.SelectMultiple(attrs={"size": 6})
    )
    knowledge_bases = forms.MultipleChoiceField(
        required=False,
        widget=forms.SelectMultiple(attrs={"size": 6}),
        help_text="What a limited key may bind and read. Hold Ctrl or ⌘ to choose several.",
    )

    def __init__(
        self,
        *args: Any,
        agents: Sequence[tuple[str, str]],
        bases: Sequence[tuple[str, str]],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.fields["agents"].choices = agents  # type: ignore[attr-defined]
        self.fields["knowledge_bases"].choices = bases  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        typed = self.cleaned_data
        if typed.get("all_agents") and (typed.get("agents") or typed.get("knowledge_bases")):
            self.add_error("all_agents", "Untick this to limit the key to what is chosen below.")
        return typed
