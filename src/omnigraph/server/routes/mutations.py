"""Routes that change a graph by a query."""

from __future__ import annotations

import re

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.operations.writes import MutateRequest
from omnigraph.server.models import ChangeBody, change_document
from omnigraph.server.service import GraphCall, answer
from omnigraph.server.transport.bodies import branch_of, decode_params, malformed

router = APIRouter(prefix="/graphs/{graph_id}")
CONDITION = "omnigraph-if-graph-commit"
_SUCCESSOR = {"Deprecation": "true", "Link": '<mutate>; rel="successor-version"'}
_COMMIT_ID = re.compile("[0-9A-Za-z]{1,64}")


@router.post("/mutate")
async def mutate(request: Request) -> Response:
    """Run a mutation and answer with what it did."""
    return answer(await _mutate(request))


@router.post("/change")
async def change(request: Request) -> Response:
    """Do what ``/mutate`` does, under the earlier name."""
    return answer(await _mutate(request), headers=_SUCCESSOR)


@router.post("/mutate/if-graph-commit")
async def mutate_if_graph_commit(request: Request) -> Response:
    """Run a mutation if the branch is at a commit."""
    call = GraphCall(request)
    body = await call.json(ChangeBody)
    done = await call.execute(change_request(body, call.actor_name, expected_commit(request)))
    return answer(change_document(done))


async def _mutate(request: Request) -> dict[str, object]:
    call = GraphCall(request)
    body = await call.json(ChangeBody)
    refuse_condition(request)
    return change_document(await call.execute(change_request(body, call.actor_name)))


def change_request(body: ChangeBody, actor: str | None, expected_head: str | None = None) -> MutateRequest:
    """Return the mutation that a body asks for.

    Raises:
        RequestFormatError: the text is missing or given twice, or the branch is blank.
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


def refuse_condition(request: Request) -> None:
    """Refuse the condition on routes that do not know it, so that it is never overlooked.

    Raises:
        RequestFormatError: it is there.
    """
    if CONDITION in request.headers:
        message = "Omnigraph-If-Graph-Commit belongs on the route that ends in /if-graph-commit"
        raise malformed("header", CONDITION, "a route that ends in /if-graph-commit", message)


def expected_commit(request: Request) -> str:
    """Return the commit that the branch must be at.

    Raises:
        RequestFormatError: the header is missing, there twice, or not one plain commit id.
    """
    found = request.headers.getlist(CONDITION)
    if len(found) != 1 or _COMMIT_ID.fullmatch(found[0].strip()) is None:
        message = "the header Omnigraph-If-Graph-Commit must occur once, with one commit id"
        raise malformed("header", ", ".join(found), "one commit id", message)
    return found[0].strip()


def _one_of(name: str, first: str | None, second: str | None) -> str:
    if first is not None and second is not None:
        raise malformed(name, second, "one of the two", f"{name} and {name}_source cannot be combined")
    found = second if first is None else first
    if found is None:
        raise malformed(name, "", "the text of a mutation", f"invalid body: missing required field `{name}`")
    return found
