"""HTTP/1.1 as an S3 client speaks it: requests read from a stream, responses written to one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import field
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, unquote

from omnigraph.records import record

HEAD_LIMIT_BYTES: Final = 1 << 20
_NO_BODY: Final = frozenset({204, 304})
# Set by us for every response, so an answer of the backend must not bring its own.
_OWN_HEADERS: Final = frozenset({"connection", "content-length", "transfer-encoding"})


@record
class Request:
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
    """One response. ``content_length`` differs from the body's only in answers to HEAD."""

    status: int
    headers: tuple[tuple[str, str], ...] = field(default=())
    body: bytes = b""
    content_length: int | None = None

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


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
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
        return Request(method=method, target=target, headers=headers, body=await _read_body(reader, headers))
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
