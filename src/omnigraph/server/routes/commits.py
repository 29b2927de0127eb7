"""Routes about commits, what they changed, and what differs between states."""

from __future__ import annotations

from typing import Any, NoReturn

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.errors import CommitMissingError, MissingThing, OmnigraphError, ValueFormatError
from omnigraph.errors.base import Kind
from omnigraph.history.feed.tokens import DiffPlace, PageLimits, decode_token
from omnigraph.operations.history import (
    BlameRequest,
    CommitChangesRequest,
    DiffPageRequest,
    DiffRequest,
    GetCommitRequest,
    LogRequest,
    RevertRequest,
)
from omnigraph.operations.request import Backend
from omnigraph.policy import Action
from omnigraph.server.models import (
    RevertBody,
    commit_changes_document,
    logged_commit,
    optional_commit,
)
from omnigraph.server.routes.mutations import refuse_condition
from omnigraph.server.service import GraphCall, answer, path_value
from omnigraph.server.transport.bodies import branch_of, flag, malformed, refuse_others, single, whole

router = APIRouter(prefix="/graphs/{graph_id}")
# The base route has no pages: it lists the whole history.
_ALL = (1 << 31) - 1
FILTERS = {"kind": ("node", "edge"), "type": None, "op": ("insert", "update", "delete")}


def change_filter(request: Request) -> dict[str, list[str]]:
    """Return which changes a request asks for, by the names of the fields of requests.

    Raises:
        RequestFormatError: a value is not one of its words.
    """
    found: dict[str, list[str]] = {}
    for name, words in FILTERS.items():
        values = request.query_params.getlist(name)
        for value in values:
            if not value or (words is not None and value not in words):
                raise malformed(name, value, "the name of a type" if words is None else ", ".join(words))
        found[f"{name}s"] = values
    return found


def page_limits(request: Request) -> PageLimits:
    """Return how much an answer carries.

    Raises:
        RequestFormatError: the limit is no number above 0.
        ChangeLimitError: it is too large.
    """
    limit = whole(request, "limit")
    return PageLimits() if limit is None else PageLimits(changes=limit)


@router.get("/commits")
async def list_commits(request: Request) -> Response:
    """List the commits of a branch, newest first; all of them, or a page if ``limit`` is given."""
    call = GraphCall(request)
    limit = whole(request, "limit")
    asked = LogRequest(
        branch=branch_of(single(request, "branch")),
        limit=limit or _ALL,
        after=single(request, "cursor"),
        actor=single(request, "actor"),
        type_name=single(request, "type"),
        full=True,
    )
    page = await call.execute(asked)
    following = {} if page.following is None else {"next_cursor": page.following}
    return answer({"commits": [logged_commit(commit) for commit in page.commits], **following})


@router.get("/commits/{commit_id}")
async def get_commit(request: Request) -> Response:
    """Show one commit of any branch."""
    call = GraphCall(request)
    call.require(Action.READ, branch=None)
    wanted = path_value(request, "commit_id")
    return answer(logged_commit(await call.run(lambda backend: _find(backend, wanted), is_allowed=True)))


def _find(backend: Backend, commit_id: str) -> Any:
    try:
        return backend.execute(GetCommitRequest(commit_id=commit_id))
    except ValueFormatError:
        _missing(commit_id)


def _missing(commit_id: str) -> NoReturn:
    details = MissingThing(what="commit", name=commit_id)
    raise CommitMissingError(f"commit '{commit_id}' not found", details=details)


@router.get("/commits/{commit_id}/changes")
async def get_commit_changes(request: Request) -> Response:
    """Show what one commit changed relative to its first parent, a page of it."""
    call = GraphCall(request)
    refuse_others(request, {"page_token", "limit", *FILTERS})
    asked = CommitChangesRequest(
        commit_id=path_value(request, "commit_id"),
        page_token=single(request, "page_token"),
        limits=page_limits(request),
        **change_filter(request),
    )
    commit = await call.run(lambda backend: _find(backend, asked.commit_id), is_allowed=True)
    try:
        call.require(Action.READ, branch=str(commit.branch))
    except OmnigraphError as error:
        if error.kind is Kind.DENIED:
            # Who may not read the branch does not learn that the commit exists.
            _missing(asked.commit_id)
        raise
    changes = await call.run(lambda backend: backend.execute(asked), is_allowed=True)
    return answer(commit_changes_document(changes))


@router.post("/commits/{commit_id}/revert")
async def revert_commit(request: Request) -> Response:
    """Undo what one commit changed, as a commit of its own."""
    call = GraphCall(request)
    body = await call.json(RevertBody)
    refuse_condition(request)
    asked = RevertRequest(
        commit=path_value(request, "commit_id"),
        branch=branch_of(body.branch),
        resolve=body.resolve,
        decisions=body.decisions or (),
        actor=call.actor_name,
        message=body.message,
        expected_head=body.expected_head,
    )
    done = await call.execute(asked)
    return answer({**done.to_json(), "commit": optional_commit(done.commit)})


@router.get("/blame")
async def blame(request: Request) -> Response:
    """Show which commits changed an entity, and who wrote each of its properties."""
    call = GraphCall(request)
    type_name, entity_id = _needed(request, "type"), _needed(request, "id")
    asked = BlameRequest(
        type_name=type_name,
        entity_id=entity_id,
        branch=branch_of(single(request, "branch")),
        at=single(request, "snapshot"),
        limit=whole(request, "limit") or 20,
    )
    return answer((await call.execute(asked)).to_json())


def _needed(request: Request, name: str) -> str:
    found = single(request, name)
    if not found:
        raise malformed(name, "", "a value", f"parameter '{name}' is missing")
    return found


@router.get("/diff")
async def diff(request: Request) -> Response:
    """Compare two states, a page of changes or, with ``summary``, counts by type."""
    call = GraphCall(request)
    is_summary = flag(request, "summary")
    wanted = {**change_filter(request), "ids": request.query_params.getlist("id")}
    branch, limits = branch_of(single(request, "branch")), page_limits(request)
    token = single(request, "page_token")
    if token is None:
        before, after = _needed(request, "from"), single(request, "to") or "main"
    else:
        # A token is about two commits, which the policy is asked about as if they were named.
        place = decode_token(token)
        if not isinstance(place, DiffPlace):
            raise malformed("page_token", token, "the token of an earlier page of a difference")
        before, after = place.before, place.after
    if not is_summary:
        paged = DiffPageRequest(before=before, after=after, branch=branch, page_token=token, limits=limits, **wanted)
        return answer((await call.execute(paged)).to_json())
    asked = DiffRequest(before=before, after=after, branch=branch, **wanted)

    def count(backend: Backend) -> dict[str, Any]:
        found = backend.execute(asked)
        ends = (str(found.before.state.head.commit), str(found.after.state.head.commit))
        return {"from_graph_commit_id": ends[0], "to_graph_commit_id": ends[1], "summary": found.stats().to_json()}

    return answer(await call.run(count))
