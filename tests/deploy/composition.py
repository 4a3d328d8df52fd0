"""Read the deployment's own files as a container engine would: what each service runs, and where.

There is no engine on a test machine. What it does with `.env`, `docker-compose.yml` and
`Dockerfile` is done here as far as these three use it, so that the commands, variables and health
checks that tests run are the ones that are written there.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from tests.folders import CHECKOUT

_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?:(:-|:\?)([^}]*))?\})")


class Unset(Exception):
    """A variable that the compose file needs has no value."""


def interpolated(text: str, values: Mapping[str, str]) -> str:
    """Return ``text`` with ``${NAME}``, ``${NAME:-default}``, ``${NAME:?reason}``, ``$$`` replaced."""

    def value(found: re.Match[str]) -> str:
        dollar, name, form, rest = found.groups()
        if dollar:
            return "$"
        if values.get(name):
            return values[name]
        if form == ":?":
            raise Unset(f"{name}: {rest}")
        return rest or ""

    return _VARIABLE.sub(value, text)


def variables_of_env(text: str) -> dict[str, str]:
    """Return what an ``.env`` file sets; a value may refer to variables above it."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, value = line.partition("=")
            values[name] = interpolated(value, values)
    return values


@dataclass(frozen=True, kw_only=True)
class Image:
    """What the Dockerfile says."""

    copies: list[tuple[str, str]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)


def image_of(text: str) -> Image:
    """Return what the instructions of a Dockerfile say, of those that matter when it runs."""
    copies: list[tuple[str, str]] = []
    environment: dict[str, str] = {}
    command: list[str] = []
    health: list[str] = []
    lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", text)).splitlines()
    for word, _, rest in (line.partition(" ") for line in lines):
        match word:
            case "COPY":
                *sources, target = rest.split()
                copies += [(source, target) for source in sources]
            case "ENV":
                environment |= dict(pair.split("=", 1) for pair in shlex.split(rest))
            case "CMD":
                command = json.loads(rest)
            case "HEALTHCHECK":
                health = ["CMD", *json.loads(rest.partition("CMD ")[2])]
    return Image(copies=copies, environment=environment, command=command, health=health)


@dataclass(frozen=True, kw_only=True)
class Service:
    """One service of the compose file with every variable filled in."""

    name: str
    command: list[str]
    environment: dict[str, str]
    health: list[str]  # empty where there is none


def raw_compose() -> dict[str, Any]:
    return dict(yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text(encoding="utf-8")))


def services(values: Mapping[str, str]) -> dict[str, Service]:
    """Return the compose file's services with the ``.env`` variables ``values``; raises Unset."""
    image = image_of((CHECKOUT / "Dockerfile").read_text(encoding="utf-8"))
    found = {}
    for name, raw in raw_compose()["services"].items():
        ours = image if "build" in raw else Image()
        check = raw.get("healthcheck", {"test": ours.health})
        environment = (
            {key: interpolated(str(value), values) for key, value in raw["environment"].items()}
            if "environment" in raw
            else {}
        )
        found[name] = Service(
            name=name,
            command=[interpolated(word, values) for word in raw.get("command", ours.command)],
            environment={**ours.environment, **environment},
            health=[interpolated(word, values) for word in check.get("test", [])],
        )
    return found


def shell_words(check: list[str]) -> list[str]:
    """Return the command line of a health check."""
    kind, *words = check
    return ["/bin/sh", "-c", *words] if kind == "CMD-SHELL" else words
