"""Hold the web server's port from the first moment, so that nothing else is started in vain."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress

import psutil

from registry.embedded.failure import StartFailed

_HIGHEST = 65535


def reserve_port(host: str, port: int) -> socket.socket:
    """Return a socket that holds ``port`` on ``host`` until it is closed; raises StartFailed.

    It listens, since two programs may bind one port as long as neither listens.
    """
    if not 0 <= port <= _HIGHEST:  # getaddrinfo would take the rest of a division
        raise StartFailed(f"Port {port} of --port does not exist: choose one up to {_HIGHEST}.")
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise StartFailed(f"The host {host} of --host is not known: {error}.") from error
    held = socket.socket(family, kind)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(address)
        held.listen(1)
    except OSError as error:
        held.close()
        raise StartFailed(_sentence(error, host, port)) from error
    return held


def _sentence(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} on {host} is in use{_by_whom(port)}: stop that, or choose another with "
            "--port."
        )
    if error.errno == errno.EACCES:
        return f"Port {port} on {host} is for root only: choose one from 1024 with --port."
    if error.errno == errno.EADDRNOTAVAIL:
        return f"The host {host} of --host is not an address of this machine."
    return f"Port {port} on {host} cannot be used: {error}."


def _by_whom(port: int) -> str:
    with suppress(psutil.Error):
        for connection in psutil.net_connections(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,):
                name = psutil.Process(connection.pid).name() if connection.pid else ""
                return f" by {name} (process {connection.pid})" if name else ""
    return ""
