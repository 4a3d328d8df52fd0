import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from registry.embedded.commands import needs_database
from registry.embedded.database import answers
from registry.embedded.locks import try_to_own
from registry.embedded.processes import wait_until, working_in
from tests.folders import CHECKOUT

CONNECT = (
    "from django.db import connection as c; c.ensure_connection(); print(c.connection.info.user)"
)


@pytest.fixture
def manage(folder: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start ``manage.py`` on the instance of this test; what still runs in the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [
                *("env", "-u", "DATABASE_URL", "-u", "REDIS_URL", "-u", "BROKER_URL"),
                *("-u", "DATABASE_ROLE"),
                *(f"DATA_DIR={folder / 'data'}", sys.executable, str(CHECKOUT / "manage.py")),
                *words,
            ],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def shell(code: str) -> tuple[str, ...]:
    return ("shell", "--no-imports", "-c", textwrap.dedent(code))


def test_command__nothing_runs__has_a_database_for_its_own_duration(manage, instance):
    output, errors = manage(*shell(CONNECT)).communicate(timeout=600)

    assert (output, errors) == ("registry_app\n", "")
    assert working_in(instance.postgres_dir) == []


def test_command__changes_the_schema__is_the_owner(manage):
    process = manage("migrate", "--plan")
    output, errors = process.communicate(timeout=600)

    assert process.returncode == 0, errors
    assert "registry.0001_initial" in output


def test_command__two_at_once__the_first_waits_for_the_second(manage, instance):
    first = manage(*shell(f"{CONNECT}\ninput()"))
    assert first.stdout.readline() == "registry_app\n"
    second = manage(*shell(f"{CONNECT}\ninput()\nc.cursor().execute('SELECT 1'); print('still')"))
    assert second.stdout.readline() == "registry_app\n"

    first.stdin.write("\n")
    first.stdin.flush()
    held_back = not wait_until(lambda: first.poll() is not None, seconds=3)
    output, errors = second.communicate("\n", timeout=600)
    first.communicate(timeout=600)

    assert held_back
    assert (output, errors) == ("still\n", "")
    assert (first.returncode, second.returncode) == (0, 0)
    assert working_in(instance.postgres_dir) == []


def test_command__killed__leaves_no_server(manage, instance):
    command = manage(*shell(f"{CONNECT}\nimport sys; sys.stdout.flush()\ninput()"))
    assert command.stdout.readline() == "registry_app\n"
    pid = working_in(instance.postgres_dir)

    # The child of `env` is python itself: env replaces itself.
    command.kill()

    assert pid
    assert wait_until(lambda: not working_in(instance.postgres_dir), seconds=120)


def test_command__fails__leaves_no_server_and_its_own_exit_code(manage, instance):
    process = manage(*shell(f"{CONNECT}\nraise SystemExit(7)"))
    process.communicate(timeout=600)

    assert process.returncode == 7
    assert working_in(instance.postgres_dir) == []
    assert not answers(instance)


def test_command__bad_data_dir__one_sentence(manage, folder):
    (folder / "data").write_text("a file")

    process = manage("showmigrations")
    output, errors = process.communicate(timeout=600)

    assert process.returncode == 1
    assert output == ""
    assert errors == (
        f"The data folder {folder / 'data'} is a file: choose another with --data-dir.\n"
    )


def test_try_to_own__held_by_another__is_refused_until_it_is_free(instance):
    instance.data_dir.mkdir()
    first = try_to_own(instance, "up")

    second = try_to_own(instance, "up")

    assert first is not None
    assert second is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["shell"], True),
        (["migrate", "--plan"], True),
        ([], False),
        (["up"], False),
        (["migrate", "--help"], False),
        (["--version"], False),
        (["migrate", "--version"], False),
        (["export_agent", "support", "--version", "3", "--out", "file"], True),
        (["check"], False),
    ],
)
def test_needs_database__each_kind_of_command__is_known(words, expected):
    assert needs_database(["manage.py", *words]) is expected


@pytest.mark.slow
def test_backup__of_one_data_folder__is_restored_into_a_new_one(manage, folder):
    def run(*words: str, code: int = 0) -> str:
        process = manage(*words)
        output, errors = process.communicate(timeout=600)
        assert process.returncode == code, errors
        return f"{output}{errors}"

    run("migrate", "--verbosity", "0")
    run("create_api_key", "--name", "first", "--scope", "admin")
    run("backup", str(folder / "registry.dump"))
    count = "from registry.models import ApiKey; print('keys', ApiKey.objects.count())"
    new = ("--data-dir", str(folder / "new"))

    subprocess.run(["cp", "-a", folder / "data", folder / "copy"], check=True)
    assert "keys 1" in run(*shell(count), "--data-dir", str(folder / "copy"))
    assert "Restored" in run("restore", str(folder / "registry.dump"), *new)

    assert "keys 1" in run(*shell(count), *new)
    refusal = run("restore", str(folder / "registry.dump"), *new, code=1)
    assert "tables already" in refusal
