"""The store behind the endpoint: moto's S3, called in process. The only module that imports moto.

The backend walks every key of the bucket and spends a quarter of a millisecond on each key it returns. A test that
measures what a listing costs would then measure that, and a long session would slow down with every object it leaves
behind. The objects themselves stay the backend's; only their names are kept here, in order. Plain reads of objects are
answered from them directly: the way through the backend takes ten times as long, and most requests are reads.
"""

from __future__ import annotations

import base64
import io
import os
import re
import sys
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote_to_bytes
from xml.sax.saxutils import escape

from omnigraph.records import record
from omnigraph.testing.s3.calls import HttpRequest, Response, keys_to_delete

_PAGE: Final = 1000
_KNOWN: Final = frozenset({"list-type", "prefix", "delimiter", "max-keys", "start-after", "continuation-token"})


@record
class ListedKey:
    """What a listing tells about one object."""

    etag: str
    size: int
    last_modified: str


class KeyIndex:
    """The keys of one bucket in order, kept in step with a store that is asked one key at a time."""

    def __init__(self) -> None:
        self._keys: list[str] = []

    def refresh(self, key: str, *, exists: bool) -> None:
        """Note whether ``key`` exists."""
        place = bisect_left(self._keys, key)
        found = place < len(self._keys) and self._keys[place] == key
        if exists and not found:
            insort(self._keys, key)
        elif found and not exists:
            del self._keys[place]

    def scan(self, prefix: str, after: str, delimiter: str) -> Iterator[tuple[str, bool]]:
        """Yield (name, is a common prefix) below ``prefix`` and behind ``after``, in order."""
        place = max(bisect_left(self._keys, prefix), bisect_right(self._keys, after))
        while place < len(self._keys) and self._keys[place].startswith(prefix):
            key = self._keys[place]
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            if cut < 0:
                yield key, False
                place += 1
                continue
            folder = key[: cut + len(delimiter)]
            if folder > after:
                yield folder, True
            place = bisect_left(self._keys, folder[:-1] + chr(ord(folder[-1]) + 1), place)


def can_answer(query: Mapping[str, str]) -> bool:
    """Whether a request for a listing asks for nothing beyond what :func:`list_objects` knows."""
    return query.get("list-type") == "2" and query.keys() <= _KNOWN and query.get("max-keys", "1").isdecimal()


def list_objects(
    bucket: str, query: Mapping[str, str], index: KeyIndex, entry_of: Callable[[str], ListedKey]
) -> Response:
    """Answer a LIST of version 2."""
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    page = min(int(query.get("max-keys", _PAGE)), _PAGE)
    token = query.get("continuation-token", "")
    after = base64.b64decode(token).decode() if token else query.get("start-after", "")
    contents: list[str] = []
    folders: list[str] = []
    last, truncated = "", False
    for name, is_folder in index.scan(prefix, after, delimiter):
        if len(contents) + len(folders) >= page:
            truncated = page > 0
            break
        last = name
        if is_folder:
            folders.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
        else:
            contents.append(_contents(name, entry_of(name)))
    fields = [("Name", bucket), ("Prefix", prefix), ("MaxKeys", str(page)), ("KeyCount", str(len(contents + folders)))]
    fields += [("IsTruncated", "true" if truncated else "false")]
    fields += [("Delimiter", delimiter)] if delimiter else []
    fields += [("NextContinuationToken", base64.b64encode(last.encode()).decode())] if truncated else []
    head = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in fields)
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"{head}{''.join(contents)}{''.join(folders)}</ListBucketResult>"
    )
    return Response(status=200, headers=(("Content-Type", "application/xml"),), body=body.encode())


# One range of bytes, with a beginning, an end, or both.
_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)")


def read_object(stored: Any, method: str, asked: str | None) -> Response | None:
    """Answer a GET or HEAD of an object, or of a range of its bytes; None if the range is a matter for the backend."""
    body, size = stored.value, stored.size
    headers = [("ETag", stored.etag), ("last-modified", stored.last_modified_RFC1123), ("Accept-Ranges", "bytes")]
    headers += stored.metadata.items()
    status = 200
    if asked is not None:
        found = _RANGE.fullmatch(asked)
        if found is None or not (found[1] or found[2]):
            return None
        first = int(found[1]) if found[1] else max(size - int(found[2]), 0)
        last = min(int(found[2]), size - 1) if found[1] and found[2] else size - 1
        if first > last:
            return None
        headers.append(("content-range", f"bytes {first}-{last}/{size}"))
        status, body = 206, body[first : last + 1]
    return Response(
        status=status, headers=tuple(headers), body=b"" if method == "HEAD" else body, content_length=len(body)
    )


def _contents(key: str, entry: ListedKey) -> str:
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{entry.last_modified}</LastModified>"
        f"<ETag>{escape(entry.etag)}</ETag><Size>{entry.size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
    )


# Read by moto when it is imported. Without the first it looks for the bucket in the host name of every request,
# without the second it decorates every answer for browsers.
_MOTO_ENVIRONMENT: Final = {"S3_IGNORE_SUBDOMAIN_BUCKETNAME": "true", "MOTO_DISABLE_GLOBAL_CORS": "true"}
_READS: Final = frozenset({"GET", "HEAD"})
_WRITES: Final = frozenset({"PUT", "POST", "DELETE"})
_ACCOUNT, _PARTITION = "123456789012", "aws"


class MotoStore:
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
        self._entries: dict[str, ListedKey] = {}
        self._apply_in_moto(HttpRequest(method="PUT", target=f"/{bucket}", headers={"host": "localhost"}, body=b""))
        self._keys: Any = s3_backends[_ACCOUNT][_PARTITION].get_bucket(bucket).keys

    def apply(self, request: HttpRequest) -> Response:
        """Carry out one request."""
        if request.bucket != self._bucket:
            return self._apply_in_moto(request)
        key = request.key
        if not key and request.method == "GET" and can_answer(query := request.query):
            return list_objects(self._bucket, query, self._index, self._entry)
        if request.method in _READS and _is_plain(request) and key in self._keys:
            answer = read_object(self._keys[key], request.method, request.headers.get("range"))
            if answer is not None:
                return answer
        response = self._apply_in_moto(request)
        if request.method in _WRITES:
            for changed in (key,) if key else keys_to_delete(request):
                self._index.refresh(changed, exists=changed in self._keys)
                self._entries.pop(changed, None)
        return response

    def _entry(self, key: str) -> ListedKey:
        entry = self._entries.get(key)
        if entry is None:
            stored = self._keys[key]
            entry = ListedKey(etag=stored.etag, size=stored.size, last_modified=stored.last_modified_ISO8601)
            self._entries[key] = entry
        return entry

    def _apply_in_moto(self, request: HttpRequest) -> Response:
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


def _is_plain(request: HttpRequest) -> bool:
    """Whether a request is signed and asks for an object itself, whatever its state."""
    is_signed = "authorization" in request.headers
    return is_signed and "?" not in request.target and not any(name.startswith("if-") for name in request.headers)


def _environ(request: HttpRequest) -> dict[str, Any]:
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
