"""A configured server that cannot be used: one sentence, exit code 1, nothing damaged."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from registry.embedded.external import check_database
from tests.deploy.servers import Postgres
from tests.folders import CHECKOUT


def manage(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=CHECKOUT,
        env={
            "PATH": os.defpath,
            "HOME": str(folder),
            "DATA_DIR": str(folder / "mistakes"),
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def sentence_of(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line that a failed command wrote; fail where there is more or less."""
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = done.stderr.strip().splitlines()
    return line


@pytest.fixture
def bare(postgres: Postgres) -> Iterator[str]:
    """A database without pgvector, which only a superuser may put there."""
    with postgres.connect() as server:
        server.execute("CREATE DATABASE bare OWNER registry_owner")
    yield "bare"
    with postgres.connect() as server:
        server.execute("DROP DATABASE bare WITH (FORCE)")


@pytest.mark.parametrize("command", [("migrate", "--noinput"), ("up", "--port", "0")])
def test_command__wrong_password__says_so_without_it(place, postgres, command):
    address = f"postgresql://registry_app:not-this-one@127.0.0.1:{postgres.port}/registry"

    said = sentence_of(manage(place, *command, DATABASE_URL=address))

    assert said.startswith(f"The PostgreSQL of DATABASE_URL at 127.0.0.1:{postgres.port} cannot")
    assert 'password authentication failed for user "registry_app"' in said
    assert "not-this-one" not in said


@pytest.mark.parametrize(
    "command", [("migrate",), ("up", "--port", "0"), ("create_api_key", "--name", "n")]
)
def test_command__nobody_at_the_address__says_where(place, command):
    said = sentence_of(
        manage(place, *command, DATABASE_URL="postgresql://registry_app:x@127.0.0.1:1/registry")
    )

    assert said.startswith("The PostgreSQL of DATABASE_URL at 127.0.0.1:1 cannot be used: ")


def test_migrate__owner_with_a_wrong_password__names_the_owners_variable(place, postgres):
    owner = f"postgresql://registry_owner:no@127.0.0.1:{postgres.port}/registry"

    said = sentence_of(
        manage(
            place,
            "migrate",
            DATABASE_URL=postgres.url("registry_app"),
            MIGRATION_DATABASE_URL=owner,
        )
    )

    assert said.startswith("The PostgreSQL of MIGRATION_DATABASE_URL at ")


def test_migrate__no_extension_and_no_right_to_make_it__says_who_must(place, postgres, bare):
    said = sentence_of(
        manage(place, "migrate", "--noinput", DATABASE_URL=postgres.url("registry_owner", bare))
    )

    assert "has pgvector, but not in the database bare, and the role registry_owner" in said
    assert "let a superuser run CREATE EXTENSION vector in that database" in said
    with postgres.connect(database=bare) as database:
        tables = database.execute("SELECT 1 FROM pg_tables WHERE schemaname = 'public'")
        assert tables.fetchall() == []


def test_check_database__role_that_may_make_the_extension__only_tries(postgres, bare):
    superuser = {
        "HOST": "127.0.0.1",
        "PORT": str(postgres.port),
        "USER": "postgres",
        "PASSWORD": postgres.passwords["postgres"],
        "NAME": bare,
    }

    assert "pgvector 0.8" in check_database(superuser, will_migrate=True)
    with postgres.connect(database=bare) as database, pytest.raises(psycopg.errors.UndefinedObject):
        database.execute("SELECT NULL::vector")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("mysql://u@h/n", "DATABASE_URL starts with 'mysql'; allowed is postgresql://…"),
        ("postgresql://u:a#b/c@h/n", "DATABASE_URL cannot be read: write it as postgresql://"),
    ],
)
def test_command__address_of_another_form__says_what_is_allowed(place, address, expected):
    assert sentence_of(manage(place, "migrate", DATABASE_URL=address)).startswith(expected)


def test_command__number_that_is_none__says_what_is_allowed(place):
    said = sentence_of(manage(place, "prepare_models", MAX_UPLOAD_MB="lots"))

    assert said == "MAX_UPLOAD_MB is 'lots'; allowed are whole numbers from 1."


def test_web__without_a_secret_key__does_not_start(place):
    started = subprocess.run(
        [sys.executable, "-c", "import registry.wsgi"],
        cwd=CHECKOUT,
        env={"DATABASE_URL": "postgresql://u@127.0.0.1:1/n", "DATA_DIR": str(place / "no-secret")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert started.returncode == 1
    assert "SECRET_KEY is not set" in started.stderr.splitlines()[-1]


def test_create_roles__without_passwords__makes_nothing(postgres):
    done = postgres.run([CHECKOUT / "deploy" / "create-roles.sh"], REGISTRY_OWNER_PASSWORD="")

    assert done.returncode != 0
    assert "REGISTRY_OWNER_PASSWORD" in done.stderr
