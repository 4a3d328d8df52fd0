"""What ``resolve`` answers: everything that an agent starts a conversation with.

An answer is put together from pieces: what never changes of a version is written once, what its
bindings decide is remembered by the values that they read (``agents.deciding``). The answers to
contexts that come again are kept whole, within a bound.
"""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agents.deciding import Decided, Decider
from agents.expressions import ContextChecks
from agents.recording import checked_context, kept_problems, trace_of
from agents.resolution import applicable
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
_MOST_SEEN: Final = 50_000


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
                context_problems=answer.kept_problems,
            )
        )
    return answer.body(trace_id)


class _Answer:
    """The answer to one context. Kept and shared between requests, hence never changed."""

    def __init__(
        self, texts: _Texts, context: Mapping[str, Any], decided: Sequence[Decided]
    ) -> None:
        self._texts = texts
        self._context = context
        self._decided = decided
        self._kept: dict[str, Any] | None = None
        self._problems = texts.checks.problems(context)
        problems = dump_received(self._problems).encode()
        # Of the digests, so that the texts need not be read again: equal exactly where they are.
        digest = hashlib.sha256(texts.digest + b"".join([one.digest for one in decided]))
        digest.update(problems)
        self.etag = PREFIX + digest.hexdigest()
        attached = applicable(one.decision for one in decided)
        self._tail = b"".join(
            (
                b',"bindings":[',
                b",".join([one.text for one in decided]),
                b'],"knowledgeBases":[',
                b",".join([texts.bases[binding.values.id] for binding in attached]),
                b'],"contextProblems":',
                problems,
                f',"etag":"{self.etag}","traceId":'.encode(),
            )
        )

    def body(self, trace_id: uuid.UUID | None) -> bytes:
        shown = b"null}" if trace_id is None else f'"{trace_id}"}}'.encode()
        return self._texts.head + self._tail + shown

    @property
    def kept_context(self) -> dict[str, Any]:
        """What a trace keeps of the context."""
        if self._kept is None:
            decisions = [one.decision for one in self._decided]
            self._kept = checked_context(self._texts.version, decisions, self._context)
        return self._kept

    @property
    def kept_problems(self) -> list[dict[str, Any]]:
        """What a trace keeps of the context's problems."""
        return kept_problems(self._texts.version, self._problems)

    @property
    def traced(self) -> list[dict[str, Any]]:
        """What a trace keeps of the decisions."""
        return [one.traced for one in self._decided]

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
        self.bases = {binding.values.id: self._base(binding) for binding in version.bindings}
        self.checks = ContextChecks(version.variables)
        # What is attached follows from the decisions, whose texts have all that it says.
        self.digest = hashlib.sha256(self.head).digest()

    def _base(self, binding: Binding) -> bytes:
        base = self.version.knowledge_base(binding.values.knowledge_base)
        return dump_received({**base, "instruction": binding.values.instruction}).encode()


def _answer(version: Runnable, context: Mapping[str, Any], form: str | None) -> _Answer:
    texts: _Texts | None = version.prepared.get(form)
    if texts is None:
        texts = version.prepared[form] = _Texts(version, form)
    decider: Decider | None = version.prepared.get(Decider)
    if decider is None:
        decider = version.prepared[Decider] = Decider(version)
    if not version.digest:
        return _Answer(texts, context, decider.decide(context))
    written = dump_received(context).encode()
    key = texts.digest + hashlib.sha256(written).digest()
    answer = _recent.get(key)
    if answer is None:
        answer = _Answer(texts, context, decider.decide(context))
        _recent.put(key, answer, answer.size + 2 * len(written))
    return answer


class _Recent:
    """The answers used last, as many as fit. What is asked for once only is not kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, tuple[_Answer, int]] = OrderedDict()
        self._seen: set[int] = set()

    def get(self, key: bytes) -> _Answer | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: bytes, answer: _Answer, size: int) -> None:
        """Keep an answer that is made for the second time."""
        with self._lock:
            seen = hash(key)
            if seen not in self._seen:
                if len(self._seen) >= _MOST_SEEN:
                    self._seen.clear()
                self._seen.add(seen)
                return
            if key in self._kept:
                return
            self._kept[key] = (answer, size)
            self._taken += size
            while self._taken > self._most:
                _, (_, freed) = self._kept.popitem(last=False)
                self._taken -= freed


_recent = _Recent(MOST_KEPT)
