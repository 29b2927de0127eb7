"""Routes that read by a query: inline, stored, and how it would run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from omnigraph.engine.query.options import QueryOptions
from omnigraph.errors import PolicyDeniedError, StoredQueryMissingError, WrongQueryKindError
from omnigraph.ir.stored_queries import StoredQuery
from omnigraph.operations.reads import ExplainRequest, QueryRequest
from omnigraph.operations.registry import expect_kind
from omnigraph.operations.request import Attachments
from omnigraph.operations.stored import InvokeMutationRequest, InvokeReadRequest
from omnigraph.policy import Action
from omnigraph.server.models import ExplainBody, InvokeBody, QueryBody, ReadBody, change_document, read_document
from omnigraph.server.routes.mutations import expected_commit, refuse_condition
from omnigraph.server.service import GraphCall, Standing, answer, path_value
from omnigraph.server.transport.bodies import (
    ARROW_TYPE,
    NDJSON_TYPE,
    branch_of,
    decode_json,
    decode_params,
    malformed,
    read_body,
)
from omnigraph.server.transport.streams import ByteStream, header_text, write_lines, writing_arrow

if TYPE_CHECKING:
    from omnigraph.engine.results import Result

router = APIRouter(prefix="/graphs/{graph_id}")
_SUCCESSOR = {"Deprecation": "true", "Link": '<query>; rel="successor-version"'}


@router.post("/query")
async def query(request: Request) -> Response:
    """Run a read and answer with its rows, as one JSON document or as a stream."""
    call = GraphCall(request)
    return await run_read(call, read_request(await call.json(QueryBody)))


@router.post("/read")
async def read(request: Request) -> Response:
    """Do what ``/query`` does, in the earlier form."""
    call = GraphCall(request)
    asked = read_request(await call.json(ReadBody))
    content = await call.run(lambda backend: read_document(backend.execute(asked), is_legacy=True))
    return Response(content, media_type="application/json", headers=_SUCCESSOR)


@router.post("/explain")
async def explain(request: Request) -> Response:
    """Show how a read would run; with ``analyze`` also what each step took."""
    call = GraphCall(request)
    body = await call.json(ExplainBody)
    asked = ExplainRequest.of(read_request(body), run=bool(body.analyze))
    found = await call.execute(asked)
    return answer({**found.to_json(), "text": found.describe()})


@router.get("/queries")
async def list_queries(request: Request) -> Response:
    """List the stored queries, by name."""
    call = GraphCall(request)
    call.require(Action.READ, branch="main")
    return answer({"queries": [stored.to_json() for stored in call.graph.queries]})


@router.post("/queries/{name}")
async def invoke_query(request: Request) -> Response:
    """Run a stored query."""
    call = GraphCall(request)
    body = await _invocation(call)
    refuse_condition(request)
    return await _invoke(call, body, None)


@router.post("/queries/{name}/if-graph-commit")
async def invoke_query_if_graph_commit(request: Request) -> Response:
    """Run a stored mutation if the branch is at a commit."""
    call = GraphCall(request)
    body = await _invocation(call)
    return await _invoke(call, body, expected_commit(request))


async def _invocation(call: GraphCall) -> InvokeBody:
    limits = call.service.settings.limits
    data = await read_body(call.request, limits.body, seconds=limits.body_seconds)
    return InvokeBody() if data.strip() in {b"", b"null"} else decode_json(data, InvokeBody)


async def _invoke(call: GraphCall, body: InvokeBody, expected_head: str | None) -> Response:
    stored = _visible(call, path_value(call.request, "name"))
    if expected_head is not None or body.expect_mutation is not None:
        expect_kind(stored, is_mutation=expected_head is not None or bool(body.expect_mutation))
    params = decode_params(body.params)
    if not stored.is_mutation:
        branch, at = state_of(body)
        return await run_read(
            call, InvokeReadRequest(name=stored.name, params=params, params_form="strict", branch=branch, at=at)
        )
    if body.snapshot is not None:
        raise malformed("snapshot", body.snapshot, "a branch", "a mutation runs on a branch, not on a snapshot")
    asked = InvokeMutationRequest(
        name=stored.name,
        params=params,
        params_form="strict",
        branch=branch_of(body.branch),
        actor=call.actor_name,
        expected_head=expected_head,
    )
    return answer(change_document(await call.execute(asked)))


def _visible(call: GraphCall, name: str) -> StoredQuery:
    try:
        call.require(Action.INVOKE_QUERY, branch=None)
        return call.graph.queries.get(name)
    except (PolicyDeniedError, StoredQueryMissingError) as error:
        # Who may not invoke queries does not learn which there are.
        raise StoredQueryMissingError.hidden(name) from error


def read_request(body: QueryBody | ReadBody) -> QueryRequest:
    """Return the read that a body asks for.

    Raises:
        RequestFormatError: branch and snapshot are given together, or are blank; the parameters are not an object.
    """
    branch, at = state_of(body)
    text, name = (body.query, body.name) if isinstance(body, QueryBody) else (body.query_source, body.query_name)
    return QueryRequest(
        text=text,
        name=name,
        params=decode_params(body.params),
        params_form="strict",
        branch=branch,
        at=at,
    )


def state_of(body: QueryBody | ReadBody | InvokeBody) -> tuple[str, str | None]:
    """Return the branch that a body asks for, and the reference to an earlier state.

    Raises:
        RequestFormatError: branch and snapshot are given together, or are blank.
    """
    if body.branch is not None and body.snapshot is not None:
        raise malformed("target", body.snapshot, "one of the two", "branch and snapshot cannot be combined")
    return branch_of(body.branch), None if body.snapshot is None else branch_of(body.snapshot, "snapshot")


async def run_read(call: GraphCall, asked: QueryRequest | InvokeReadRequest) -> Response:
    """Run a read and answer in the form that the caller accepts."""
    accepted = call.request.headers.get("accept", "")
    if ARROW_TYPE in accepted:
        return await _stream(call, asked, ARROW_TYPE, _write_arrow)
    if NDJSON_TYPE in accepted:
        return await _stream(call, asked, NDJSON_TYPE, _write_rows)
    try:
        content = await call.run(lambda backend: read_document(backend.execute(asked)))
    except WrongQueryKindError as error:
        message = f"{error.message}; send it to POST /graphs/{call.graph.graph_id}/mutate"
        raise WrongQueryKindError(message, details=error.details) from error
    return Response(content, media_type="application/json")


async def _stream(
    call: GraphCall,
    asked: QueryRequest | InvokeReadRequest,
    media_type: str,
    write: Callable[[ByteStream, Result], None],
) -> Response:
    stream = ByteStream(call.service.settings.limits)
    wanted = replace(asked, options=QueryOptions(streams=True))
    result = await call.execute(wanted, Attachments(cancel=stream.cancelled))
    leave = call.service.streams.take(call.actor_name)
    stream.start("result", lambda sink: write(sink, result), ended=leave)
    headers = {
        "omnigraph-query-name": result.query_name,
        "omnigraph-branch": result.info.branch,
        "omnigraph-snapshot-id": result.info.snapshot,
        "omnigraph-graph-commit-id": result.commit_id,
    }
    told = {name: header_text(value) for name, value in headers.items() if value is not None}
    first = await stream.first()
    return StreamingResponse(Standing(call, asked).guard(stream.rest(first)), media_type=media_type, headers=told)


def _write_arrow(stream: ByteStream, result: Result) -> None:
    with writing_arrow(stream, result.schema) as writer:
        for batch in result.stream():
            writer.write_batch(batch)


def _write_rows(stream: ByteStream, result: Result) -> None:
    write_lines(stream, (row.encode() for row in result.stream_json_rows()))
