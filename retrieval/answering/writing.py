"""Running a model in a process of its own, within its time, and reading what it wrote."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from retrieval.answering.models import AnswerModel, answer_model
from retrieval.answering.prompting import citations, clean, make_prompt

logger = logging.getLogger("retrieval.answering")

_PROGRAM = Path(__file__).with_name("process.py")
# How long a question waits for another answer on this machine to end.
_WAIT_SECONDS = 2.0
_TICK = 0.25
# An endpoint that never stops writing is not read for ever.
_MOST_CHARACTERS = 50_000

_REASONS = {
    "broken": "The local model could not be run.",
    "memory": "The model needed more memory than an answer may take.",
    "status": "{place} answered with status {status}.",
    "unreachable": "{place} could not be reached.",
    "unreadable": "{place} gave a reply that is not one of an OpenAI-compatible endpoint.",
    "empty": "The model gave an empty answer.",
    "ended": "The process of the model ended without an answer.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``citations`` are numbers of passages, from 1, and only of passages that it was given."""

    text: str
    model: str
    citations: list[int]

    def as_json(self) -> dict[str, Any]:
        return {"text": self.text, "model": self.model, "citations": self.citations}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Why there is no answer, or what to know about it; ``message`` is for a person."""

    code: str
    message: str

    def as_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


def write_answer(
    question: str,
    passages: Sequence[str],
    *,
    seconds: float | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> tuple[Answer | None, Notice | None]:
    """Answer ``question`` from ``passages``, in at most ``seconds`` (``ANSWER_TIMEOUT_SECONDS``).

    Never raises for what a model does: without an answer the notice says why. ``is_cancelled`` is
    asked several times a second; once true, the process is killed.
    """
    model = answer_model()
    if model.missing:
        return None, Notice(code="answer.no_model", message=model.missing)
    if not passages:
        return None, Notice(
            code="answer.no_passages",
            message="No passage was returned, so there is nothing to answer from.",
        )
    limit = settings.ANSWER_TIMEOUT_SECONDS if seconds is None else seconds
    prompt = make_prompt(question, passages, most_characters=model.most_characters)
    with _slot() as free:
        if not free:
            return None, Notice(
                code="answer.busy",
                message="Another answer is being written on this machine: ask again in a moment.",
            )
        reply = _run({**model.request, "messages": prompt.messages, "seconds": limit}, is_cancelled)
    if "failed" in reply:
        return None, _failure(model, reply, limit)
    text = clean(reply["text"])[:_MOST_CHARACTERS]
    if not text:
        return None, _failure(model, {"failed": "empty"}, limit)
    answer = Answer(text=text, model=model.name, citations=citations(text, prompt.passages))
    return answer, _remark(prompt.passages, len(passages), cut=prompt.cut or reply["cut"])


def _remark(given: int, shown: int, *, cut: bool) -> Notice | None:
    if given < shown:
        return Notice(
            code="answer.passages_left_out",
            message=f"The model was given the first {given} of {shown} passages: it reads no more.",
        )
    if cut:
        return Notice(
            code="answer.cut", message="A passage or the answer was too long and was cut."
        )
    return None


def _failure(model: AnswerModel, reply: dict[str, Any], limit: float) -> Notice:
    reason = reply["failed"]
    logger.warning(
        "answer.failed model=%s reason=%s status=%s", model.name, reason, reply.get("status")
    )
    if reason == "cancelled":
        return Notice(code="answer.cancelled", message="The answer was cancelled.")
    if reason == "slow":
        return Notice(
            code="answer.slow",
            message=f"{model.name} did not answer within {limit:g} seconds.",
        )
    place = model.place[:1].upper() + model.place[1:]
    sentence = _REASONS.get(reason, _REASONS["ended"])
    return Notice(
        code="answer.failed", message=sentence.format(place=place, status=reply.get("status"))
    )


def _run(request: dict[str, Any], is_cancelled: Callable[[], bool]) -> dict[str, Any]:
    """Return the reply of a process that was told ``request``; it is gone when this returns."""
    ends = time.monotonic() + request["seconds"]
    with subprocess.Popen(  # noqa: S603 - this interpreter, a program of this package
        [sys.executable, "-P", str(_PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=_environment(),
        start_new_session=True,
    ) as process:
        try:
            # By standard input: arguments and environment of a process can be read by others.
            told: bytes | None = json.dumps(request).encode()
            while True:
                try:
                    output, _ = process.communicate(told, timeout=_TICK)
                except subprocess.TimeoutExpired:
                    told = None
                else:
                    return _reply(output)
                if is_cancelled():
                    return {"failed": "cancelled"}
                if time.monotonic() > ends:
                    return {"failed": "slow"}
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def _reply(output: bytes) -> dict[str, Any]:
    try:
        reply = json.loads(output)
    except ValueError:
        return {"failed": "ended"}
    return reply if isinstance(reply, dict) else {"failed": "ended"}


def _environment() -> dict[str, str]:
    """Return what the process needs: no secret of the service is in it."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        "LANG": "C.UTF-8",
        "HOME": "/nonexistent",
        "OMP_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
        **settings.ANSWER_ENVIRONMENT,
    }


@contextmanager
def _slot() -> Iterator[bool]:
    """Hold one of the places for answers on this machine; False where all are taken.

    The kernel gives a place back however its process ends.
    """
    folder = Path(settings.ANSWER_LOCKS_DIR)
    folder.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + _WAIT_SECONDS
    while True:
        for number in range(settings.ANSWER_PARALLELISM):
            descriptor = os.open(
                folder / f"answer-{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            try:
                yield True
            finally:
                os.close(descriptor)
            return
        if time.monotonic() > ends:
            yield False
            return
        time.sleep(_TICK)
