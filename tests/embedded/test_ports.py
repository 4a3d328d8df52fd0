import socket

import pytest

from registry.embedded.failure import StartFailed
from registry.embedded.ports import reserve_port


def test_reserve_port__zero__takes_a_free_one_and_gives_it_back():
    with reserve_port("127.0.0.1", 0) as held:
        port = held.getsockname()[1]

    with reserve_port("127.0.0.1", port) as again:
        assert again.getsockname()[1] == port


def test_reserve_port__held_already__names_port_and_program():
    with (
        reserve_port("127.0.0.1", 0) as held,
        pytest.raises(StartFailed, match=r"Port \d+ on 127\.0\.0\.1 is in use by .*--port"),
    ):
        reserve_port("127.0.0.1", held.getsockname()[1])


def test_reserve_port__listener_that_shares_its_port__is_still_in_use():
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        with pytest.raises(StartFailed, match="is in use"):
            reserve_port("127.0.0.1", listener.getsockname()[1])


@pytest.mark.parametrize(
    ("host", "port", "sentence"),
    [
        ("no such host", 8000, "The host no such host of --host is not known"),
        ("192.0.2.1", 8000, "192.0.2.1 of --host is not an address of this machine"),
        ("127.0.0.1", 70000, "Port 70000 of --port does not exist"),
    ],
)
def test_reserve_port__wrong_host_or_port__says_which(host, port, sentence):
    with pytest.raises(StartFailed, match=sentence):
        reserve_port(host, port)
