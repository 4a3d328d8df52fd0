from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.instance import Client, Instance
from tests.folders import passable_folder


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with passable_folder() as path:
        yield path


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
