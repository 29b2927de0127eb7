"""Routes that change a graph by a query."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.operations.writes import MutateRequest
from omnigraph.server.bodies import branch_of, decode_params, malformed
from omnigraph.server.models import ChangeBody, change_document
from omnigraph.server.service import GraphCall, answer

router = APIRouter(prefix="/graphs/{graph_id}")


@router.post("/mutate")
async def mutate(request: Request) -> Response:
    """Run a mutation and answer with what it did."""
    call = GraphCall(request)
    body = await call.json(ChangeBody)
    done = await call.execute(change_request(body, call.actor_name))
    return answer(change_document(done))


def change_request(body: ChangeBody, actor: str | None, expected_head: str | None = None) -> MutateRequest:
    """Return the mutation that a body asks for.

    Raises:
        RequestFormatError: the text is missing or given twice, or the branch is blank.
        QueryParameterError: the parameters are not an object.
    """
    return MutateRequest(
        text=_one_of("query", body.query, body.query_source),
        name=body.name if body.name is not None else body.query_name,
        params=decode_params(body.params),
        params_form="strict",
        branch=branch_of(body.branch),
        actor=actor,
        expected_head=expected_head,
    )


def _one_of(name: str, first: str | None, second: str | None) -> str:
    if first is not None and second is not None:
        raise malformed(name, second, "one of the two", f"{name} and {name}_source cannot be combined")
    found = second if first is None else first
    if found is None:
        raise malformed(name, "", "the text of a mutation", f"invalid body: missing required field `{name}`")
    return found
