"""What must never be written in the source, whatever a linter is told to ignore."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.folders import CHECKOUT

PACKAGES = ("registry", "retrieval", "agents")
# Settings read the environment; the others tell Django where the settings are.
MAY_READ_THE_ENVIRONMENT = {
    "manage.py",
    "registry/celery.py",
    "registry/settings.py",
    "registry/wsgi.py",
}
EAGER = "task_always" + "_eager"


def source_files(*folders: str) -> list[Path]:
    return [CHECKOUT / "manage.py"] + [
        path for folder in folders for path in sorted((CHECKOUT / folder).rglob("*.py"))
    ]


def docstrings(tree: ast.AST) -> set[int]:
    """The nodes of all docstrings: what they say is not what the program does."""
    return {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }


def uses(path: Path, module: str, names: set[str]) -> Iterator[str]:
    """Where a file takes one of ``names`` from ``module``, or says it in a text."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = docstrings(tree)
    for node in ast.walk(tree):
        taken: set[str] = set()
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            taken = {node.attr} if node.value.id == module else set()
        elif isinstance(node, ast.ImportFrom) and node.module == module:
            taken = {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts = set() if id(node) in said else names
            taken = {name for name in texts if f"{module}.{name}" in node.value}
        if taken & (names | {"*"}):
            yield f"{path.relative_to(CHECKOUT)}:{getattr(node, 'lineno', 0)}"


def test_source__looked_through__never_ignores_a_trigger() -> None:
    names = {"ignore", "is_ignored", "runtime", "schema"}
    found = [
        place
        for path in source_files(*PACKAGES, "examples")
        for place in uses(path, "pgtrigger", names)
    ]
    assert found == []


def test_source__looked_through__reads_the_environment_in_settings_alone() -> None:
    names = {"environ", "environb", "getenv", "getenvb"}
    found = {
        place.split(":")[0] for path in source_files(*PACKAGES) for place in uses(path, "os", names)
    }
    assert found == MAY_READ_THE_ENVIRONMENT


@pytest.mark.parametrize("pattern", ["*.py", "*.toml", "*.yml", "*.yaml", "Makefile", "Dockerfile"])
def test_source__looked_through__never_runs_tasks_in_the_callers_process(pattern: str) -> None:
    folders = [CHECKOUT / name for name in (*PACKAGES, "tests", "examples", "benchmarks")]
    paths = [
        *CHECKOUT.glob(pattern),
        *(path for folder in folders for path in folder.rglob(pattern)),
    ]
    found = [
        str(path.relative_to(CHECKOUT))
        for path in paths
        if EAGER in path.read_text(encoding="utf-8").lower()
    ]
    assert found == []


def test_source__looked_through__switches_no_trigger_off() -> None:
    switches = ("disable trigger", "session_replication_role", "disable_sql", "drop trigger")
    found = [
        f"{path.relative_to(CHECKOUT)}: {switch}"
        for path in source_files(*PACKAGES)
        for switch in switches
        if switch in path.read_text(encoding="utf-8").lower()
    ]
    # How the builders install a trigger again.
    assert found == ["registry/immutability.py: drop trigger"]
