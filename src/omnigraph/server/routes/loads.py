"""Routes that load rows."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.engine.accepted import catalog_of
from omnigraph.engine.load.sources.source import Source
from omnigraph.errors import (
    BadValue,
    BodyTooLargeError,
    BranchExistsError,
    BranchMissingError,
    LimitExceeded,
    MediaTypeError,
    MissingThing,
)
from omnigraph.operations.history import CreateBranchRequest, ListBranchesRequest
from omnigraph.operations.reads import ReadStateRequest
from omnigraph.operations.request import Backend
from omnigraph.operations.writes import LoadRequest
from omnigraph.policy import Action
from omnigraph.runtime import CallContext
from omnigraph.server.config import public_uri
from omnigraph.server.models import IngestBody, load_document
from omnigraph.server.routes.mutations import refuse_condition
from omnigraph.server.service import GraphCall, answer, served_request
from omnigraph.server.transport.bodies import NDJSON_TYPE, branch_of, malformed, media_type, read_body, single

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog

router = APIRouter(prefix="/graphs/{graph_id}")
_MODES = ("append", "merge", "overwrite")
_SUCCESSOR = {"Deprecation": "true", "Link": '<load>; rel="successor-version"'}
_STRUCTURAL_SLOTS = 131_072
_QUOTE, _STRUCTURAL = ord('"'), b"{}[],:"
_SPACE = re.compile(r"\s*")


@router.post("/load")
async def load(request: Request) -> Response:
    """Load records from a text, whatever else stands in them."""
    return answer(await _ingest(request))


@router.post("/ingest")
async def ingest(request: Request) -> Response:
    """Do what ``/load`` does, under the earlier name."""
    return answer(await _ingest(request), headers=_SUCCESSOR)


async def _ingest(request: Request) -> dict[str, Any]:
    call = GraphCall(request)
    body = await call.json(IngestBody, limit=call.service.settings.limits.load_body)
    refuse_condition(request)
    branch, base = branch_of(body.branch), None if body.base is None else branch_of(body.base, "from")
    await _require(call, branch, base)

    def records(backend: Backend) -> bytes:
        state = backend.execute(ReadStateRequest(branch=branch)).state
        return b"".join(_lenient_lines(body.data, catalog_of(state.schema)))

    done = await call.run(
        lambda backend: _load(call, backend, branch, base, body.mode or "merge", records), is_write=True
    )
    return {"uri": public_uri(call.graph.graph_id), **done}


@router.post("/load/ndjson")
async def load_ndjson(request: Request) -> Response:
    """Load lines of JSON, strictly: one bad line, and nothing is loaded."""
    call = GraphCall(request)
    branch, base, mode = _parameters(request)
    # Who may not write is told so before anything is read.
    await _require(call, branch, base)
    refuse_condition(request)
    found = media_type(request)
    if found != NDJSON_TYPE:
        details = BadValue(what="content-type", value=found[:100], expected=NDJSON_TYPE)
        raise MediaTypeError(f"expected a body of type {NDJSON_TYPE}", details=details)
    limits = call.service.settings.limits
    data = await read_body(request, limits.load_body, seconds=limits.body_seconds, resource="graph_batch_request_bytes")
    await call.service.run(lambda: _check_lines(data))
    done = await call.run(lambda backend: _load(call, backend, branch, base, mode, lambda _: data), is_write=True)
    return answer(done)


async def _require(call: GraphCall, branch: str, base: str | None) -> None:
    """Return if the caller may load; who may not does not learn which branches there are, and none is made."""
    missing = base is not None and await call.service.run(lambda: not _exists(call.graph.backend, branch))
    if missing:
        call.require(Action.BRANCH_CREATE, branch=base, target=branch)
    call.require(Action.CHANGE, branch=branch)


def _parameters(request: Request) -> tuple[str, str | None, Any]:
    base = single(request, "from")
    mode = single(request, "mode") or "merge"
    if mode not in _MODES:
        raise malformed("mode", mode, ", ".join(_MODES))
    return branch_of(single(request, "branch")), None if base is None else branch_of(base, "from"), mode


def _load(
    call: GraphCall, backend: Backend, branch: str, base: str | None, mode: Any, content: Callable[[Backend], bytes]
) -> dict[str, Any]:
    is_created = _fork(call, backend, branch, base)
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(content(call.graph.backend))
        file.flush()
        source = Source(path=str(Path(file.name)), format="jsonl", called="body")
        done = backend.execute(LoadRequest(sources=[source], mode=mode, branch=branch, actor=call.actor_name))
    return load_document(done, base, is_created=is_created)


def _fork(call: GraphCall, backend: Backend, branch: str, base: str | None) -> bool:
    """Create the branch if it is missing and may be; return whether that was done."""
    if _exists(call.graph.backend, branch):
        # A request that is sent again is answered as it was when it made the branch.
        sent = served_request(call)
        key = CallContext(idempotency_key=sent.idempotency_key, payload_digest=sent.payload_digest)
        outcomes = call.service.control.outcomes
        return base is not None and outcomes.has_done(sent.graph_id, sent.actor, key, "create_branch")
    if base is None:
        details = MissingThing(what="branch", name=branch)
        raise BranchMissingError(f"branch '{branch}' not found; pass `from` to create it", details=details)
    try:
        backend.execute(CreateBranchRequest(name=branch, source=base, actor=call.actor_name))
    except BranchExistsError:
        if _exists(call.graph.backend, branch):
            # Another writer made it meanwhile, which is just as good.
            return False
        raise
    return True


def _exists(backend: Backend, branch: str) -> bool:
    return branch == "main" or any(str(status.name) == branch for status in backend.execute(ListBranchesRequest()))


def _check_lines(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as problem:
        number = data.count(b"\n", 0, problem.start) + 1
        raise malformed("body", "", "UTF-8 text", f"line {number}: the body is not valid UTF-8") from problem
    for line in data.split(b"\n"):
        if len(line) > _STRUCTURAL_SLOTS:
            slots = _structural_slots(line)
            if slots > _STRUCTURAL_SLOTS:
                details = LimitExceeded(
                    resource="graph_batch_json_structural_slots", limit=_STRUCTURAL_SLOTS, actual=slots
                )
                raise BodyTooLargeError("a line holds too many values", details=details)


def _structural_slots(line: bytes) -> int:
    """Return how many signs of a line of JSON stand outside of its texts, in a few passes whatever it holds."""
    signs = np.frombuffer(line.replace(b"\\\\", b"").replace(b'\\"', b""), np.uint8)
    is_inside = np.logical_xor.accumulate(signs == _QUOTE)
    return sum(int(np.count_nonzero((signs == sign) & ~is_inside)) for sign in _STRUCTURAL)


def _lenient_lines(text: str, catalog: Catalog) -> Iterator[bytes]:
    """Yield a line for each record, without what the schema does not know; problems name the record by its line."""
    decoder = json.JSONDecoder()
    place, number = _space(text, 0), 0
    while place < len(text):
        number += 1
        try:
            record, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as problem:
            raise malformed("data", "", "JSON objects", f"record {number} is not valid JSON") from problem
        if not isinstance(record, dict):
            raise malformed("data", "", "JSON objects", f"record {number} is not a JSON object")
        yield json.dumps(_known_part(record, catalog), ensure_ascii=False).encode(errors="surrogatepass") + b"\n"
        place = _space(text, place)


def _space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return place if found is None else found.end()


def _known_part(record: dict[str, Any], catalog: Catalog) -> dict[str, Any]:
    members = ("edge", "from", "to", "data") if "edge" in record else ("type", "data")
    kept = {name: record[name] for name in members if name in record}
    name = kept.get("edge", kept.get("type"))
    owner = None
    if isinstance(name, str):
        owner = catalog.edge(name) if "edge" in kept else catalog.node(name)
    data = kept.get("data")
    if owner is not None and isinstance(data, dict):
        known = {prop.name for prop in owner.properties} | {"id"}
        kept["data"] = {key: value for key, value in data.items() if key in known}
    return kept
