"""A web process is warm before its first question, without the libraries that train models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from agents.aliases import move_alias
from agents.warm_start import aliased_snapshots
from tests import builders

# What a web server's process is once it has loaded the application, as granian does.
_PROGRAM = """
import json, sys, threading, time
from registry.wsgi import application
from retrieval.encoders import _loaded
from retrieval.host_copies import copies
ends = time.monotonic() + 240
def opening():
    return any(thread.name == "warm-start" for thread in threading.enumerate()) or copies._wanted
while opening() and time.monotonic() < ends:
    time.sleep(0.05)
heavy = {"torch", "transformers", "sentence_transformers", "onnx"} & set(sys.modules)
print(json.dumps([sorted(_loaded), sorted(copies._open), sorted(heavy)]))
"""


def _web_process(folder: Path, **variables: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        cwd=settings.BASE_DIR,
        env={
            **os.environ,
            "SECRET_KEY": "tests",
            "DATABASE_NAME": str(connection.settings_dict["NAME"]),
            "HOST_COPIES_DIR": str(folder),
            "HOST_COPIES_LEAST_CHUNKS": "1",
            **variables,
        },
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.django_db(transaction=True)
def test_web_process__once_loaded__has_model_and_copies_ready_and_no_torch(tmp_path: Path) -> None:
    base = builders.base_with()
    builders.published(builders.base_with(), slug="other")
    agent, _ = builders.published(base, slug="support")
    move_alias(actor=builders.ACTOR, agent=agent, name="production", number=1)
    assert base.current_snapshot is not None
    assert aliased_snapshots() == [base.current_snapshot]

    (models, opened, heavy), _ = _web_process(tmp_path / "copies")

    assert models == [settings.EMBEDDING_MODEL]
    assert opened == [base.current_snapshot.pk]
    assert heavy == []


@pytest.mark.django_db
def test_web_process__without_its_model_or_database__starts_all_the_same(tmp_path: Path) -> None:
    _, log = _web_process(
        tmp_path / "copies", EMBEDDING_MODEL="nowhere/nothing", DATABASE_NAME="no_such_database"
    )

    assert "warm_start.no_model" in log
    assert "warm_start.no_copies" in log
