"""Where tests find the real documents and collections that lie beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_data(*parts: str) -> Path:
    """Return a path below the shared data folder; skip, naming it, where the folder is missing."""
    path = SHARED_DATA.joinpath(*parts)
    if not SHARED_DATA.exists():
        pytest.skip(f"the folder {SHARED_DATA.name}/{'/'.join(parts)} is not beside this checkout")
    return path
