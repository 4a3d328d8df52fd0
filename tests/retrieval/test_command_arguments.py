"""Arguments that a command cannot take are told in a sentence, and nothing is done."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from tests import builders
from tests.folders import CHECKOUT

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["prune", "--keep-days", "99999999999"], "from 0 to 100000"),
        (["prune", "--keep-last", "-1"], "from 0 to 100000"),
        (["prune", "--knowledge-base", "none"], "no knowledge base 'none'"),
        (["replay", "--since", "99999999999d"], "--since is '99999999999d'; write"),
        (["replay", "--until", "9999999w"], "--until is '9999999w'; write"),
        (["replay", "--version", "0"], "no such trace"),
        (["verify", "--all", "--version", "0"], "no such published version"),
        (["evaluate", "Returns", "--fail-under", "nan"], "a number from 0 to 1"),
        (["evaluate", "Returns", "--fail-under", "2"], "a number from 0 to 1"),
        (["evaluate", "none"], "no knowledge base 'none'"),
        (
            ["create_api_key", "--name", "x", "--scope", "runtime", "--knowledge-base", "x"],
            "'x' is not the id of a knowledge base",
        ),
        (["purge", "none", "--reason", "x"], "no document 'none'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_command__with_an_argument_out_of_range__says_what_is_allowed(
    command: list[str], said: str
) -> None:
    base = builders.base_with("Returns")
    builders.published(base, slug="support")

    with pytest.raises(CommandError, match=said.replace("(", r"\(")):
        call_command(*command, stdout=StringIO(), stderr=StringIO())


def test_purge__where_nobody_can_answer__purges_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    base = builders.base_with("Returns")
    monkeypatch.setattr("sys.stdin", StringIO(""))

    with pytest.raises(CommandError, match="Nothing was purged"):
        call_command("purge", "returns.md", "--reason", "x", stdout=StringIO())

    assert base.documents.get(name="returns.md").revisions.get().content is not None


def test_commands__all__have_help() -> None:
    names = sorted(path.stem for path in CHECKOUT.glob("*/management/commands/[a-z]*.py"))
    program = (
        "import sys, django\n"
        "from django.core.management import get_commands, load_command_class\n"
        "django.setup()\n"
        "for name in sys.argv[1:]:\n"
        "    command = load_command_class(get_commands()[name], name)\n"
        "    print(len(command.create_parser('manage.py', name).format_help()) > 200, command.help)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, *names], cwd=CHECKOUT, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(names) >= 15
    assert len(lines) == len(names)
    assert all(line.startswith("True ") for line in lines)
