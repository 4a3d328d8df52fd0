"""The running web server as people and programs on this machine reach it."""

from __future__ import annotations

import http.client
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from registry.embedded.failure import StartFailed
from registry.embedded.processes import Pause

_HEALTH_SECONDS = 120.0
_TICK = 0.1
_LOCAL = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104 - what is asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A web server that listens on ``host`` and ``port``."""

    host: str
    port: int

    @property
    def reachable_host(self) -> str:
        return _LOCAL.get(self.host, self.host)

    @property
    def url(self) -> str:
        return f"http://{_in_url(self.reachable_host)}:{self.port}"

    def health(self) -> str:
        """Return what /healthz answers: a status code such as ``200``, or why there is none."""
        connection = http.client.HTTPConnection(self.reachable_host, self.port, timeout=10)
        try:
            connection.request("GET", "/healthz", headers={"Host": f"localhost:{self.port}"})
            return str(connection.getresponse().status)
        except (OSError, http.client.HTTPException) as error:
            return str(error) or type(error).__name__
        finally:
            connection.close()

    def is_allowed(self, allowed_hosts: Sequence[str]) -> bool:
        """Tell whether Django takes requests that name the host asked for."""
        return "*" in allowed_hosts or _in_url(self.host) in allowed_hosts

    def introduction(self, made: Mapping[str, Any], *, log_dir: Path) -> list[str]:
        """Return what a newcomer needs: addresses, and what ``bootstrap`` has just made."""
        lines = ["", f"Admin      {self.url}/admin/"]
        if admin := made.get("admin"):
            login = "   ".join(f"{name} {value}" for name, value in admin.items())
            lines.append(f"           {login}   (shown once)")
        lines.append(f"API docs   {self.url}/api/v1/docs")
        if made.get("apiKey"):
            lines.append(f"API key    {made['apiKey']}   (shown once)")
        if made.get("curl"):
            lines.append("Try it     " + str(made["curl"]).replace("{base}", self.url))
        return [*lines, f"Logs       {log_dir}", "Ctrl-C stops everything.", ""]


def wait_until_healthy(site: Site, *, pause: Pause) -> None:
    """Return once ``site`` answers; raises StartFailed if it does not in time."""
    deadline = time.monotonic() + _HEALTH_SECONDS
    while (health := site.health()) != "200":
        if time.monotonic() > deadline:
            raise StartFailed(
                f"The web server was not well within {_HEALTH_SECONDS:.0f} s: {site.url}/healthz "
                f"says {health}; see web.log in the data folder's logs."
            )
        pause(_TICK)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
