"""From a document's bytes to its text, whatever the bytes do."""

from __future__ import annotations

import json
import logging
import signal
from dataclasses import asdict

from retrieval.extraction.media_types import READ_BY_LIBRARY
from retrieval.extraction.ocr import CPU_SECONDS as OCR_CPU_SECONDS
from retrieval.extraction.ocr import MEMORY as OCR_MEMORY
from retrieval.extraction.ocr import Ocr
from retrieval.extraction.results import Extracted, ExtractionFailed
from retrieval.extraction.sandbox import HostLost, Limits, Outcome, run_limited
from retrieval.extraction.sandbox_host import EXIT_EXCEPTION, EXIT_MEMORY, EXIT_OUTPUT
from retrieval.segments import Segment

logger = logging.getLogger(__name__)

_TASK = "retrieval.extraction.reading:run"
_LIBRARY = "retrieval.extraction.readers.library"
_DEFAULTS = Limits()
# Beyond what every document may take
_MEMORY_PER_BYTE = 6
_CPU_SECONDS_PER_MIB = 6
# A worker's claim on a document lasts five minutes
_MOST_SECONDS = 270
_MIB = 1024 * 1024
# Of the allowed memory: a child that traps above this has run out of it
_FULL_SHARE = 0.8
_NO_MEMORY = ("memory allocation of", "bad_alloc", "out of memory", "cannot allocate memory")


def extract(
    content: bytes, media_type: str, *, ocr: Ocr | None = None, limits: Limits | None = None
) -> Extracted:
    """Return the text of a document of a type that ``detect_type`` gave.

    The reading happens in a child process with limits on memory, time and output. Raises
    ExtractionFailed, and nothing else for any bytes; the same bytes give the same result.
    """
    limits = limits or _limits_for(content, ocr)
    options = {"media_type": media_type, "ocr": asdict(ocr) if ocr else None}
    imports = [_LIBRARY] if ocr or media_type in READ_BY_LIBRARY else []
    try:
        outcome = run_limited(_TASK, content, options, limits, imports)
    except HostLost as error:
        logger.warning("extraction.host_lost", extra={"media_type": media_type})
        raise _crashed() from error
    if outcome.exit_code != 0:
        raise _failure(outcome, media_type, limits)
    return _parsed(outcome.output)


def _limits_for(content: bytes, ocr: Ocr | None) -> Limits:
    """Allow more for larger files: a bomb is a small file that asks for much."""
    seconds = _DEFAULTS.cpu_seconds + len(content) * _CPU_SECONDS_PER_MIB // _MIB
    if ocr is not None:
        seconds += OCR_CPU_SECONDS
    return Limits(
        memory=_DEFAULTS.memory
        + _MEMORY_PER_BYTE * len(content)
        + (OCR_MEMORY if ocr is not None else 0),
        cpu_seconds=min(seconds, _MOST_SECONDS),
        wall_seconds=min(2 * seconds, _MOST_SECONDS),
    )


def _parsed(output: bytes) -> Extracted:
    head, *lines = output.splitlines()
    about = json.loads(head)
    if "code" in about:
        raise ExtractionFailed(about["code"], about["sentence"])
    segments = (json.loads(line) for line in lines)
    return Extracted(
        segments=tuple(
            Segment(page=page, section=section, text=text) for page, section, text in segments
        ),
        notices=tuple(about["notices"]),
        pages=about["pages"],
    )


def _failure(outcome: Outcome, media_type: str, limits: Limits) -> ExtractionFailed:
    logger.warning(
        "extraction.stopped",
        extra={
            "media_type": media_type,
            "exit_code": outcome.exit_code,
            "signal": outcome.signal,
            "timed_out": outcome.timed_out,
            "errors": outcome.errors[-500:],
        },
    )
    if outcome.timed_out:
        return ExtractionFailed(
            "extraction.timed_out",
            "Reading the document took too long and was stopped: a document of its size may take "
            f"{limits.cpu_seconds:g} seconds of computing, {limits.wall_seconds:g} in all. "
            "Split it, or save it anew.",
        )
    if outcome.exit_code == EXIT_MEMORY or _ran_out_of_memory(outcome, limits):
        return ExtractionFailed(
            "extraction.too_large",
            f"Reading the document takes more than the {limits.memory / _MIB:,.0f} MiB of memory "
            "that a document of its size may take: split it.",
        )
    if outcome.exit_code == EXIT_OUTPUT or outcome.signal == signal.SIGXFSZ:
        return ExtractionFailed(
            "extraction.too_large",
            f"The text of the document takes more than {limits.output / _MIB:,.4g} MiB: split it.",
        )
    return _crashed()


def _ran_out_of_memory(outcome: Outcome, limits: Limits) -> bool:
    """Tell whether a library ended for want of memory: some say so, some trap or give up."""
    says_so = any(words in outcome.errors.lower() for words in _NO_MEMORY)
    is_full = outcome.peak_memory > limits.memory * _FULL_SHARE
    gave_up = outcome.signal is not None or outcome.exit_code == EXIT_EXCEPTION
    return says_so or (gave_up and is_full)


def _crashed() -> ExtractionFailed:
    return ExtractionFailed(
        "extraction.crashed",
        "The document could not be read: it broke the program that reads it. "
        "Open it where it was made and save or export it anew.",
    )
