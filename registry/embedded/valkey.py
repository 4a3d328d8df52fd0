"""One Valkey for one instance: cache and message broker, on a socket, without files.

Nothing in it is missed after a restart, since the database is the source of truth.
"""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import suppress

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from registry.embedded.failure import StartFailed
from registry.embedded.folders import prepare_folders
from registry.embedded.instance import Instance
from registry.embedded.logs import last_line, open_log, size_of
from registry.embedded.processes import Pause, Spawned, spawn, stop, wait_until
from registry.embedded.programs import valkey_programs

_LOG = "valkey.log"
_START_SECONDS = 30.0
_STOP_STEPS = ((signal.SIGTERM, 10.0),)
_SETTINGS = {
    "port": "0",
    "daemonize": "no",
    "save": "",
    "appendonly": "no",
    "unixsocketperm": "700",
    # Only what has an end of life may be evicted: queued messages have none.
    "maxmemory": "256mb",
    "maxmemory-policy": "volatile-lru",
}


class ValkeyServer(Spawned):
    """A running server."""

    def __init__(self, process: subprocess.Popen[bytes], *, version: str) -> None:
        super().__init__(process, _STOP_STEPS)
        self.version = version


def start_valkey(instance: Instance, *, pause: Pause = time.sleep) -> ValkeyServer:
    """Start the instance's server and return it once it answers; raises StartFailed."""
    account = prepare_folders(instance)
    programs = valkey_programs(instance, account)
    _end_leftover(instance)
    log_path = instance.log_dir / _LOG
    since = size_of(log_path)
    settings = {
        **_SETTINGS,
        "dir": str(instance.valkey_dir),
        "unixsocket": str(instance.valkey_socket),
    }
    with open_log(log_path) as log:
        process = spawn(
            [
                programs / "valkey-server",
                *(word for name, value in settings.items() for word in (f"--{name}", value)),
            ],
            death_signal=signal.SIGTERM,
            output=log,
            account=account,
            env={"LC_ALL": "C", "TZ": "UTC", "DATA_DIR": str(instance.data_dir)},
            cwd=None,
        )

    def ready() -> bool:
        if process.poll() is not None:
            raise StartFailed(
                f"Valkey ended at once: {last_line(log_path, since=since)} (more in {log_path})."
            )
        return valkey_answers(instance)

    try:
        if not wait_until(ready, seconds=_START_SECONDS, pause=pause):
            raise StartFailed(
                f"Valkey did not answer within {_START_SECONDS:.0f} s: see {log_path}."
            )
        with _client(instance) as client:
            version = str(client.info("server").get("valkey_version", ""))
    except BaseException:
        stop(process, _STOP_STEPS)
        raise
    return ValkeyServer(process, version=version)


def valkey_answers(instance: Instance) -> bool:
    """Tell whether the instance's Valkey answers now."""
    try:
        with _client(instance) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def _client(instance: Instance) -> redis.Redis:
    return redis.Redis(
        unix_socket_path=str(instance.valkey_socket),
        socket_timeout=5,
        # The caller polls: the client's own retries would only sleep.
        retry=Retry(NoBackoff(), 0),
    )


def _end_leftover(instance: Instance) -> None:
    if valkey_answers(instance):
        with _client(instance) as client, suppress(redis.RedisError):
            client.shutdown(nosave=True)
    instance.valkey_socket.unlink(missing_ok=True)
