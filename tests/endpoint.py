"""A real OpenAI-compatible endpoint on this machine whose mood a test chooses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-secret-0123456789"


@dataclass
class Endpoint:
    """``status`` and ``text`` are what it answers; ``body`` replaces the reply; ``drip`` sends a
    byte every tenth of a second for ever; ``refuse`` names members that it does not take;
    ``go_on`` ends what takes time, also at the end."""

    url: str = ""
    status: int = 200
    text: str = "Lamps are covered for two years [1]."
    body: bytes | None = None
    delay: float = 0.0
    drip: bool = False
    refuse: tuple[str, ...] = ()
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    hung_up: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def completion(self, model: str) -> bytes:
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": self.text},
        }
        return json.dumps(
            {
                "id": "1",
                "object": "chat.completion",
                "created": 1,
                "model": model,
                "choices": [choice],
            }
        ).encode()


@contextmanager
def running_endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        timeout = 60

        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            asked = json.loads(content)
            endpoint.requests.append({"path": self.path, **asked})
            endpoint.keys.append(self.headers.get("Authorization", ""))
            try:
                self._answer(asked)
            except OSError:
                endpoint.hung_up.set()

        def _answer(self, asked: dict[str, Any]) -> None:
            if endpoint.drip:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                while not endpoint.go_on.wait(0.1):
                    self.wfile.write(b" ")
                return
            endpoint.go_on.wait(endpoint.delay)
            refused = [name for name in endpoint.refuse if name in asked]
            body = endpoint.completion(asked["model"]) if endpoint.body is None else endpoint.body
            self.send_response(400 if refused else endpoint.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    # No thread that still answers outlives the endpoint.
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield endpoint
    finally:
        endpoint.go_on.set()
        server.shutdown()
        with suppress(OSError):
            server.server_close()
        thread.join()
