"""What ``resolve`` answers: everything that an agent starts a conversation with.

An answer is written as text from pieces: what never changes of a version is written once, what a
sub-expression comes to once per value. The answers to contexts that come again are kept whole,
within a bound. So the usual request costs the evaluation of its expressions and little more.
"""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agents.expressions import ContextChecks, Part
from agents.recording import kept_context, trace_of
from agents.resolution import BindingDecision, applicable, decide
from agents.tool_formats import tool_definitions
from agents.versions import Binding, Runnable
from registry.access import Access
from registry.canonical import PREFIX
from registry.fields import dump_received
from retrieval.traces import record_trace

# Bytes of answers and contexts that a process keeps.
MOST_KEPT: Final = 32 * 1024 * 1024
# What an entry takes beside its texts, roughly.
_ENTRY_BYTES: Final = 2_000


def resolve(
    *,
    version: Runnable,
    context: Mapping[str, Any],
    access: Access,
    known: str | None = None,
    trace: bool = True,
    conversation_id: str = "",
    form: str | None = None,
) -> dict[str, Any]:
    """Return all that an agent needs to start a conversation, with the reason of each decision.

    ``known`` is the ``etag`` of an earlier answer: where it still holds the answer is
    ``{"unchanged": true, "etag": …}`` and leaves no trace; nor does ``trace`` False. ``form``
    writes the tools as OpenAI, Anthropic or MCP clients take them. Raises Invalid for another.
    """
    body = resolve_as_json(
        version=version,
        context=context,
        access=access,
        known=known,
        trace=trace,
        conversation_id=conversation_id,
        form=form,
    )
    answer: dict[str, Any] = json.loads(body)
    return answer


def resolve_as_json(
    *,
    version: Runnable,
    context: Mapping[str, Any],
    access: Access,
    known: str | None,
    trace: bool,
    conversation_id: str,
    form: str | None,
) -> bytes:
    """Return the answer of ``resolve`` as JSON in UTF-8."""
    answer = _answer(version, context, form)
    if known == answer.etag:
        return f'{{"unchanged":true,"etag":"{answer.etag}"}}'.encode()
    trace_id = None
    if trace:
        trace_id = record_trace(
            trace_of(
                "resolve",
                version=version,
                access=access,
                conversation_id=conversation_id,
                arguments={"context": answer.kept_context},
                decisions=answer.traced,
            )
        )
    return answer.body(trace_id)


class _Answer:
    """The answer to one context. Kept and shared between requests, hence never changed."""

    def __init__(
        self,
        texts: _Texts,
        context: Mapping[str, Any],
        decisions: Sequence[BindingDecision],
    ) -> None:
        self._texts = texts
        self._context = context
        self._decisions = decisions
        self._kept: tuple[dict[str, Any], list[dict[str, Any]]] | None = None
        bindings = ",".join(map(texts.decision, texts.bindings, decisions))
        problems = dump_received(texts.checks.problems(context))
        bases = ",".join(texts.bases[binding.values.id] for binding in applicable(list(decisions)))
        digest = hashlib.sha256(texts.digest)
        digest.update(f"[{bindings}]{problems}".encode())
        self.etag = PREFIX + digest.hexdigest()
        self._tail = (
            f',"bindings":[{bindings}],"knowledgeBases":[{bases}],"contextProblems":{problems},'
            f'"etag":"{self.etag}","traceId":'
        ).encode()

    def body(self, trace_id: uuid.UUID | None) -> bytes:
        shown = b"null}" if trace_id is None else f'"{trace_id}"}}'.encode()
        return self._texts.head + self._tail + shown

    @property
    def kept_context(self) -> dict[str, Any]:
        return self._for_trace()[0]

    @property
    def traced(self) -> list[dict[str, Any]]:
        return self._for_trace()[1]

    def _for_trace(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        if self._kept is None:
            version = self._texts.version
            described = [decision.as_json(version) for decision in self._decisions]
            self._kept = (
                kept_context(version, self._decisions, self._context),
                [
                    {key: value for key, value in item.items() if key != "instruction"}
                    for item in described
                ],
            )
        return self._kept

    @property
    def size(self) -> int:
        return len(self._tail) + _ENTRY_BYTES


class _Texts:
    """What every answer of a version says alike, in one format of its tools."""

    def __init__(self, version: Runnable, form: str | None) -> None:
        configuration = version.configuration
        tools = (
            [tool.as_json() for tool in configuration.tools]
            if form is None
            else tool_definitions(version, form)
        )
        head = dump_received(
            {
                "agent": version.slug,
                "version": version.number if version.number is not None else "draft",
                "digest": version.digest or None,
                "prompt": configuration.prompt,
                "model": configuration.model,
                "parameters": configuration.parameters,
                "tools": tools,
            }
        )
        self.version = version
        self.head = head[:-1].encode()
        self.bindings = [self._binding(binding) for binding in version.bindings]
        self.bases = {binding.values.id: self._base(binding) for binding in version.bindings}
        self.checks = ContextChecks(version.variables)
        # Every piece of text, so that the etag of an answer need not read them again.
        pieces = [head, *self.bindings, *self.bases.values()]
        self.digest = hashlib.sha256(dump_received(pieces).encode()).digest()
        self._parts: dict[Part, str] = {}

    def _binding(self, binding: Binding) -> str:
        values = binding.values
        text = dump_received(
            {
                "label": values.label,
                "knowledgeBase": self.version.knowledge_base(values.knowledge_base),
                "expression": values.expression,
                "instruction": values.instruction,
            }
        )
        return text[:-1]

    def _base(self, binding: Binding) -> str:
        base = self.version.knowledge_base(binding.values.knowledge_base)
        return dump_received({**base, "instruction": binding.values.instruction})

    def decision(self, head: str, decision: BindingDecision) -> str:
        """Return a decision as ``BindingDecision.as_json`` has it, in JSON."""
        parts = ",".join(map(self._part, decision.parts)) if decision.parts else ""
        applies = "true" if decision.applies else "false"
        detail = "null" if decision.detail is None else dump_received(decision.detail)
        return (
            f'{head},"applies":{applies},"reason":"{decision.reason}",'
            f'"detail":{detail},"parts":[{parts}]}}'
        )

    def _part(self, part: Part) -> str:
        text = self._parts.get(part)
        if text is None:
            text = self._parts[part] = dump_received(part._asdict())
        return text


def _answer(version: Runnable, context: Mapping[str, Any], form: str | None) -> _Answer:
    texts: _Texts | None = version.prepared.get(form)
    if texts is None:
        texts = version.prepared[form] = _Texts(version, form)
    if not version.digest:
        return _Answer(texts, context, decide(version, context))
    written = dump_received(context).encode()
    key = (texts.digest, hashlib.sha256(written).digest())
    answer = _recent.get(key)
    if answer is None:
        answer = _Answer(texts, context, decide(version, context))
        _recent.put(key, answer, answer.size + 2 * len(written))
    return answer


class _Recent:
    """The answers used last, as many as fit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[bytes, bytes], tuple[_Answer, int]] = OrderedDict()

    def get(self, key: tuple[bytes, bytes]) -> _Answer | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: tuple[bytes, bytes], answer: _Answer, size: int) -> None:
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = (answer, size)
            self._taken += size
            while self._taken > self._most:
                _, (_, freed) = self._kept.popitem(last=False)
                self._taken -= freed


_recent = _Recent(MOST_KEPT)
