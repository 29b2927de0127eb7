"""Routes that deliver the bytes of one Blob of one entity."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from omnigraph.catalog.model import Scalar
from omnigraph.engine.accepted import catalog_of
from omnigraph.errors import BlobMissingError, BlobRangeError, ByteRange, MissingThing, TypeMissingError
from omnigraph.operations.reads import ReadEntityRequest, ReadStateRequest
from omnigraph.operations.request import Backend
from omnigraph.records import record
from omnigraph.server.errors import error_body, plain_body
from omnigraph.server.service import GraphCall, answer
from omnigraph.server.transport.bodies import branch_of, malformed, single

router = APIRouter(prefix="/graphs/{graph_id}")
_CHUNK_BYTES = 4 << 20
_TYPE = "application/octet-stream"
_TAG = re.compile(r'(W/)?"[\x21\x23-\x7e\x80-\xff]*"')
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


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
    data: bytes
    tag: str
    snapshot_id: str


@router.get("/blob")
async def get_blob(request: Request) -> Response:
    """Send the bytes of a Blob, or a range of them."""
    call = GraphCall(request)
    found = await _find(call)
    headers = _headers(found)
    refused = _precondition(request, found, headers)
    if refused is not None:
        return refused
    span = _range(request, found)
    if span is None:
        return _send(found.data, 200, {**headers, "Content-Length": str(len(found.data))})
    start, end = span
    if start >= len(found.data):
        details = ByteRange(start=start, end=max(start, end), length=len(found.data))
        error = BlobRangeError(f"the range begins behind the last of {len(found.data)} bytes", details=details)
        body = error_body(error, request.scope["omnigraph.request_id"])
        return answer(body, status=416, headers={"Content-Range": f"bytes */{len(found.data)}"})
    part = found.data[start:end]
    told = {"Content-Range": f"bytes {start}-{start + len(part) - 1}/{len(found.data)}"}
    return _send(part, 206, {**headers, **told, "Content-Length": str(len(part))})


@router.head("/blob")
async def head_blob(request: Request) -> Response:
    """Say how long a Blob is, without its bytes."""
    call = GraphCall(request)
    found = await _find(call)
    headers = _headers(found)
    refused = _precondition(request, found, headers)
    if refused is not None:
        return refused
    return Response(headers={**headers, "Content-Length": str(len(found.data))}, media_type=_TYPE)


def _headers(found: _Blob) -> dict[str, str]:
    return {"Accept-Ranges": "bytes", "ETag": found.tag, "Omnigraph-Snapshot-Id": found.snapshot_id}


def _send(data: bytes, status: int, headers: dict[str, str]) -> Response:
    return StreamingResponse(_pieces(data), status_code=status, headers=headers, media_type=_TYPE)


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), _CHUNK_BYTES):
        yield data[start : start + _CHUNK_BYTES]


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
    chosen = _selector(call.request)
    return await call.run(lambda backend: _read(backend, chosen))


def _read(backend: Backend, chosen: _Selector) -> _Blob:
    state = backend.execute(ReadStateRequest(branch=chosen.branch, at=chosen.snapshot)).state
    key = f"{chosen.entity}:{chosen.type_name}"
    catalog = catalog_of(state.schema)
    owner = (catalog.edges if chosen.entity == "edge" else catalog.nodes).get(chosen.type_name)
    if owner is None:
        details = MissingThing(what="type", name=key)
        raise TypeMissingError(f"type '{chosen.type_name}' was not found", details=details)
    declared = owner.get(chosen.property)
    if declared is None or declared.type.scalar is not Scalar.BLOB:
        raise malformed("property", chosen.property, f"a Blob of {chosen.type_name}")
    commit = str(state.head.commit)
    entity = backend.execute(
        ReadEntityRequest(type_name=key, entity_id=chosen.entity_id, branch=chosen.branch, at=chosen.snapshot or commit)
    )
    data = None if entity is None else entity.properties.get(chosen.property)
    if data is None:
        details = MissingThing(what="blob", name=chosen.entity_id)
        raise BlobMissingError(f"{chosen.type_name} '{chosen.entity_id}' has no {chosen.property}", details=details)
    return _Blob(data=data, tag=f'"{hashlib.sha256(data).hexdigest()}"', snapshot_id=commit)


def _precondition(request: Request, found: _Blob, headers: dict[str, str]) -> Response | None:
    """Return the answer that conditions on the tag demand, if they demand one."""
    must = request.headers.getlist("if-match")
    if must and not _matches(must, found.tag, is_weak=False):
        body = {**plain_body(412, "If-Match does not match the Blob"), "code": "conflict"}
        return answer(body, status=412, headers={"ETag": found.tag})
    must_not = request.headers.getlist("if-none-match")
    if must_not and _matches(must_not, found.tag, is_weak=True):
        return Response(status_code=304, headers={**headers, "Content-Length": str(len(found.data))})
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
    length = len(found.data)
    if not first:
        # The last so many bytes.
        count = int(last)
        return (max(0, length - count), length) if count else (length, length)
    start = int(first)
    if not last:
        return start, max(start, length)
    return None if int(last) < start else (start, min(int(last) + 1, max(start, length)))
