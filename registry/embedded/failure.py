"""The one error of start-up: a sentence for the person who typed the command."""

from __future__ import annotations


class StartFailed(Exception):
    """Something could not be started; the text is one sentence that says what and why."""
