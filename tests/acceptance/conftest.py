from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.instance import Client, Instance


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that the unprivileged user of an embedded PostgreSQL can reach."""
    path = Path(tempfile.mkdtemp(prefix="registry-acceptance-"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def instance(folder: Path) -> Iterator[Instance]:
    running = Instance(folder / "data")
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def publisher(instance: Instance) -> Client:
    return instance.client("publisher")
