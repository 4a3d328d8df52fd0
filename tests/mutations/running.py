"""Break one rule in a copy of the project and see which test goes red.

    python -m tests.mutations.running [NAME …]

prints a line of docs/mutations.md per mutation, and ends with 1 where one was not noticed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.folders import CHECKOUT
from tests.mutations.catalogue import MUTATIONS, Mutation

SECONDS = 600
_MIGRATION = """from django.db import migrations


class Migration(migrations.Migration):
    dependencies = {dependencies!r}
    operations = [migrations.RunSQL({sql!r})]
"""


@contextmanager
def copied_project() -> Iterator[Path]:
    """A copy of what is under version control, or will be."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        capture_output=True,
        check=True,
    ).stdout.split(b"\0")
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        for name in filter(None, (one.decode() for one in listed)):
            target = Path(folder, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if (CHECKOUT / name).is_file():
                shutil.copy2(CHECKOUT / name, target)
        yield Path(folder)


@contextmanager
def mutated(project: Path, mutation: Mutation) -> Iterator[None]:
    """Apply a mutation; a line of code that is no longer there is an error, not a pass."""
    before: dict[Path, str | None] = {}
    for name, old, new in mutation.edits:
        path = project / name
        text = path.read_text(encoding="utf-8")
        before.setdefault(path, text)
        if text.count(old) != 1:
            raise LookupError(f"{mutation.name}: {name} has {text.count(old)} times: {old}")
        path.write_text(text.replace(old, new), encoding="utf-8")
    if mutation.sql:
        # After all others, so that it breaks the database that they made.
        path = project / "agents" / "migrations" / "9999_mutation.py"
        before[path] = None
        path.write_text(_MIGRATION.format(dependencies=_leaves(project), sql=mutation.sql))
    try:
        yield
    finally:
        for path, content in before.items():
            if content is None:
                path.unlink()
            else:
                path.write_text(content, encoding="utf-8")


def _leaves(project: Path) -> list[tuple[str, str]]:
    return [
        (app, max(path.stem for path in (project / app / "migrations").glob("0*.py")))
        for app in ("registry", "retrieval", "agents")
    ]


def caught_by(project: Path, mutation: Mutation) -> str | None:
    """Return the first test that goes red, None where all stay green."""
    with mutated(project, mutation):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=no", "--no-header"),
                *("--show-capture=no", "-p", "no:randomly", "-p", "no:cacheprovider"),
                *mutation.tests,
            ],
            cwd=project,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    red = re.search(r"^(?:FAILED|ERROR) (?:\S+::)(\S+)", done.stdout, re.MULTILINE)
    if done.returncode == 0:
        return None
    if done.returncode != 1 or red is None:
        raise RuntimeError(f"{mutation.name}: the tests did not run:\n{done.stdout}{done.stderr}")
    return red[1]


def main(names: list[str]) -> int:
    wanted = [one for one in MUTATIONS if not names or one.name in names]
    survived = 0
    with copied_project() as project:
        for mutation in wanted:
            try:
                test = caught_by(project, mutation)
            except (LookupError, RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"!! {error}", flush=True)
                survived += 1
                continue
            survived += test is None
            told = "**nothing**" if test is None else f"`{test}`"
            print(f"| {mutation.invariant} | {mutation.what} | {told} |", flush=True)
    print(f"{len(wanted)} mutations, {survived} not caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
