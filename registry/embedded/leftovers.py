"""What an ``up`` that was killed left running, found and ended by the next one."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress

import psutil

from registry.embedded.instance import Instance
from registry.embedded.processes import end

_SECONDS = 10.0


def remember(instance: Instance, children: Mapping[str, int]) -> None:
    """Write down which children run: their names and process numbers."""
    partial = instance.children_path.with_suffix(".partial")
    partial.write_text(json.dumps(dict(children)))
    partial.replace(instance.children_path)


def end_remembered(instance: Instance) -> list[str]:
    """Kill what is left of the children written down and return their names.

    Each child leads a session; the members of that session that carry this instance's folder in
    their environment are its remains, and a number that another program has by now is not.
    """
    try:
        children: dict[str, int] = json.loads(instance.children_path.read_text())
    except (FileNotFoundError, ValueError):
        return []
    sessions = {pid: name for name, pid in children.items()}
    remains: dict[str, list[psutil.Process]] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            name = sessions.get(os.getsid(process.pid))
            ours = name and process.environ().get("DATA_DIR") == str(instance.data_dir)
            if name and ours and process.pid != os.getpid():
                remains.setdefault(name, []).append(process)
    end([one for found in remains.values() for one in found], signal.SIGKILL, _SECONDS)
    return sorted(remains)
