"""A data test that is skipped fails the run where the data are there, and else names the folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.folders import CHECKOUT

_SKIPPED = """
import pytest
from tests.data import shared_data

def test_something():
    pytest.skip("for another reason")
"""
_READING = """
from tests.data import shared_data

def test_something():
    assert shared_data("docs", "INDEX.tsv").read_text()
"""
_WITHOUT_DATA = """
import pytest

def test_something():
    pytest.skip("it has nothing to do with data")
"""


def _run(root: Path, source: str) -> tuple[int, str]:
    """Run one test in a checkout of its own at ``root``, with this one's ``tests/data.py``."""
    (root / "tests").mkdir(parents=True)
    (root / "tests" / "__init__.py").touch()
    shutil.copy(CHECKOUT / "tests" / "data.py", root / "tests" / "data.py")
    (root / "tests" / "test_it.py").write_text(source)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.data", "-p", "no:django", "-rs", "tests"],
        cwd=root,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


def _with_data(folder: Path, *files: str) -> Path:
    for name in files:
        path = folder / "shared" / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("content")
    return folder / "checkout"


@pytest.mark.parametrize(
    ("source", "files", "code", "says"),
    [
        (_READING, [], 0, "the folder data/docs/INDEX.tsv is not beside this checkout"),
        (_READING, ["docs/INDEX.tsv"], 0, "1 passed"),
        (_READING, ["other"], 1, "docs/INDEX.tsv is not there"),
        (_SKIPPED, [], 0, "for another reason"),
        (_SKIPPED, ["docs/INDEX.tsv"], 1, "skipped, although"),
        (_WITHOUT_DATA, ["docs/INDEX.tsv"], 0, "1 skipped"),
    ],
)
def test_data_test__with_and_without_the_data__never_passes_unseen(
    tmp_path: Path, source: str, files: list[str], code: int, says: str
) -> None:
    returned, output = _run(_with_data(tmp_path, *files), source)

    assert returned == code, output
    assert says in output
