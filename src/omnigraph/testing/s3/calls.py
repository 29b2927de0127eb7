"""What the endpoint remembers of each request."""

from __future__ import annotations

import re
from collections import deque
from typing import Final, Literal

from omnigraph.records import record
from omnigraph.testing.s3.classes import ObjectClass
from omnigraph.testing.s3.wire import Request

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

_FIRST_KEY: Final = re.compile(rb"<Key>([^<]*)</Key>")
_ENTITIES: Final = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))


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


def operation_of(request: Request) -> Operation:
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


def key_of(request: Request, operation: Operation) -> str:
    """Return the key that tells which class of objects a request concerns."""
    match operation:
        case "LIST":
            return request.query.get("prefix", "")
        case "POST_DELETE":
            found = _FIRST_KEY.search(request.body)
            key = found.group(1).decode() if found else ""
            for entity, character in _ENTITIES:
                key = key.replace(entity, character)
            return key
        case _:
            return request.key


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
