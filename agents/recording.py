"""What a trace keeps of a conversation: variables read or declared, never the whole context."""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.conf import settings

from agents.expressions import narrowed
from agents.versions import Runnable
from registry.access import Access
from registry.fields import dump_received
from retrieval.models import Trace

if TYPE_CHECKING:
    from agents.resolution import BindingDecision


def kept_context(
    version: Runnable, decisions: Iterable[BindingDecision], context: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the variables of ``context`` that were read; sensitive ones as an HMAC.

    The HMAC's secret is the installation's, so equal values can be told, and nothing else.
    """
    names = {name for decision in decisions for name in decision.read}
    return _protected(version, narrowed(dict(context), names))


def checked_context(
    version: Runnable, decisions: Iterable[BindingDecision], context: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the variables of ``context`` that were read or are declared; sensitive ones as HMAC.

    All that the decisions and the problems of a context depend on.
    """
    names = {name for decision in decisions for name in decision.read}
    names.update(variable.name for variable in version.variables)
    return _protected(version, narrowed(dict(context), names))


def kept_problems(version: Runnable, problems: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the problems of a context without what they say of a sensitive variable's value."""
    sensitive = [variable.keys for variable in version.variables if variable.sensitive]
    touching = {
        variable.name
        for variable in version.variables
        if any(overlap(variable.keys, keys) for keys in sensitive)
    }
    return [
        {"variable": one["variable"], "reason": one["reason"]}
        if one["variable"] in touching
        else dict(one)
        for one in problems
    ]


def overlap(keys: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Say whether one path leads into the other: their values hold each other."""
    return all(key == other for key, other in zip(keys, others, strict=False))


def declared_context(version: Runnable, context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the declared variables of ``context``; sensitive ones as an HMAC."""
    names = [variable.name for variable in version.variables]
    return _protected(version, narrowed(dict(context), names))


def _protected(version: Runnable, context: dict[str, Any]) -> dict[str, Any]:
    for variable in version.variables:
        if variable.sensitive:
            _replace(context, variable.keys)
    return context


def protected_keys(context: Any, keys: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return as much of ``keys`` as leads to an HMAC in a kept context, None where nothing does."""
    values = [context]
    for depth, key in enumerate(keys, 1):
        values = [
            value[name]
            for value in values
            if isinstance(value, dict)
            for name in _same_names(value, key)
        ]
        if any(isinstance(value, dict) and set(value) == {"hmac"} for value in values):
            return keys[:depth]
    return None


def _replace(context: dict[str, Any], keys: tuple[str, ...]) -> None:
    """Replace the value at ``keys`` by its HMAC, without touching the caller's objects.

    What stands in its way and is no object goes as a whole: a list of customers holds each one's
    number, though no name leads there.
    """
    for name in _same_names(context, keys[0]):
        value = context[name]
        if isinstance(value, dict) and len(keys) > 1:
            context[name] = copy = dict(value)
            _replace(copy, keys[1:])
        elif value is not None or len(keys) == 1:
            context[name] = {"hmac": _hmac(value)}


def _same_names(value: Mapping[str, Any], key: str) -> list[str]:
    """Return the names in an object that expressions take for ``key``: equal in NFC."""
    return [name for name in value if unicodedata.normalize("NFC", name) == key]


def _hmac(value: Any) -> str:
    secret = f"trace:{settings.SECRET_KEY}".encode()
    return hmac.new(secret, dump_received(value).encode(), hashlib.sha256).hexdigest()


def trace_of(
    kind: str,
    *,
    version: Runnable,
    access: Access,
    conversation_id: str,
    arguments: dict[str, Any],
    decisions: list[dict[str, Any]] | None = None,
    context_problems: list[dict[str, Any]] | None = None,
    groups: list[dict[str, Any]] | None = None,
    receipt: str = "",
) -> Trace:
    """Return the trace of one answer of ``version``, not yet written."""
    return Trace(
        kind=kind,
        api_key_name=access.actor.label,
        agent_slug=version.slug,
        version_number=version.number,
        draft_revision=version.revision if version.number is None else None,
        manifest_digest=version.digest,
        conversation_id=conversation_id,
        arguments=arguments,
        decisions=decisions or [],
        context_problems=context_problems,
        groups=groups or [],
        receipt=receipt,
    )
