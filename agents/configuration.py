"""The configuration of a version as a value: read from a request, from rows, written as JSON.

One shape serves the draft, a published version, the manifest and the diff.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agents.expressions import ContextVariable, ExpressionError, parse_expression, parse_variables
from agents.models import AgentVersion
from agents.samples import read_samples
from registry import requests
from registry.errors import FieldError, Invalid
from registry.fields import dump_received

MEMBERS = (
    "prompt",
    "model",
    "parameters",
    "contextVariables",
    "bindings",
    "tools",
    "sampleContexts",
    "coverageErrors",
)
# What a client got with the draft may come back with it.
_IGNORED = ("revision", "basedOn", "agent", "warnings")
_BINDING_MEMBERS = (
    "id",
    "knowledgeBase",
    "expression",
    "label",
    "instruction",
    "enabled",
)
_TOOL_MEMBERS = ("id", "type", "name", "description", "parameters", "knowledgeBase")
_TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_EXPRESSION_FORM = "a condition such as region == 'EU', or null for none"
MOST_BINDINGS = 100
MOST_TOOLS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingValues:
    """A binding; ``expression`` None: it always applies."""

    id: uuid.UUID
    knowledge_base: uuid.UUID
    expression: str | None
    label: str
    instruction: str
    enabled: bool

    def as_json(self) -> dict[str, Any]:
        return {
            "id": str(self.id),
            "knowledgeBase": str(self.knowledge_base),
            "expression": self.expression,
            "label": self.label,
            "instruction": self.instruction,
            "enabled": self.enabled,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolValues:
    """A tool: a ``rag`` one has ``knowledge_base``, a ``function`` one ``parameters``."""

    id: uuid.UUID
    type: str
    name: str
    description: str
    parameters: Any = None
    knowledge_base: uuid.UUID | None = None

    def as_json(self) -> dict[str, Any]:
        common = {
            "id": str(self.id),
            "type": self.type,
            "name": self.name,
            "description": self.description,
        }
        if self.type == "rag":
            return {**common, "knowledgeBase": str(self.knowledge_base)}
        return {**common, "parameters": self.parameters}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Configuration:
    """Equal when the JSON is, the order of users' own keys included.

    ``sample_contexts`` and ``coverage_errors`` decide no answer and are not in the manifest.
    """

    prompt: str = ""
    model: str = ""
    parameters: Any = field(default_factory=dict)
    context_variables: Any = field(default_factory=list)
    bindings: tuple[BindingValues, ...] = ()
    tools: tuple[ToolValues, ...] = ()
    sample_contexts: Any = field(default_factory=list)
    coverage_errors: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "prompt": self.prompt,
            "model": self.model,
            "parameters": self.parameters,
            "contextVariables": self.context_variables,
            "bindings": [binding.as_json() for binding in self.bindings],
            "tools": [tool.as_json() for tool in self.tools],
            "sampleContexts": self.sample_contexts,
            "coverageErrors": self.coverage_errors,
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Configuration):
            return NotImplemented
        return dump_received(self.as_json()) == dump_received(other.as_json())

    def __hash__(self) -> int:
        return hash(dump_received(self.as_json()))

    @property
    def variables(self) -> tuple[ContextVariable, ...]:
        """The declared context variables, parsed."""
        return parse_variables(self.context_variables)

    @property
    def knowledge_base_ids(self) -> set[uuid.UUID]:
        """Every knowledge base that bindings and tools refer to."""
        return {binding.knowledge_base for binding in self.bindings} | {
            tool.knowledge_base for tool in self.tools if tool.knowledge_base is not None
        }

    def differences(self, other: Configuration) -> dict[str, Any]:
        """Return the members of ``other`` that differ from this."""
        mine, theirs = self.as_json(), other.as_json()
        return {
            key: theirs[key]
            for key in theirs
            if dump_received(mine[key]) != dump_received(theirs[key])
        }


def configuration_of(version: AgentVersion) -> Configuration:
    """Return the configuration in a version's rows."""
    return Configuration(
        prompt=version.prompt,
        model=version.model,
        parameters=version.parameters,
        context_variables=version.context_variables,
        bindings=tuple(
            BindingValues(
                id=row.id,
                knowledge_base=row.knowledge_base_id,
                expression=row.expression,
                label=row.label,
                instruction=row.instruction,
                enabled=row.enabled,
            )
            for row in version.bindings.order_by("position")
        ),
        tools=tuple(
            ToolValues(
                id=row.id,
                type=row.type,
                name=row.name,
                description=row.description,
                parameters=row.parameters,
                knowledge_base=row.knowledge_base_id,
            )
            for row in version.tools.order_by("position")
        ),
        sample_contexts=version.sample_contexts,
        coverage_errors=version.coverage_errors,
    )


def read_configuration(
    values: Mapping[str, Any], start: Configuration, *, known: Configuration
) -> Configuration:
    """Return ``start`` with the members of a request over it; arrays replace arrays.

    ``known`` is the draft as it is: items that bring an ``id`` of its keep it. Raises Invalid with
    every field that is wrong, its value and what is allowed.
    """
    requests.refuse_unknown(values, (*MEMBERS, *_IGNORED))
    changes: dict[str, Any] = {}
    if "prompt" in values:
        changes["prompt"] = requests.text(values, "prompt", longest=200_000, blank=True)
    if "model" in values:
        changes["model"] = requests.text(values, "model", longest=200, blank=True)
    if "parameters" in values:
        changes["parameters"] = _object(values, "parameters")
    if "contextVariables" in values:
        parse_variables(values["contextVariables"])
        changes["context_variables"] = values["contextVariables"]
    if "bindings" in values:
        changes["bindings"] = _read_bindings(values["bindings"], known)
    if "tools" in values:
        changes["tools"] = _read_tools(values["tools"], known)
    if "sampleContexts" in values:
        changes["sample_contexts"] = read_samples(values["sampleContexts"])
    if "coverageErrors" in values:
        changes["coverage_errors"] = requests.boolean(values, "coverageErrors", default=False)
    wanted = replace(start, **changes)
    _check_expressions(wanted)
    return wanted


def _object(values: Mapping[str, Any], name: str, *, path: str | None = None) -> Any:
    value = values[name]
    if not isinstance(value, dict):
        raise Invalid.field(path or name, value, "must be a JSON object", allowed="object")
    return value


def _items(value: Any, name: str, most: int) -> list[dict[str, Any]]:
    if not isinstance(value, list) or len(value) > most:
        raise Invalid.field(name, value, f"must be a list of at most {most} items", allowed="array")
    for position, item in enumerate(value):
        if not isinstance(item, dict):
            raise Invalid.field(f"{name}.{position}", item, "must be an object", allowed="object")
    return value


def _prefixed(item: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {prefix + key: value for key, value in item.items()}


def _item_id(item: Mapping[str, Any], prefix: str, known: Sequence[uuid.UUID]) -> uuid.UUID:
    if item.get("id") is None:
        return uuid.uuid4()
    value = requests.parse_uuid(item["id"], field=prefix + "id")
    if value not in known:
        raise Invalid.field(
            prefix + "id",
            item["id"],
            "is not in this draft; leave it out for a new item",
            allowed=[str(one) for one in known],
        )
    return value


def _refuse_repeated(name: str, member: str, values: Sequence[object]) -> None:
    for position, value in enumerate(values):
        if value in values[:position]:
            raise Invalid.field(
                f"{name}.{position}.{member}", str(value), f"stands twice in {name}"
            )


def _read_bindings(value: Any, known: Configuration) -> tuple[BindingValues, ...]:
    known_ids = [binding.id for binding in known.bindings]
    bindings = []
    for position, item in enumerate(_items(value, "bindings", MOST_BINDINGS)):
        prefix = f"bindings.{position}."
        requests.refuse_unknown(item, _BINDING_MEMBERS, prefix=prefix)
        body = _prefixed(item, prefix)
        expression = item.get("expression")
        if expression is not None:
            expression = requests.text(body, prefix + "expression", blank=True)
        bindings.append(
            BindingValues(
                id=_item_id(item, prefix, known_ids),
                knowledge_base=requests.parse_uuid(
                    item.get("knowledgeBase"), field=prefix + "knowledgeBase"
                ),
                expression=expression,
                label=requests.text(body, prefix + "label", default="", longest=200, blank=True),
                instruction=requests.text(
                    body, prefix + "instruction", default="", longest=2000, blank=True
                ),
                enabled=requests.boolean(body, prefix + "enabled", default=True),
            )
        )
    _refuse_repeated("bindings", "id", [binding.id for binding in bindings])
    return tuple(bindings)


def _read_tools(value: Any, known: Configuration) -> tuple[ToolValues, ...]:
    known_ids = [tool.id for tool in known.tools]
    tools = []
    for position, item in enumerate(_items(value, "tools", MOST_TOOLS)):
        prefix = f"tools.{position}."
        requests.refuse_unknown(item, _TOOL_MEMBERS, prefix=prefix)
        body = _prefixed(item, prefix)
        kind = requests.choice(body, prefix + "type", ("rag", "function"), default="")
        name = requests.text(body, prefix + "name", longest=64)
        if not _TOOL_NAME.fullmatch(name):
            raise Invalid.field(
                prefix + "name",
                name,
                "must start with a letter and hold letters, digits, _ and -",
                allowed=_TOOL_NAME.pattern,
            )
        other = "parameters" if kind == "rag" else "knowledgeBase"
        if item.get(other) is not None:
            raise Invalid.field(prefix + other, item[other], f"does not belong to a {kind} tool")
        tools.append(
            ToolValues(
                id=_item_id(item, prefix, known_ids),
                type=kind,
                name=name,
                description=requests.text(
                    body, prefix + "description", default="", longest=10_000, blank=True
                ),
                parameters=(
                    _object(
                        {"parameters": item.get("parameters")},
                        "parameters",
                        path=prefix + "parameters",
                    )
                    if kind == "function"
                    else None
                ),
                knowledge_base=(
                    requests.parse_uuid(item.get("knowledgeBase"), field=prefix + "knowledgeBase")
                    if kind == "rag"
                    else None
                ),
            )
        )
    _refuse_repeated("tools", "id", [tool.id for tool in tools])
    _refuse_repeated("tools", "name", [tool.name for tool in tools])
    return tuple(tools)


def _check_expressions(wanted: Configuration) -> None:
    """Parse every expression against the declared variables; all that are wrong are named."""
    variables = wanted.variables
    errors: list[FieldError] = []
    code = "expression.invalid"
    for position, binding in enumerate(wanted.bindings):
        if binding.expression is None:
            continue
        try:
            parse_expression(binding.expression, variables)
        except ExpressionError as error:
            code = error.code if not errors else code
            errors.append(
                FieldError(
                    field=f"bindings.{position}.expression",
                    value=binding.expression,
                    message=error.message,
                    allowed=_EXPRESSION_FORM if error.allowed is None else error.allowed,
                )
            )
    if errors:
        raise Invalid(f"{errors[0].field}: {errors[0].message}", code=code, errors=errors)
