"""The deployment's files against their schema, the settings and each other."""

import ast
import fnmatch
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.composition import (
    Unset,
    image_of,
    interpolated,
    raw_compose,
    services,
    variables_of_env,
)
from tests.folders import CHECKOUT

_READERS = {"_text", "_flag", "_number", "_words", "_choice"}
# manage.py sets it by itself, for the commands that need it.
_NOT_CONFIGURED = {"DATABASE_ROLE"}
_OWNER_ONLY = {"MIGRATION_DATABASE_URL"}
_OURS = ("migrate", "web", "worker", "beat")


def _example() -> str:
    return (CHECKOUT / ".env.example").read_text(encoding="utf-8")


def _filled() -> dict[str, str]:
    blank = re.sub(r"(?m)^(\w*(?:PASSWORD|SECRET_KEY))=$", r"\1=filled-in", _example())
    return variables_of_env(blank)


def _settings_variables() -> dict[str, Any]:
    """Return every variable that settings.py reads, with its default where that is a constant."""
    tree = ast.parse((CHECKOUT / "registry" / "settings.py").read_text(encoding="utf-8"))
    found: dict[str, Any] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        name = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
        if node.func.id in _READERS and isinstance(name, str):
            default = [*node.args[1:], *(word.value for word in node.keywords)][:1]
            constant = default[0].value if default and isinstance(default[0], ast.Constant) else ""
            found[name] = found.get(name) or constant
    return found


def _used_by_compose() -> set[str]:
    text = (CHECKOUT / "docker-compose.yml").read_text(encoding="utf-8")
    return set(re.findall(r"(?<!\$)\$\{(\w+)", text))


def _copied() -> list[str]:
    return [
        source
        for source, _ in image_of((CHECKOUT / "Dockerfile").read_text(encoding="utf-8")).copies
    ]


def test_compose_file__against_the_compose_specification__is_valid():
    checked = subprocess.run(
        [
            *(sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"),
            str(CHECKOUT / "docker-compose.yml"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_compose_file__what_it_refers_to__is_there():
    raw = raw_compose()

    for name, service in raw["services"].items():
        for other, how in service.get("depends_on", {}).items():
            assert other in raw["services"], (name, other)
            if how["condition"] == "service_healthy":
                assert raw["services"][other]["healthcheck"]["test"], (name, other)
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (CHECKOUT / source).is_file() if source[0] == "." else source in raw["volumes"]


def test_compose_file__variables_it_uses__are_all_in_the_example():
    assert _used_by_compose() <= set(variables_of_env(_example()))


def test_example__against_settings__each_variable_is_known_on_both_sides():
    example, settings = set(variables_of_env(_example())), set(_settings_variables())

    assert len(settings) > 20
    assert settings - example == set(), "read by settings.py, missing in .env.example"
    assert example - settings - _used_by_compose() == set(), "in .env.example, read by nothing"


def test_example__optional_variables__show_the_defaults():
    example = variables_of_env(_example())
    defaults = {name: value for name, value in _settings_variables().items() if value != ""}

    expected = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in defaults.items()
    }
    assert {name: example[name] for name in expected} == expected


@pytest.mark.parametrize("name", _OURS)
def test_service__of_ours__gets_every_setting_and_no_password_it_does_not_need(name):
    wanted = set(_settings_variables()) - _NOT_CONFIGURED - _OWNER_ONLY
    given = set(raw_compose()["services"][name]["environment"])

    assert given == wanted | (_OWNER_ONLY if name == "migrate" else set())


@pytest.mark.parametrize(
    "name",
    ["SECRET_KEY", "POSTGRES_PASSWORD", "REGISTRY_OWNER_PASSWORD", "REGISTRY_APP_PASSWORD"],
)
def test_example__copied_but_not_filled_in__does_not_start(name):
    with pytest.raises(Unset, match=name):
        services({**_filled(), name: ""})


def test_example__filled_in__gives_one_password_in_one_place():
    web = services(_filled())["web"].environment

    assert web["DATABASE_URL"] == "postgresql://registry_app:filled-in@db:5432/registry"


def test_dockerfile__what_it_copies__is_there_and_in_the_build_context():
    patterns = (CHECKOUT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    kept = {pattern[1:] for pattern in patterns if pattern.startswith("!")}

    assert "*" in patterns
    assert [source for source in _copied() if not (CHECKOUT / source).exists()] == []
    assert set(_copied()) == kept


def test_dockerignore__secrets_and_data__stay_out():
    patterns = (CHECKOUT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    kept = {pattern[1:] for pattern in patterns if pattern.startswith("!")}

    for name in (".env", ".git", ".venv", ".data", "tests"):
        assert not any(fnmatch.fnmatch(name, pattern) for pattern in kept)


def test_create_roles__in_the_image__can_be_run():
    script = Path(CHECKOUT, "deploy", "create-roles.sh")

    assert script.stat().st_mode & 0o111
    assert script.read_text().startswith("#!/bin/sh\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a ${X} b", "a 1 b"), ("${Y:-d}", "d"), ("${Y}", ""), ("$$X ${X:?r}", "$X 1")],
)
def test_interpolated__each_form__is_what_compose_makes_of_it(text, expected):
    assert interpolated(text, {"X": "1", "Y": ""}) == expected
