import os
import stat
from pathlib import Path

import pytest

from registry.embedded.failure import StartFailed
from registry.embedded.folders import prepare_folders
from registry.embedded.instance import Instance
from tests.embedded.conftest import as_root


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_prepare_folders__new_instance__lets_nobody_else_read(instance):
    account = prepare_folders(instance)

    assert mode(instance.data_dir) & 0o066 == 0
    for private in (instance.socket_dir, instance.log_dir, instance.models_dir):
        assert mode(private) == 0o700
    assert mode(instance.secret_key_path) == 0o600
    assert instance.socket_dir.stat().st_uid == account.uid
    assert instance.data_dir.stat().st_uid == os.geteuid()


def test_prepare_folders__modes_outside__stay_as_they_were(folder):
    parent = folder / "parent"
    parent.mkdir()
    parent.chmod(0o751)

    prepare_folders(Instance(parent / "data"))

    assert (mode(folder), mode(parent)) == (0o711, 0o751)


def test_prepare_folders__again__keeps_the_secret_key(instance):
    prepare_folders(instance)
    key = instance.secret_key_path.read_text()

    prepare_folders(instance)

    assert instance.secret_key_path.read_text() == key
    assert len(key) >= 50


def test_prepare_folders__folder_with_other_files__is_refused_untouched(folder):
    (folder / "letter.txt").write_text("mine")

    with pytest.raises(StartFailed, match=r"holds other files \(letter.txt\)"):
        prepare_folders(Instance(folder))

    assert [path.name for path in folder.iterdir()] == ["letter.txt"]
    assert mode(folder) == 0o711


def test_prepare_folders__a_file__is_refused(folder):
    (folder / "data").write_text("mine")

    with pytest.raises(StartFailed, match="is a file"):
        prepare_folders(Instance(folder / "data"))


@as_root
def test_prepare_folders__closed_parent__is_refused_by_name(folder):
    closed = folder / "closed"
    closed.mkdir(mode=0o700)

    with pytest.raises(StartFailed, match=f"cannot reach .* because of the mode of {closed}:"):
        prepare_folders(Instance(closed / "deep" / "data"))

    assert list(closed.iterdir()) == []
    assert mode(closed) == 0o700


@as_root
def test_prepare_folders__folder_of_another_user__is_refused(folder):
    (folder / "data").mkdir()
    os.chown(folder / "data", 65534, 65534)

    with pytest.raises(StartFailed, match="belongs to the user nobody"):
        prepare_folders(Instance(folder / "data"))


@as_root
def test_prepare_folders__short_socket_folder_taken_by_a_stranger__is_refused(folder):
    instance = Instance(folder / ("long" * 25))
    instance.socket_dir.mkdir(mode=0o777)
    os.chown(instance.socket_dir, 12345, 12345)

    try:
        with pytest.raises(StartFailed, match=f"{instance.socket_dir}.* is not a folder of"):
            prepare_folders(instance)
    finally:
        instance.socket_dir.rmdir()


def test_prepare_folders__short_socket_folder_is_a_link__is_refused(folder):
    instance = Instance(folder / ("long" * 25))
    instance.socket_dir.symlink_to(folder)

    try:
        with pytest.raises(StartFailed, match="is not a folder of"):
            prepare_folders(instance)
        assert mode(folder) == 0o711
    finally:
        instance.socket_dir.unlink()
