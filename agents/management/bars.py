"""A progress bar on the terminal of a command; none where the output is a file or a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Callable[[int], object]]:
    """Show a bar of ``total`` chunks; the function given moves it on by some."""
    with tqdm(total=total, desc=label, unit=" chunks", disable=None, leave=False) as bar:
        yield bar.update
