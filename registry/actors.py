"""Who acts: a key, a person, a command or a task, as the audit log names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """``label`` is kept as text for ever: the key's name, the user's name, the command."""

    kind: Literal["key", "user", "command", "task"]
    label: str
