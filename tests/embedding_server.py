"""An embedding provider on the loopback interface that answers what a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# It ends in letters that no memory address has: tests look for its end in what is shown.
KEY = "sk-loopback-0123-wxyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the provider was asked, and over which connection."""

    path: str
    headers: dict[str, str]
    body: Any
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What it answers. ``manner`` tells how: at once, never, byte by byte, or by hanging up."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    manner: str = "at_once"


Script = Callable[[Request], Reply]


@dataclass
class Server:
    """A running provider."""

    url: str
    script: Script
    requests: list[Request] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)


def vectors(*rows: list[float]) -> Reply:
    """The answer of OpenAI with these vectors."""
    data = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(rows)]
    return Reply(body=json.dumps({"object": "list", "data": data, "model": "m"}).encode())


def counting(request: Request) -> Reply:
    """A vector per text whose direction follows from the text's length."""
    size = request.body["dimensions"]
    return vectors(*([float(len(text) + 1), *([1.0] * (size - 1))] for text in request.body["input"]))


def in_turn(*replies: Reply) -> Script:
    """Each reply once, then the last one for ever."""
    left = list(replies)
    return lambda _request: left.pop(0) if len(left) > 1 else left[0]


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, provider: Server) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.provider = provider

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that give up are what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(path=self.path, headers=headers, body=body, port=self.client_address[1])
        self.server.provider.requests.append(request)
        self._answer(self.server.provider.script(request), self.server.provider.released)

    def _answer(self, reply: Reply, released: threading.Event) -> None:
        if reply.manner == "never":
            released.wait()
        if reply.manner in {"never", "hang_up"}:
            self.close_connection = True
            return
        self.send_response(reply.status)
        for name, value in {"content-length": str(len(reply.body)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if reply.manner != "drip":
            self.wfile.write(reply.body)
            return
        for at in range(len(reply.body)):
            if released.wait(0.01):
                break
            self.wfile.write(reply.body[at : at + 1])

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


@contextmanager
def serve(script: Script) -> Iterator[Server]:
    """Run a provider until the block ends."""
    server = Server(url="", script=script)
    with _Listener(server) as running:
        server.url = f"http://127.0.0.1:{running.server_address[1]}/v1"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            running.shutdown()
            thread.join()
