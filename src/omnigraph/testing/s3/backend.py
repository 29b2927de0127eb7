"""The store behind the endpoint: moto's S3, called in process. The only module that imports moto."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from omnigraph.testing.s3.listing import Entry, KeyIndex, can_answer, list_objects
from omnigraph.testing.s3.wire import Request, Response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Read by moto when it is imported. Without the first it looks for the bucket in the host name of every request,
# without the second it decorates every answer for browsers.
_MOTO_ENVIRONMENT: Final = {"S3_IGNORE_SUBDOMAIN_BUCKETNAME": "true", "MOTO_DISABLE_GLOBAL_CORS": "true"}
_WRITES: Final = frozenset({"PUT", "POST", "DELETE"})
_ACCOUNT, _PARTITION = "123456789012", "aws"


class Backend:
    """One bucket in memory.

    ``apply`` runs a request from beginning to end without giving up control. Called from one thread, as the front
    does, no two requests interleave: that is what makes a conditional PUT atomic, since moto itself looks first and
    writes later.
    """

    def __init__(self, bucket: str) -> None:
        os.environ.update(_MOTO_ENVIRONMENT)
        from moto.moto_server.werkzeug_app import create_backend_app  # noqa: PLC0415 - reads the environment above
        from moto.s3.models import s3_backends  # noqa: PLC0415 - reads the environment above

        self._app = create_backend_app("s3")
        self._bucket = bucket
        self._index = KeyIndex()
        self._apply_in_moto(Request(method="PUT", target=f"/{bucket}", headers={"host": "localhost"}, body=b""))
        self._keys: Any = s3_backends[_ACCOUNT][_PARTITION].get_bucket(bucket).keys

    def apply(self, request: Request) -> Response:
        """Carry out one request."""
        if request.bucket != self._bucket:
            return self._apply_in_moto(request)
        key = request.key
        if not key and request.method == "GET" and can_answer(query := request.query):
            return list_objects(self._bucket, query, self._index, self._entry)
        response = self._apply_in_moto(request)
        if request.method in _WRITES:
            if key:
                self._index.refresh(key, exists=key in self._keys)
            else:
                self._index.rebuild(self._keys)
        return response

    def _entry(self, key: str) -> Entry:
        stored = self._keys[key]
        return Entry(etag=stored.etag, size=stored.size, last_modified=stored.last_modified_ISO8601)

    def _apply_in_moto(self, request: Request) -> Response:
        status = 500
        headers: list[tuple[str, str]] = []

        def start_response(
            line: str, answered: list[tuple[str, str]], _: object = None, /
        ) -> Callable[[bytes], object]:
            nonlocal status, headers
            status, headers = int(line.partition(" ")[0]), answered
            return io.BytesIO().write

        parts: Iterable[bytes] = self._app(_environ(request), start_response)
        body = b"".join(parts)
        length = next((int(value) for name, value in headers if name.lower() == "content-length"), len(body))
        return Response(status=status, headers=tuple(headers), body=body, content_length=length)


def _environ(request: Request) -> dict[str, Any]:
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        # WSGI wants the decoded bytes as if they were latin-1.
        "PATH_INFO": unquote_to_bytes(request.raw_path).decode("latin-1"),
        "RAW_URI": request.target,
        "QUERY_STRING": request.query_string,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_TYPE": request.headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(request.body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in request.headers.items():
        if name not in {"content-type", "content-length", "transfer-encoding"} and "_" not in name:
            environ["HTTP_" + name.upper().replace("-", "_")] = value
    return environ
