"""``manage.py up`` as a person meets it: a program that is started, asked, and killed."""

import http.client
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
import pytest
from django.conf import settings

from registry.embedded.instance import Instance
from registry.embedded.processes import wait_until
from tests.folders import CHECKOUT, passable_folder
from tests.servers import INSTANCE

# One process runs them all, so that they share one running instance.
pytestmark = [pytest.mark.timeout(1800)]

SECONDS = 600.0


class Up:
    """One run of ``up`` and what it has printed so far."""

    def __init__(self, folder: Path, output: Path, *words: str, **variables: str) -> None:
        self.folder = folder
        self._output = output
        variables = {"MODELS_DIR": str(settings.MODELS_DIR), **variables}
        with output.open("wb") as stream:
            self.process = subprocess.Popen(
                [
                    *("env", "-u", "DATABASE_URL", "-u", "REDIS_URL", "-u", "BROKER_URL"),
                    *("-u", "DATABASE_ROLE", "-u", "DATA_DIR"),
                    *(f"{name}={value}" for name, value in variables.items()),
                    *(sys.executable, str(CHECKOUT / "manage.py"), "up", "--no-demo"),
                    *("--data-dir", str(folder), "--workers", "1", "--web-workers", "1", *words),
                ],
                cwd="/",
                stdout=stream,
                stderr=subprocess.STDOUT,
            )

    @property
    def said(self) -> str:
        return self._output.read_text()

    def wait_for(self, text: str) -> None:
        def there_or_over() -> bool:
            return text in self.said or self.process.poll() is not None

        assert wait_until(there_or_over, seconds=SECONDS), self.said
        assert text in self.said, self.said

    @property
    def port(self) -> int:
        return int(re.findall(r"http://127\.0\.0\.1:(\d+)/admin/", self.said)[0])

    def health(self) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status
        finally:
            connection.close()

    def send(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(SECONDS)


def processes_of(folder: Path) -> list[str]:
    """Return the names of all processes that belong to the instance in ``folder``."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("DATA_DIR") == str(folder):
                found.append(process.name())
        except psutil.Error:
            continue
    return found


def child(up: Up, word: str) -> psutil.Process:
    """Return the child of ``up`` that has ``word`` in its command line."""
    found = []
    for one in psutil.Process(up.process.pid).children():
        with suppress(psutil.NoSuchProcess):  # it has just ended
            if word in " ".join(one.cmdline()):
                found.append(one)
    (child_with_word,) = found
    return child_with_word


@contextmanager
def launcher(folder: Path) -> Iterator[Callable[..., Up]]:
    """Give a function that starts ``up`` below ``folder``; kill what still runs in the end."""
    started: list[Up] = []

    def begin(*words: str, name: str = "data", **variables: str) -> Up:
        up = Up(folder / name, folder / f"output-{len(started)}", *words, **variables)
        started.append(up)
        return up

    try:
        yield begin
    finally:
        for up in started:
            up.process.kill()
            up.process.wait()
        folders = {up.folder for up in started}
        assert wait_until(lambda: not any(map(processes_of, folders)), seconds=120)


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Up]]:
    with launcher(folder) as begin:
        yield begin


@pytest.fixture(scope="module")
def running() -> Iterator[Up]:
    """An ``up`` that the tests of this module share, and must leave running."""
    with passable_folder() as folder, launcher(folder) as begin:
        up = begin("--port", "0")
        up.wait_for("ready")
        yield up


def test_up__ready__answers_and_lets_commands_in(running):
    command = subprocess.run(
        [
            *("env", "-u", "DATABASE_URL", "-u", "DATABASE_ROLE", f"DATA_DIR={running.folder}"),
            *(sys.executable, str(CHECKOUT / "manage.py"), "create_api_key"),
            *("--name", "test", "--scope", "runtime"),
        ],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )

    assert running.health() == 200
    assert command.returncode == 0, command.stderr
    assert command.stdout.split()


def test_up__folder_or_port_of_a_running_one__is_refused_and_harms_nothing(running, start):
    same_folder = start("--port", "0", "--data-dir", str(running.folder), name="unused")
    same_port = start("--port", str(running.port), name="other")
    codes = [same_folder.process.wait(SECONDS), same_port.process.wait(SECONDS)]

    assert codes == [1, 1]
    assert same_folder.said == (
        f"The data folder {running.folder} is in use by `manage.py up` (process "
        f"{running.process.pid}): stop that first, or choose another folder with --data-dir.\n"
    )
    assert re.fullmatch(
        rf"Port {running.port} on 127\.0\.0\.1 is in use.*: stop that, or choose another with "
        r"--port\.\n",
        same_port.said,
    )
    assert not Instance(same_port.folder).postgres_dir.exists()
    assert running.health() == 200


def test_up__killed__leaves_nothing_starts_again_with_its_data_and_stops_in_order(start):
    first = start("--port", "0")
    first.wait_for("ready")
    with psycopg.connect(Instance(first.folder).postgres_dsn("owner")) as connection:
        connection.execute("CREATE TABLE note AS SELECT 'kept' AS text")

    first.send(signal.SIGKILL)
    gone = wait_until(lambda: not processes_of(first.folder), seconds=120)
    second = start("--port", "0")
    second.wait_for("ready")
    with psycopg.connect(Instance(first.folder).postgres_dsn("owner")) as connection:
        kept = connection.execute("SELECT text FROM note").fetchall()
    code = second.send(signal.SIGINT)

    assert gone
    assert kept == [("kept",)]
    assert code == 0
    assert re.findall(r"stopping (\w+)$", second.said, re.MULTILINE) == [
        *("web", "beat", "worker", "valkey", "postgres")
    ]
    assert processes_of(second.folder) == []


def test_up__children_killed__are_started_again_and_it_says_so(running):
    up = running

    for word, name in (("granian", "web"), ("bin/postgres", "postgres"), ("valkey", "valkey")):
        child(up, word).kill()
        up.wait_for(f"{name} ended by itself (SIGKILL); starting it in 1 s")
        up.wait_for(f"{name} runs again")

    assert wait_until(lambda: _healthy(up), seconds=120)
    with psycopg.connect(Instance(up.folder).postgres_dsn("app")) as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def _healthy(up: Up) -> bool:
    try:
        return up.health() == 200
    except OSError:
        return False


def test_up__stopped_while_starting__leaves_nothing(start):
    up = start("--port", "0")
    up.wait_for("making the database")

    code = up.send(signal.SIGTERM)

    assert code == 0, up.said
    assert "ready" not in up.said
    assert processes_of(up.folder) == []


def test_up__unreachable_servers__one_sentence_each(start):
    database = start("--port", "0", name="a", DATABASE_URL="postgresql://u:secret@127.0.0.1:1/x")
    redis = start("--port", "0", name="b", REDIS_URL="redis://:secret@127.0.0.1:1/0")
    codes = [database.process.wait(SECONDS), redis.process.wait(SECONDS)]

    assert codes == [1, 1]
    assert "The PostgreSQL of DATABASE_URL at 127.0.0.1:1 cannot be used:" in database.said
    assert "The server of REDIS_URL at 127.0.0.1:1 cannot be used:" in redis.said
    assert "secret" not in database.said + redis.said
    assert "Traceback" not in database.said + redis.said


def test_up__servers_elsewhere__starts_only_the_rest(start):
    with psycopg.connect(INSTANCE.postgres_dsn("owner"), autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS elsewhere")
        connection.execute("CREATE DATABASE elsewhere")

    up = start(
        *("--port", "0"),
        DATABASE_URL=f"postgresql://registry_owner@/elsewhere?host={INSTANCE.socket_dir}",
        REDIS_URL=INSTANCE.redis_url,
        BROKER_URL=INSTANCE.broker_url,
    )
    up.wait_for("ready")
    health, names = up.health(), processes_of(up.folder)
    code = up.send(signal.SIGTERM)
    with psycopg.connect(INSTANCE.postgres_dsn("owner"), autocommit=True) as connection:
        connection.execute("DROP DATABASE elsewhere")

    assert (health, code) == (200, 0)
    assert not {"postgres", "valkey-server"} & set(names)
    assert not Instance(up.folder).postgres_dir.exists()
