"""Where things lie in tests: the checkout, and folders that servers can reach."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


@contextmanager
def passable_folder() -> Iterator[Path]:
    """A folder that the servers' unprivileged user may pass through; pytest's own are closed to it."""
    path = Path(tempfile.mkdtemp(prefix="registry-tests-"))
    path.chmod(0o711)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
