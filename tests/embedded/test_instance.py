import os
from pathlib import Path

import pytest

from registry.embedded.instance import Instance, default_data_dir, take_data_dir


@pytest.mark.parametrize(
    ("argv", "rest", "folder"),
    [
        (["manage.py", "up"], ["manage.py", "up"], None),
        (["m", "up", "--data-dir", "/d", "--port", "1"], ["m", "up", "--port", "1"], "/d"),
        (["m", "--data-dir=/d", "shell"], ["m", "shell"], "/d"),
        (["m", "x", "--data-dir=/a", "--data-dir", "/b"], ["m", "x"], "/b"),
        (["m", "x", "--", "--data-dir", "/d"], ["m", "x", "--", "--data-dir", "/d"], None),
    ],
)
def test_take_data_dir__option_anywhere__is_taken_out(argv, rest, folder):
    taken = take_data_dir(argv)

    assert taken == (rest, None if folder is None else Path(folder))


def test_take_data_dir__relative_folder__is_below_the_working_directory():
    _, folder = take_data_dir(["m", "up", "--data-dir", "here"])

    assert folder == Path.cwd() / "here"


@pytest.mark.parametrize("argv", [["m", "up", "--data-dir"], ["m", "--data-dir", "--port", "1"]])
def test_take_data_dir__folder_missing__says_so(argv):
    with pytest.raises(ValueError, match="--data-dir needs a folder"):
        take_data_dir(argv)


def test_instance__folder_behind_a_link__has_one_address(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    assert Instance(tmp_path / "link").redis_url == Instance(tmp_path / "real").redis_url


def test_socket_dir__short_path__is_in_the_data_folder():
    instance = Instance(Path("/srv/registry"))

    assert instance.socket_dir == Path("/srv/registry/run")


def test_socket_dir__long_path__is_short_and_the_same_every_time():
    folder = Path("/srv") / ("long" * 30)

    paths = {Instance(folder).postgres_socket for _ in range(2)}

    (path,) = paths
    assert len(os.fsencode(path)) < 100
    assert path != Instance(folder / "other").postgres_socket


def test_socket_dir__path_with_many_bytes_per_letter__counts_bytes():
    instance = Instance(Path("/srv") / ("ß" * 45))

    assert len(os.fsencode(instance.postgres_socket)) <= 100


def test_default_data_dir__ordinary_user__is_in_the_checkout(tmp_path):
    folder = default_data_dir(tmp_path)

    if os.geteuid() == 0:
        assert folder.parent == Path("/var/lib")
        assert folder.name.startswith("agent-registry-")
        assert folder != default_data_dir(tmp_path / "another")
    else:
        assert folder == tmp_path / ".data"


def test_postgres_dsn__quote_in_the_path__is_escaped():
    instance = Instance(Path("/srv/it's"))

    assert "host='/srv/it\\'s/run'" in instance.postgres_dsn()
