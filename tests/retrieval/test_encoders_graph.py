"""The exported graph: made once, checked at every load, made anew when it is not what it was."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from django.conf import settings

from registry.canonical import digest_bytes
from retrieval.encoders import DEFAULT_MODEL, encoder_for
from retrieval.encoders.graph import ensure_graph


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    """A models folder with a graph of its own to damage."""
    encoder_for(DEFAULT_MODEL)
    shutil.copytree(settings.MODELS_DIR, tmp_path / "models")
    return tmp_path / "models"


def test_ensure_graph__graph_there__left_as_it_is(models_dir):
    path = ensure_graph(models_dir).path
    before = path.stat()

    graph = ensure_graph(models_dir)

    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert graph.digest == digest_bytes(path.read_bytes())


def test_ensure_graph__copied_with_other_times__read_and_found_whole(models_dir):
    path = ensure_graph(models_dir).path
    os.utime(path, (1, 1))
    inode = path.stat().st_ino

    assert ensure_graph(models_dir).path.stat().st_ino == inode


_RARER = [
    pytest.param(damage, marks=pytest.mark.slow)
    for damage in ("cut", "no record", "broken record", "missing")
]


@pytest.mark.parametrize("damage", ["changed", *_RARER])
def test_ensure_graph__not_what_was_exported__exported_anew(models_dir, damage):
    sound = ensure_graph(models_dir)
    content = sound.path.read_bytes()
    record = sound.path.with_name("export.json")
    if damage == "cut":
        sound.path.write_bytes(content[:1000])
    elif damage == "changed":
        sound.path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "no record":
        record.unlink()
    elif damage == "broken record":
        record.write_text("{")
    else:
        sound.path.unlink()

    left_by_a_killed_export = models_dir / "export-x.tmp"
    left_by_a_killed_export.mkdir()
    (left_by_a_killed_export / "model.onnx").write_bytes(b"half")

    graph = ensure_graph(models_dir)

    assert graph == sound
    assert digest_bytes(graph.path.read_bytes()) == sound.digest
    assert not list(models_dir.glob("export-*"))
