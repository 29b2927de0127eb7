"""An identity provider of a test: it lives in the process of the test and answers on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from omnigraph.runtime import Clock

AUDIENCE = "omnigraph"


class Provider:
    """An identity provider on loopback: its keys, what was asked of it, and whether it answers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.keys = [RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})]
        self.asked: list[str] = []
        self.is_up = True
        self.document: dict[str, object] | None = None
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                body = json.dumps(provider.answer(self.path)).encode()
                self.send_response(200 if provider.is_up else 503)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, path: str) -> object:
        if path.endswith("openid-configuration"):
            return self.document or {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        return KeySet(self.keys).as_dict(private=False)

    def token(self, key=None, header: dict[str, object] | None = None, **claims: object) -> bytes:
        key = key or self.keys[0]
        told = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "act-mira",
            "exp": self._clock.now_ms() // 1000 + 300,
            "groups": ["editors"],
        }
        told = {name: value for name, value in (told | claims).items() if value is not None}
        algorithm = {"RSA": "RS256", "EC": "ES256", "oct": "HS256"}[key.key_type]
        header = {"alg": algorithm, "kid": key.kid} | (header or {})
        return jwt.encode(header, told, key, algorithms=[algorithm]).encode()

    @contextmanager
    def serving(self) -> Iterator[Self]:
        """Answer until the block ends."""
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self.server.shutdown()
            thread.join()
            self.server.server_close()
