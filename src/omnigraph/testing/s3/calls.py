"""What the endpoint remembers of each request."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from html import unescape
from http import HTTPStatus
from typing import Final, Literal
from urllib.parse import parse_qsl, unquote

from omnigraph.records import record

ObjectClass = Literal[
    "manifest_version",
    "manifest_txn",
    "manifest_data",
    "table_version",
    "table_txn",
    "table_data",
    "table_deletion",
    "table_index",
    "sidecar",
    "ref",
    "audit",
    "other",
]

# The first pattern found in the key decides. The audit table and the manifest are Lance datasets too, so what is
# special about a dataset stands above what is common to all of them. A key may also be the prefix of a LIST, hence
# the ends that accept a bare directory.
_RULES: Final[tuple[tuple[str, ObjectClass], ...]] = (
    (r"(?:^|/)_graph_commit_recoveries\.lance(?:/|$)", "audit"),
    (r"(?:^|/)__recovery(?:/|$)", "sidecar"),
    (r"(?:^|/)_refs(?:/|$)", "ref"),
    (r"(?:^|/)__manifest/(?:.+/)?_versions(?:/|$)", "manifest_version"),
    (r"(?:^|/)__manifest/(?:.+/)?_transactions(?:/|$)", "manifest_txn"),
    (r"(?:^|/)__manifest/(?:.+/)?(?:data|_deletions|_indices)(?:/|$)", "manifest_data"),
    (r"(?:^|/)_versions(?:/|$)", "table_version"),
    (r"(?:^|/)_transactions(?:/|$)", "table_txn"),
    (r"(?:^|/)_deletions(?:/|$)", "table_deletion"),
    (r"(?:^|/)_indices(?:/|$)", "table_index"),
    (r"(?:^|/)data/(?:.+\.(?:lance|blob|bin))?$", "table_data"),
)
_COMPILED: Final = tuple((re.compile(pattern), object_class) for pattern, object_class in _RULES)


def classify_key(key: str) -> ObjectClass:
    """Return the class of the object stored under ``key``, or of the directory a LIST looks into.

    >>> classify_key("g/__manifest/tree/draft/_versions/1.manifest")
    'manifest_version'
    >>> classify_key("g/nodes/01J/data/a.lance")
    'table_data'
    """
    for pattern, object_class in _COMPILED:
        if pattern.search(key):
            return object_class
    return "other"


HEAD_LIMIT_BYTES: Final = 1 << 20
_NO_BODY: Final = frozenset({204, 304})
# Set by us for every response, so an answer of the backend must not bring its own.
_OWN_HEADERS: Final = frozenset({"connection", "content-length", "transfer-encoding"})


@record
class HttpRequest:
    """One request, body included. Header names are lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def raw_path(self) -> str:
        """The path as sent, percent signs and all."""
        return self.target.partition("?")[0]

    @property
    def query_string(self) -> str:
        """What follows the question mark, as sent."""
        return self.target.partition("?")[2]

    @property
    def query(self) -> dict[str, str]:
        """The decoded query; a bare name has the empty string."""
        return dict(parse_qsl(self.query_string, keep_blank_values=True))

    @property
    def bucket(self) -> str:
        """The first segment of the path."""
        return unquote(self.raw_path.lstrip("/").partition("/")[0])

    @property
    def key(self) -> str:
        """The path behind the bucket."""
        return unquote(self.raw_path.lstrip("/").partition("/")[2])

    @property
    def keeps_alive(self) -> bool:
        """Whether the client wants to send another request on this connection."""
        return self.headers.get("connection", "").lower() != "close"


@record
class Response:
    """One response. ``content_length`` differs from the body's in answers to HEAD, and in those that are cut."""

    status: int
    headers: tuple[tuple[str, str], ...] = field(default=())
    body: bytes = b""
    content_length: int | None = None

    @property
    def is_cut(self) -> bool:
        """Whether the body breaks off before its end."""
        return self.content_length is not None and 0 < len(self.body) < self.content_length

    def cut(self) -> Response:
        """Return the first half of this response, which says that it is whole."""
        return replace(self, body=self.body[: len(self.body) // 2], content_length=len(self.body))

    def encode(self, *, to_method: str) -> bytes:
        """Return the bytes to send as an answer to a request with ``to_method``."""
        length = len(self.body) if self.content_length is None else self.content_length
        lines = [f"HTTP/1.1 {self.status} {_reason(self.status)}"]
        lines += [f"{name}: {value}" for name, value in self.headers if name.lower() not in _OWN_HEADERS]
        if self.status not in _NO_BODY:
            lines.append(f"Content-Length: {length}")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        return head if to_method == "HEAD" or self.status in _NO_BODY else head + self.body


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpRequest | None:
    """Read the next request of a connection; None when none can be read from it any more."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return HttpRequest(method=method, target=target, headers=headers, body=await _read_body(reader, headers))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
        return None


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        length = int(headers.get("content-length", "0"))
        return await reader.readexactly(length) if length else b""
    chunks = []
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        chunks.append(await reader.readexactly(size))
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return b"".join(chunks)


Operation = Literal[
    "GET",
    "HEAD",
    "LIST",
    "PUT",
    "PUT_COPY",
    "PUT_PART",
    "DELETE",
    "DELETE_UPLOAD",
    "POST_DELETE",
    "POST_CREATE_UPLOAD",
    "POST_COMPLETE_UPLOAD",
    "OTHER",
]

_NAMED_KEY: Final = re.compile(rb"<Key>([^<]*)</Key>")


@record
class Call:
    """One request to the store, as it was served.

    ``sequence`` ascends over the whole life of the endpoint, in the order in which service began. ``key`` is the
    prefix for a LIST and the first key for a batch delete. ``status`` is 0 when the connection was closed without an
    answer. Times are on the machine's monotonic clock; ``started_s`` lies behind any wait for a free slot. ``fault``
    is the id of the fault that hit this call, if one did.
    """

    sequence: int
    method: str
    operation: Operation
    key: str
    object_class: ObjectClass
    status: int
    bytes_in: int
    bytes_out: int
    started_s: float
    ended_s: float
    fault: int | None = None


def operation_of(request: HttpRequest) -> Operation:
    """Return what a request asks for, as S3 counts it."""
    query = request.query
    is_object = bool(request.key)
    match request.method:
        case "GET" if is_object:
            return "GET"
        case "GET" if query.get("list-type") == "2" or not query or "prefix" in query:
            return "LIST"
        case "HEAD":
            return "HEAD"
        case "PUT" if is_object:
            if "partNumber" in query:
                return "PUT_PART"
            return "PUT_COPY" if "x-amz-copy-source" in request.headers else "PUT"
        case "DELETE" if is_object:
            return "DELETE_UPLOAD" if "uploadId" in query else "DELETE"
        case "POST" if "delete" in query:
            return "POST_DELETE"
        case "POST" if "uploads" in query:
            return "POST_CREATE_UPLOAD"
        case "POST" if "uploadId" in query:
            return "POST_COMPLETE_UPLOAD"
        case _:
            return "OTHER"


def key_of(request: HttpRequest, operation: Operation) -> str:
    """Return the key that tells which class of objects a request concerns."""
    match operation:
        case "LIST":
            return request.query.get("prefix", "")
        case "POST_DELETE":
            return next(keys_to_delete(request), "")
        case _:
            return request.key


def keys_to_delete(request: HttpRequest) -> Iterator[str]:
    """Yield the keys that a batch delete names."""
    return (unescape(found[1].decode()) for found in _NAMED_KEY.finditer(request.body))


class CallLog:
    """The calls served since the last reset; a call that began before it is not reported after it."""

    def __init__(self) -> None:
        self._calls: deque[Call] = deque()
        self._last_sequence = 0
        self._floor = 0

    @property
    def last_sequence(self) -> int:
        """The number handed out last."""
        return self._last_sequence

    def next_sequence(self) -> int:
        """Hand out the number of a call whose service begins."""
        self._last_sequence += 1
        return self._last_sequence

    def add(self, call: Call) -> None:
        """Remember a call whose service has ended."""
        if call.sequence > self._floor:
            self._calls.append(call)

    def reset(self) -> None:
        """Forget everything, calls in service included."""
        self._floor = self._last_sequence
        self._calls.clear()

    def since(self, sequence: int) -> list[Call]:
        """Return the calls numbered above ``sequence``, in the order in which their service began."""
        return sorted((call for call in self._calls if call.sequence > sequence), key=lambda call: call.sequence)
