"""A model answers a question from passages, citing them by number.

One interface for every model: an OpenAI-compatible endpoint (``ANSWER_BASE_URL``), or the small
local one that works on a fresh machine. An answer is never needed: where there is no model, or it
fails or is slow, ``write_answer`` returns a notice in its place and raises nothing.

Each answer is written in a process of its own, killed when its time is over or its reader gone,
and ``ANSWER_PARALLELISM`` at once on one machine: so answers take neither the memory nor the
threads of the web processes, but for the one that waits.
"""

from __future__ import annotations

from retrieval.answering.models import AnswerModel, answer_model
from retrieval.answering.prompting import citations, without_citations
from retrieval.answering.writing import Answer, Notice, write_answer

__all__ = [
    "Answer",
    "AnswerModel",
    "Notice",
    "answer_model",
    "citations",
    "without_citations",
    "write_answer",
]
