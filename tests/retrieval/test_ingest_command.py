"""``manage.py ingest``: a folder and a knowledge base are made to agree, and said how."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from registry.models import AuditEvent
from retrieval.knowledge_bases import find
from retrieval.models import Document, KnowledgeBase
from tests import builders
from tests.builders import RETURNS, WARRANTY
from tests.worker import Worker


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "help"
    (root / "eu").mkdir(parents=True)
    (root / "eu" / "refunds.md").write_text(RETURNS)
    (root / "warranty.md").write_text(WARRANTY)
    return root


def _run(folder: Path, *options: str, code: int = 0) -> tuple[str, str]:
    out, errors = StringIO(), StringIO()
    arguments = [str(folder), "--knowledge-base", "Help", *options]
    ended = 0
    try:
        call_command("ingest", *arguments, stdout=out, stderr=errors)
    except SystemExit as stop:
        ended = int(str(stop.code))
    assert ended == code, errors.getvalue()
    return out.getvalue(), errors.getvalue()


def _names() -> list[str]:
    living = Document.objects.filter(deleted_at__isnull=True)
    return list(living.order_by("name").values_list("name", flat=True))


def _known(name: str) -> KnowledgeBase:
    return KnowledgeBase.objects.get(name=name)


def test_folder__into_a_new_base__is_named_by_its_paths(db: None, folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("hidden")
    (folder / ".hidden.md").write_text("hidden")

    out, _ = _run(folder, "--create")

    assert _names() == ["eu/refunds.md", "warranty.md"]
    assert "created 2" in out
    actors = AuditEvent.objects.filter(action="document.created").values_list("actor", flat=True)
    assert set(actors) == {"ingest"}


def test_folder__again__writes_only_what_changed(db: None, folder: Path) -> None:
    _run(folder, "--create")
    (folder / "warranty.md").write_text(WARRANTY + "\nAnd more.\n")
    (folder / "new.md").write_text("# New\n")
    before = AuditEvent.objects.count()

    out, _ = _run(folder)

    assert out.strip() == "created 1, updated 0, replaced 1, unchanged 1, failed 0"
    assert AuditEvent.objects.count() == before + 2


def test_base__by_its_id__is_found(db: None, folder: Path) -> None:
    base = builders.make_base("Other")

    call_command("ingest", str(folder), "--knowledge-base", str(base.pk), stdout=StringIO())

    assert Document.objects.filter(knowledge_base=base).count() == 2


def test_failures__of_a_folder__are_listed_at_the_end_with_reasons(db: None, folder: Path) -> None:
    (folder / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0")
    (folder / "empty.md").touch()
    (folder / "gone.md").symlink_to(folder / "nowhere.md")
    os.mkfifo(folder / "pipe.md")

    out, errors = _run(folder, "--create", code=1)

    assert "created 2, updated 0, replaced 0, unchanged 0, failed 4" in out
    assert "failed: a.png: The file is a PNG picture: text on pictures" in errors
    assert "failed: empty.md: file: The file is empty (0 bytes)." in errors
    assert "failed: gone.md: file: cannot be read" in errors
    assert "failed: pipe.md: file: cannot be read: it is not a file" in errors
    assert _names() == ["eu/refunds.md", "warranty.md"]


def test_excluded__of_a_folder__are_left_out_and_not_deleted(db: None, folder: Path) -> None:
    _run(folder, "--create")

    out, _ = _run(folder, "--exclude", "eu/*", "--exclude", "*.txt", "--delete-missing")

    assert "deleted 0" in out
    assert _names() == ["eu/refunds.md", "warranty.md"]


def test_delete_missing__in_a_prefix__deletes_what_is_not_in_the_folder(
    db: None, folder: Path
) -> None:
    base = builders.make_base("Help")
    for name in ("site/old.md", "outside.md"):
        builders.add_text(base, name, f"Text of {name}.")

    out, _ = _run(folder, "--folder", "site", "--delete-missing")

    assert "deleted 1" in out
    assert _names() == ["outside.md", "site/eu/refunds.md", "site/warranty.md"]


def test_delete_missing__with_an_empty_folder__is_refused_unless_forced(
    db: None, folder: Path, tmp_path: Path
) -> None:
    _run(folder, "--create")
    empty = tmp_path / "empty"
    empty.mkdir()

    with pytest.raises(CommandError, match="--force does it"):
        _run(empty, "--delete-missing")
    assert len(_names()) == 2

    out, _ = _run(empty, "--delete-missing", "--force")
    assert "deleted 2" in out
    assert _names() == []


def test_dry_run__of_many_changes__says_everything_and_does_nothing(db: None, folder: Path) -> None:
    _run(folder, "--create")
    (folder / "warranty.md").write_text("Other words.")
    (folder / "new.md").write_text("# New\n")
    (folder / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0")
    (folder / "eu" / "refunds.md").unlink()
    before = AuditEvent.objects.count()

    out, errors = _run(folder, "--delete-missing", "--dry-run", code=1)

    assert out.splitlines() == [
        "would be created: new.md",
        "would be replaced: warranty.md",
        "would be deleted: eu/refunds.md",
        "would be created 1, updated 0, replaced 1, unchanged 0, failed 1, deleted 1",
    ]
    assert "bad.png" in errors
    assert AuditEvent.objects.count() == before
    assert _names() == ["eu/refunds.md", "warranty.md"]


def test_dry_run__of_a_base_to_be_created__creates_none(db: None, folder: Path) -> None:
    out, _ = _run(folder, "--create", "--dry-run")

    assert "would be created: eu/refunds.md" in out
    assert not KnowledgeBase.objects.exists()


def test_mistakes__in_the_arguments__are_one_sentence(db: None, folder: Path) -> None:
    with pytest.raises(CommandError, match="There is no folder"):
        _run(folder / "nowhere")
    with pytest.raises(CommandError, match="There is no knowledge base 'Help'; --create makes it"):
        _run(folder)


def test_wait__with_a_worker__ends_indexed_and_reports_what_cannot_be_read(
    worker: Worker, folder: Path
) -> None:
    (folder / "broken.pdf").write_text("%PDF-1.4 nothing")

    out, errors = _run(folder, "--create", "--wait", code=1)

    assert "created 3" in out
    assert "failed: broken.pdf: The PDF file is damaged" in errors
    snapshot: Any = find(_known("Help").pk).current_snapshot
    assert (snapshot.state, snapshot.document_count) == ("ready", 2)
