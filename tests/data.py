"""Where tests find the real documents and collections that lie beside the checkout.

Where the folder is missing, the tests on it skip and name it. Where it is there, one of them that
skips fails the run: what was not looked at must not pass for what holds. A plugin of pytest, see
``addopts``.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
# Modules that hand the data on to tests
_ON_DATA = ("tests.data", "tests.acceptance.promise")


def shared_data(*parts: str) -> Path:
    """Return a path below the shared data folder; skip, naming it, where the folder is missing."""
    path = SHARED_DATA.joinpath(*parts)
    if not SHARED_DATA.exists():
        pytest.skip(f"the folder {SHARED_DATA.name}/{'/'.join(parts)} is not beside this checkout")
    if not path.exists():
        pytest.fail(
            f"{SHARED_DATA.name} is beside this checkout, but {'/'.join(parts)} is not there"
        )
    return path


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a skipped test on the data where the data are there."""
    report = yield
    if report.skipped and SHARED_DATA.exists() and _is_on_data(item):
        report.outcome = "failed"
        report.longrepr = f"skipped, although {SHARED_DATA} is there: {report.longrepr}"
    return report


def _is_on_data(item: pytest.Item) -> bool:
    members = vars(getattr(item, "module", None) or object).values()
    return any(
        member is SHARED_DATA
        or getattr(member, "__module__", None) in _ON_DATA
        or getattr(member, "__name__", None) in _ON_DATA
        for member in members
    )
