import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from registry.embedded.accounts import can, server_account
from registry.embedded.external import check_broker, check_database, parsed_version
from registry.embedded.failure import StartFailed
from registry.embedded.instance import Instance
from registry.embedded.processes import spawn, stop, wait_until
from tests.embedded.conftest import copy_postgres
from tests.folders import passable_folder
from tests.servers import INSTANCE


@pytest.fixture(scope="module")
def foreign() -> Iterator[tuple[dict[str, str], Path]]:
    """A PostgreSQL that is not ours: its address, and the control file of its pgvector."""
    with passable_folder() as folder:
        yield from serve(folder)


def serve(folder: Path) -> Iterator[tuple[dict[str, str], Path]]:
    programs = copy_postgres(folder)
    account = server_account(Instance(folder / "none"))
    data = folder / "data"
    data.mkdir(mode=0o700)
    os.chown(data, account.uid, account.gid)
    initdb = [
        *(str(programs / "bin/initdb"), "-D", str(data), "-U", "postgres"),
        *("--auth=trust", "--no-sync", "--encoding=SQL_ASCII", "--locale=C"),
    ]
    assert can(account, initdb)
    server = spawn(
        [
            *(programs / "bin/postgres", "-D", data, "-c", "listen_addresses="),
            *("-c", f"unix_socket_directories={data}", "-c", "fsync=off"),
        ],
        death_signal=signal.SIGINT,
        output=subprocess.DEVNULL,
        account=account,
        cwd=folder,
    )
    address = {"HOST": str(data), "USER": "postgres", "NAME": "postgres"}

    def answers() -> bool:
        try:
            psycopg.connect(host=str(data), user="postgres", dbname="postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    try:
        assert wait_until(answers, seconds=240)
        yield address, programs / "share/postgresql/extension/vector.control"
    finally:
        stop(server, ((signal.SIGINT, 300),))


def test_check_database__good_server__says_what_it_is():
    said = check_database(INSTANCE.database_settings("owner"))

    assert said.startswith("PostgreSQL 18.")
    assert "pgvector 0.8" in said


def test_check_database__nobody_there__says_where():
    with pytest.raises(StartFailed, match=r"DATABASE_URL at 127\.0\.0\.1:1 cannot be used: .+"):
        check_database({"HOST": "127.0.0.1", "PORT": "1", "USER": "u", "NAME": "n"})


def test_check_database__no_such_database__says_so(foreign):
    address, _ = foreign

    with pytest.raises(StartFailed, match='database "elsewhere" does not exist'):
        check_database({**address, "NAME": "elsewhere"})


def test_check_database__without_pgvector__says_what_to_install(foreign):
    address, control = foreign
    # Moved, since a new one might not be readable by the server, whatever the umask is
    away = control.rename(control.with_suffix(".away"))

    try:
        with pytest.raises(StartFailed, match=r"has no pgvector: install .* 0\.8\.0 or newer"):
            check_database(address)
    finally:
        away.rename(control)


def test_check_database__old_pgvector__names_both_versions(foreign):
    address, control = foreign
    text = control.read_text()
    control.write_text(text.replace("0.8.5", "0.4.4"))

    try:
        with pytest.raises(
            StartFailed, match=r"has pgvector 0\.4\.4; 0\.8\.0 or newer is needed: install"
        ):
            check_database(address)
    finally:
        control.write_text(text)


def test_check_database__other_encoding__names_it(foreign):
    address, _ = foreign

    with pytest.raises(StartFailed, match="has the encoding SQL_ASCII; UTF8 is needed"):
        check_database(address)


@pytest.mark.parametrize(
    ("variable", "url"),
    [
        ("REDIS_URL", "redis://127.0.0.1:1/0"),
        ("REDIS_URL", "unix:///nowhere.sock"),
        ("BROKER_URL", "amqp://guest:guest@127.0.0.1:1//"),
        ("BROKER_URL", "pigeon://127.0.0.1:1"),
    ],
)
def test_check_broker__nobody_there__names_the_variable(variable, url):
    with pytest.raises(StartFailed, match=rf"server of {variable} at \S+ cannot be used: .+"):
        check_broker(variable, url)


def test_check_broker__password_in_the_address__is_not_repeated():
    with pytest.raises(StartFailed) as failure:
        check_broker("REDIS_URL", "redis://:secret@127.0.0.1:1/0")

    assert "secret" not in str(failure.value)


def test_check_broker__good_server__says_where():
    assert check_broker("REDIS_URL", INSTANCE.redis_url) == str(INSTANCE.valkey_socket)


@pytest.mark.parametrize(
    ("text", "numbers"), [("0.8.5", (0, 8, 5)), ("0.10.0-dev", (0, 10, 0)), ("1.0", (1, 0))]
)
def test_parsed_version__any_form__compares_as_numbers(text, numbers):
    assert parsed_version(text) == numbers
