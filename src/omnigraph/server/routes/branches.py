"""Routes about branches and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.errors import OmnigraphError
from omnigraph.operations.history import (
    CreateBranchRequest,
    CreateTagRequest,
    DeleteBranchRequest,
    DeleteTagRequest,
    ListBranchesRequest,
    ListTagsRequest,
    MergeRequest,
    PreviewMergeRequest,
)
from omnigraph.operations.request import Backend
from omnigraph.policy import Action
from omnigraph.server.config import public_uri
from omnigraph.server.models import (
    BranchCreateBody,
    BranchMergeBody,
    TagCreateBody,
    branch_document,
    logged_commit,
    optional_commit,
)
from omnigraph.server.routes.mutations import refuse_condition
from omnigraph.server.service import GraphCall, answer, path_value
from omnigraph.server.transport.bodies import branch_of, flag, malformed
from omnigraph.values.damage import DamagedRecord, damaged_json

if TYPE_CHECKING:
    from omnigraph.txn.branches.status import BranchStatus
    from omnigraph.txn.branches.tags import Tag

router = APIRouter(prefix="/graphs/{graph_id}")


@router.get("/branches")
async def list_branches(request: Request) -> Response:
    """List the branches by name; with ``verbose`` how each stands to the one it came from."""
    call = GraphCall(request)
    is_verbose = flag(request, "verbose")
    listed = await call.execute(ListBranchesRequest())
    found = sorted(listed, key=lambda status: str(status.name))
    sound = [status for status in found if not isinstance(status, DamagedRecord)]
    document: dict[str, Any] = {"branches": [str(status.name) for status in sound]}
    if is_verbose:
        document["details"] = [_status(status) for status in sound]
    return answer({**document, **damaged_json(found)})


def _status(status: BranchStatus) -> dict[str, Any]:
    created = status.created_at_ms
    return {
        "name": str(status.name),
        "head": logged_commit(status.head),
        "parent": status.parent,
        "forked_at": status.forked_at,
        "ahead": status.ahead,
        "behind": status.behind,
        "merged": status.parent is not None and status.ahead == 0,
        "last_actor": status.last_actor,
        "last_at": status.head.published_at_ms * 1000,
        "created_at": None if created is None else created * 1000,
        "created_by": status.created_by,
    }


@router.post("/branches")
async def create_branch(request: Request) -> Response:
    """Create a branch at the newest state of another one."""
    call = GraphCall(request)
    body = await call.json(BranchCreateBody)
    refuse_condition(request)
    name, source = branch_of(body.name, "name"), branch_of(body.base, "from")
    if name == "main":
        raise malformed("name", name, "another name than main", "branch 'main' always exists")
    call.require_without_export(Action.BRANCH_CREATE, branch=source, target=name)
    await call.execute(CreateBranchRequest(name=name, source=source, actor=call.actor_name))
    return answer({"uri": public_uri(call.graph.graph_id), "from": source, "name": name, "actor_id": call.actor_name})


@router.delete("/branches/{branch}")
async def delete_branch(request: Request) -> Response:
    """Delete a branch and its own commits; harmless when that was done before."""
    call = GraphCall(request)
    refuse_condition(request)
    name = branch_of(path_value(request, "branch"))
    call.require_without_export(Action.BRANCH_DELETE, branch=None, target=name)
    await call.execute(DeleteBranchRequest(name=name, actor=call.actor_name))
    return answer({"uri": public_uri(call.graph.graph_id), "name": name, "actor_id": call.actor_name})


@router.post("/branches/merge")
async def merge_branches(request: Request) -> Response:
    """Merge a branch into another; with ``dry_run`` only say what that would do."""
    call = GraphCall(request)
    body = await call.json(BranchMergeBody)
    refuse_condition(request)
    source, target = branch_of(body.source, "source"), branch_of(body.target, "target")
    if source == target:
        raise malformed("target", target, "another branch", "a branch cannot be merged into itself")
    decisions = body.decisions or ()
    if body.dry_run:
        preview = PreviewMergeRequest(source=source, target=target, resolve=body.resolve, decisions=decisions)
        return answer((await call.execute(preview)).to_json())
    asked = MergeRequest(
        source=source,
        target=target,
        resolve=body.resolve,
        decisions=decisions,
        actor=call.actor_name,
        message=body.message,
        expected_head=body.expected_head,
        expected_source_head=body.expected_source_head,
    )
    deletes = bool(body.delete_branch)
    return answer(await call.run(lambda backend: _merge(call, backend, asked, deletes=deletes), is_write=True))


def _merge(call: GraphCall, backend: Backend, asked: MergeRequest, *, deletes: bool) -> dict[str, Any]:
    done = backend.execute(asked)
    document: dict[str, Any] = {
        "source": asked.source,
        "target": asked.target,
        "outcome": done.outcome.value,
        "actor_id": call.actor_name,
    }
    if deletes:
        try:
            call.service.exports.refuse_while_exporting(call.graph.graph_id)
            backend.execute(DeleteBranchRequest(name=asked.source, actor=call.actor_name))
            document["branch_deleted"] = True
        except OmnigraphError as error:
            # The merge stands, whatever becomes of the branch.
            document |= {"branch_deleted": False, "branch_delete_error": error.message}
    return {
        **document,
        "commit": optional_commit(done.commit),
        "base_commit_id": done.base,
        "schema_steps": [step.to_json() for step in done.schema_steps],
        "tables": [table.to_json() for table in done.tables],
    }


@router.get("/tags")
async def list_tags(request: Request) -> Response:
    """List the tags by name."""
    call = GraphCall(request)
    tags = await call.execute(ListTagsRequest())
    sound = [_tag(tag) for tag in tags if not isinstance(tag, DamagedRecord)]
    return answer({"tags": sound, **damaged_json(tags)})


@router.post("/tags")
async def create_tag(request: Request) -> Response:
    """Name the state that a reference means at this moment."""
    call = GraphCall(request)
    body = await call.json(TagCreateBody)
    refuse_condition(request)
    asked = CreateTagRequest(name=body.name, at=branch_of(body.at, "at"), actor=call.actor_name, message=body.message)
    return answer(_tag(await call.execute(asked)))


@router.delete("/tags/{name}")
async def delete_tag(request: Request) -> Response:
    """Remove a tag and answer with it."""
    call = GraphCall(request)
    refuse_condition(request)
    return answer(_tag(await call.execute(DeleteTagRequest(name=path_value(request, "name")))))


def _tag(tag: Tag) -> dict[str, Any]:
    return {**tag.to_json(), "graph_branch": branch_document(tag.branch), "created_at": tag.created_at_ms * 1000}
