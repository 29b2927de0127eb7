"""Routes that deliver the bytes of one Blob of one entity."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from omnigraph.errors import BlobRangeError, ByteRange
from omnigraph.operations.reads import ReadBlobRequest, ReadStateRequest, found_blob
from omnigraph.operations.request import Backend
from omnigraph.records import record
from omnigraph.server.errors import error_body, plain_body
from omnigraph.server.service import GraphCall, answer
from omnigraph.server.transport.bodies import branch_of, malformed, single
from omnigraph.store.tables.pinned import BlobPart

router = APIRouter(prefix="/graphs/{graph_id}")
_CHUNK_BYTES = 4 << 20
_TYPE = "application/octet-stream"
_TAG = re.compile(r'(W/)?"[\x21\x23-\x7e\x80-\xff]*"')
# What an address is made of; a header has room for nothing else.
_PLAIN = "%/:!$&'()*+,;=@~-._"
# A longer number is none of a byte of a Blob, and none that is worth reading.
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


@record
class _Selector:
    entity: str
    type_name: str
    entity_id: str
    property: str
    branch: str
    snapshot: str | None


@record
class _Blob:
    size: int
    tag: str
    snapshot_id: str
    # Where the content is, if it is outside of the graph.
    uri: str | None
    # Reads bytes from a place on, so many at most.
    read: Callable[[int, int], Awaitable[bytes]]


@router.get("/blob")
async def get_blob(request: Request) -> Response:
    """Send the bytes of a Blob, or a range of them."""
    call = GraphCall(request)
    found = await _find(call)
    if found.uri is not None:
        return _elsewhere(found, found.uri)
    headers = _headers(found)
    refused = _precondition(request, found, headers)
    if refused is not None:
        return refused
    span = _range(request, found)
    if span is None:
        return _send(found, 0, found.size, 200, headers)
    start, end = span
    if start >= found.size:
        details = ByteRange(start=start, end=max(start, end), length=found.size)
        error = BlobRangeError(f"the range begins after the end: the blob has {found.size} bytes", details=details)
        body = error_body(error, request.scope["omnigraph.request_id"])
        return answer(body, status=416, headers={"Content-Range": f"bytes */{found.size}"})
    told = {"Content-Range": f"bytes {start}-{end - 1}/{found.size}"}
    return _send(found, start, end, 206, {**headers, **told})


@router.head("/blob")
async def head_blob(request: Request) -> Response:
    """Say how long a Blob is, without its bytes."""
    call = GraphCall(request)
    found = await _find(call)
    if found.uri is not None:
        return _elsewhere(found, found.uri)
    headers = _headers(found)
    refused = _precondition(request, found, headers)
    if refused is not None:
        return refused
    return Response(headers={**headers, "Content-Length": str(found.size)}, media_type=_TYPE)


def _elsewhere(found: _Blob, uri: str) -> Response:
    """Return where the content is; it is the client's to go there."""
    location = quote(uri, safe=_PLAIN)
    told = {"Location": location, "Cache-Control": "no-store", "Omnigraph-Snapshot-Id": found.snapshot_id}
    return Response(status_code=302, headers=told)


def _headers(found: _Blob) -> dict[str, str]:
    return {"Accept-Ranges": "bytes", "ETag": found.tag, "Omnigraph-Snapshot-Id": found.snapshot_id}


def _send(found: _Blob, start: int, end: int, status: int, headers: dict[str, str]) -> Response:
    told = {**headers, "Content-Length": str(end - start)}
    return StreamingResponse(_pieces(found, start, end), status_code=status, headers=told, media_type=_TYPE)


async def _pieces(found: _Blob, start: int, end: int) -> AsyncIterator[bytes]:
    """Yield a range piece by piece. A piece is read when the client has taken the one before."""
    while start < end:
        piece = await found.read(start, min(_CHUNK_BYTES, end - start))
        start += len(piece)
        yield piece


def _selector(request: Request) -> _Selector:
    found = {name: single(request, name) for name in ("entity", "type", "id", "property")}
    for name, value in found.items():
        if not value:
            raise malformed(name, "", "a value", f"parameter '{name}' is missing")
    if found["entity"] not in {"node", "edge"}:
        raise malformed("entity", found["entity"] or "", "node or edge")
    branch, snapshot = single(request, "branch"), single(request, "snapshot")
    if branch is not None and snapshot is not None:
        raise malformed("target", snapshot, "one of the two", "branch and snapshot cannot be combined")
    return _Selector(
        entity=found["entity"] or "",
        type_name=found["type"] or "",
        entity_id=found["id"] or "",
        property=found["property"] or "",
        branch=branch_of(branch),
        snapshot=snapshot,
    )


async def _find(call: GraphCall) -> _Blob:
    """Find a Blob and how long it is; its bytes are not read.

    All of it is read from the one state that was found here, whatever is written meanwhile.
    """
    chosen = _selector(call.request)
    backend = call.backend

    def find() -> tuple[BlobPart, str]:
        commit = str(backend.execute(ReadStateRequest(branch=chosen.branch, at=chosen.snapshot)).state.head.commit)
        return _read(backend, chosen, commit, 0, 0), commit

    async def read(start: int, length: int) -> bytes:
        return (await call.service.run(lambda: _read(backend, chosen, commit, start, length))).data

    found, commit = await call.service.run(find)
    return _Blob(size=found.size, tag=f'"{found.tag}"', snapshot_id=commit, uri=found.uri, read=read)


def _read(backend: Backend, chosen: _Selector, commit: str, start: int, length: int) -> BlobPart:
    asked = ReadBlobRequest(
        type_name=f"{chosen.entity}:{chosen.type_name}",
        entity_id=chosen.entity_id,
        property=chosen.property,
        start=start,
        length=length,
        branch=chosen.branch,
        at=commit,
    )
    return found_blob(asked, backend.execute(asked))


def _precondition(request: Request, found: _Blob, headers: dict[str, str]) -> Response | None:
    """Return the answer that conditions on the tag demand, if they demand one."""
    must = request.headers.getlist("if-match")
    if must and not _matches(must, found.tag, is_weak=False):
        body = {**plain_body(412, "If-Match does not match the Blob"), "code": "conflict"}
        return answer(body, status=412, headers={"ETag": found.tag})
    must_not = request.headers.getlist("if-none-match")
    if must_not and _matches(must_not, found.tag, is_weak=True):
        return Response(status_code=304, headers={**headers, "Content-Length": str(found.size)})
    return None


def _matches(values: list[str], tag: str, *, is_weak: bool) -> bool:
    for text in values:
        if text.strip() == "*":
            return True
        for item in text.split(","):
            one = item.strip()
            if _TAG.fullmatch(one) is None:
                continue
            if one == tag or (is_weak and one.removeprefix("W/") == tag):
                return True
    return False


def _range(request: Request, found: _Blob) -> tuple[int, int] | None:
    """Return the range that is asked for, its end excluded; None for all of it."""
    ranges, condition = request.headers.getlist("range"), request.headers.getlist("if-range")
    if len(ranges) != 1 or (condition and condition != [found.tag]):
        return None
    asked = _RANGE.fullmatch(ranges[0].strip())
    if asked is None or asked.groups() == ("", ""):
        return None
    first, last = asked.groups()
    length = found.size
    if not first:
        # The last so many bytes.
        count = int(last)
        return (max(0, length - count), length) if count else (length, length)
    start = int(first)
    if not last:
        return start, max(start, length)
    return None if int(last) < start else (start, min(int(last) + 1, max(start, length)))
