"""The process that one answer is written in: ``python -m retrieval.answering.process``.

It reads one JSON request from standard input and writes one JSON reply to standard output. A
model, a client library and an endpoint's reply cost memory and time here and not in the web
process, and whoever waits can end it at any moment. Knows neither Django nor the database.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

_MIB = 1024 * 1024
# Of address space, in which the model's file and the library are mapped.
_MEMORY = {"local": 1536 * _MIB, "endpoint": 1024 * _MIB}
# Beyond the time that the caller waits: it ends this process itself, while it lives.
_GRACE_SECONDS = 5
_CONTEXT_TOKENS = 4096

Json = dict[str, Any]


class Failed(Exception):
    """The model gave no answer; ``reason`` is one word of ``REASONS``."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


def main() -> None:
    request = json.load(sys.stdin.buffer)
    reply = os.fdopen(os.dup(1), "wb")
    # Libraries print what they like; the reply has standard output to itself.
    os.dup2(2, 1)
    kind = request["kind"]
    signal.alarm(int(request["seconds"]) + _GRACE_SECONDS)
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY[kind], _MEMORY[kind]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        answer: Json = _WRITERS[kind](request)
    except Failed as failed:
        answer = {"failed": failed.reason, "status": failed.status}
    except MemoryError:
        answer = {"failed": "memory", "status": None}
    reply.write(json.dumps(answer).encode())
    reply.close()
    # Without the libraries' own goodbyes, which may take as long as an answer.
    os._exit(0)


def _local(request: Json) -> Json:
    import xllamacpp  # noqa: PLC0415 - 100 MB that the other kind of request does not need

    parameters = xllamacpp.CommonParams()
    parameters.model.path = request["model"]
    parameters.n_ctx = _CONTEXT_TOKENS
    parameters.n_parallel = 1
    parameters.warmup = False
    parameters.verbosity = -1
    # Its threads spin while they wait for each other.
    parameters.cpuparams.n_threads = request["threads"]
    parameters.cpuparams_batch.n_threads = request["threads"]
    try:
        server = xllamacpp.Server(parameters)
        completion = server.handle_chat_completions(
            {
                "messages": request["messages"],
                "max_tokens": request["maxTokens"],
                "temperature": 0,
                "seed": 1,
                "repeat_penalty": 1.1,
            }
        )
    except (RuntimeError, ValueError, OSError) as error:
        raise Failed("broken") from error
    return _completed(completion)


def _endpoint(request: Json) -> Json:
    import openai  # noqa: PLC0415 - takes most of a second, which the other kind can save

    client = openai.OpenAI(
        base_url=request["baseUrl"],
        # Endpoints of one's own often want none; the client wants some.
        api_key=request["apiKey"] or "none",
        timeout=float(request["seconds"]),
        max_retries=0,
    )
    limits: Json = {"temperature": 0, "max_tokens": request["maxTokens"]}

    def ask(**options: Any) -> Any:
        return client.chat.completions.create(
            model=request["model"], messages=request["messages"], **options
        )

    try:
        try:
            completion = ask(**limits)
        except (openai.BadRequestError, openai.UnprocessableEntityError):
            # Some models refuse to be told how to choose their words.
            completion = ask()
    except openai.APITimeoutError as error:
        raise Failed("slow") from error
    except openai.APIStatusError as error:
        raise Failed("status", error.status_code) from error
    except openai.APIConnectionError as error:
        raise Failed("unreachable") from error
    except (openai.OpenAIError, ValueError) as error:
        raise Failed("unreadable") from error
    if not hasattr(completion, "model_dump"):
        raise Failed("unreadable")
    return _completed(completion.model_dump())


def _completed(completion: Any) -> Json:
    try:
        choice = completion["choices"][0]
        text = choice["message"]["content"]
        ended = choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise Failed("unreadable") from error
    if not isinstance(text, str) or not text.strip():
        raise Failed("empty")
    return {"text": text, "cut": ended == "length"}


_WRITERS: dict[str, Callable[[Json], Json]] = {"local": _local, "endpoint": _endpoint}

if __name__ == "__main__":
    main()
