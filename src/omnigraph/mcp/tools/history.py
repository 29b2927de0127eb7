"""Tools about history: commits, who changed an entity, and what changed since."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec

from omnigraph.history.feed.tokens import PageLimits
from omnigraph.mcp.answers import DEFAULT_BYTES, MaxBytes, take_items
from omnigraph.mcp.tool import Answer, Arguments, Tool, ToolCall
from omnigraph.mcp.tools.schema import AsOf, BranchToRead, TypeName
from omnigraph.operations.history import BlameRequest, LogRequest, PollChangesRequest
from omnigraph.operations.reads import ResolveRefRequest

_MOST_COMMITS = 200
_MOST_CHANGES = 1000


class Log(Arguments, kw_only=True, frozen=True):
    """Arguments of ``log``."""

    branch: BranchToRead = None
    as_of: AsOf = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST_COMMITS, description="Maximum number of commits.")] = 20
    actor: Annotated[str | None, msgspec.Meta(description="Only commits by this actor.")] = None
    type: Annotated[str | None, msgspec.Meta(description="Only commits that changed this type.")] = None
    continuation: Annotated[str | None, msgspec.Meta(description="The continuation of the previous answer.")] = None


class Commits(Answer, kw_only=True, frozen=True):
    """Commits, newest first."""

    branch: str
    commits: list[Any]
    has_more: bool
    continuation: str | None = None


class Blame(Arguments, kw_only=True, frozen=True):
    """Arguments of ``blame``."""

    type: TypeName
    id: Annotated[str, msgspec.Meta(description="The id of the entity.")]
    branch: BranchToRead = None
    as_of: AsOf = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST_COMMITS, description="Maximum number of commits.")] = 20


class Blamed(Answer, kw_only=True, frozen=True):
    """Which commits changed an entity, newest first, and the author of each property."""

    history: dict[str, Any]


class ChangesPoll(Arguments, kw_only=True, frozen=True):
    """Arguments of ``changes_poll``."""

    cursor: Annotated[
        str | None,
        msgspec.Meta(description="The cursor of the previous answer; without it, the feed begins at start."),
    ] = None
    start: Annotated[str, msgspec.Meta(description="The start without a cursor: now, beginning or after:COMMIT.")] = (
        "now"
    )
    branch: BranchToRead = None
    types: Annotated[tuple[str, ...], msgspec.Meta(description="Only these types.")] = ()
    ops: tuple[Literal["insert", "update", "delete"], ...] = ()
    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST_CHANGES, description="Maximum number of changes.")] = 100
    max_bytes: MaxBytes = DEFAULT_BYTES


class Changes(Answer, kw_only=True, frozen=True):
    """The next commits with what they changed, oldest first, and where the feed goes on."""

    commits: list[Any]
    cursor: str
    caught_up: bool


def list_commits(call: ToolCall, given: Log) -> Commits:
    """List commits; raises what the operation does."""
    branch = call.branch_of(given.branch)
    until = None
    if given.as_of is not None:
        found = call.execute(ResolveRefRequest(ref=given.as_of, branch=branch))
        branch = found.seen_from(branch)
        until = found.commit
    request = LogRequest(
        branch=branch, limit=given.limit, after=given.continuation, actor=given.actor, type_name=given.type
    )
    if until is not None and given.continuation is None:
        # The commit itself, then what lies behind it.
        first = [until] if _is_wanted(until, given) else []
        rest = call.execute(replace(request, after=str(until.id), limit=max(given.limit - len(first), 1)))
        commits = [*first, *rest.commits][: given.limit]
        following = rest.following if len(commits) == len(first) + len(rest.commits) else str(commits[-1].id)
    else:
        page = call.execute(request)
        commits, following = list(page.commits), page.following
    return Commits(
        branch=branch,
        commits=[commit.to_json() for commit in commits],
        has_more=following is not None,
        continuation=None if following is None else str(following),
    )


def _is_wanted(commit: Any, given: Log) -> bool:
    has_type = given.type is None or any(given.type in {key, key.partition(":")[2]} for key in commit.touched)
    return has_type and (given.actor is None or commit.actor == given.actor)


def blame(call: ToolCall, given: Blame) -> Blamed:
    """Tell who changed an entity; raises what the operation does."""
    request = BlameRequest(
        type_name=given.type,
        entity_id=given.id,
        branch=call.branch_of(given.branch),
        at=given.as_of,
        limit=given.limit,
    )
    return Blamed(history=call.execute(request).to_json())


def poll_changes(call: ToolCall, given: ChangesPoll) -> Changes:
    """Return the next changes of a branch.

    Raises:
        AnswerTooLargeError: one change alone does not fit.
        OmnigraphError: the cursor does not belong to this branch and filter, or the feed cannot go on.
    """
    place: dict[str, Any] = {"start": given.start} if given.cursor is None else _place(given.cursor)
    limit = given.limit
    while True:
        request = PollChangesRequest(
            branch=call.branch_of(given.branch),
            types=given.types,
            ops=given.ops,
            limits=PageLimits(changes=limit),
            **place,
        )
        page = call.execute(request)
        blocks = [block.to_json() for block in page.blocks]
        changes = [change for block in blocks for change in block["changes"]]
        kept, fits = take_items(changes, size=given.max_bytes, what="change")
        if fits:
            break
        limit = len(kept)
    following = f"{_INSIDE}{page.next_page_token}" if page.next_page_token is not None else f"{_BEHIND}{page.cursor}"
    return Changes(commits=blocks, cursor=following, caught_up=page.is_caught_up)


# A page ends inside a commit or behind one, and agents need not know which.
_INSIDE, _BEHIND = "p.", "c."


def _place(cursor: str) -> dict[str, Any]:
    is_inside = cursor.startswith(_INSIDE)
    return {"page_token" if is_inside else "cursor": cursor.removeprefix(_INSIDE if is_inside else _BEHIND)}


TOOLS = (
    Tool(
        name="log",
        title="List commits",
        description="List the commits of a branch, newest first: who changed which types, when and why.",
        arguments=Log,
        answer=Commits,
        run=list_commits,
    ),
    Tool(
        name="blame",
        title="Who changed an entity",
        description="Show which commits changed one node or edge, and who wrote each of its properties.",
        arguments=Blame,
        answer=Blamed,
        run=blame,
    ),
    Tool(
        name="changes_poll",
        title="Poll for changes",
        description=(
            "Return the changes of a branch since the cursor of the previous call, oldest first. "
            "Call it once with start now, save the cursor, and pass it to the next call."
        ),
        arguments=ChangesPoll,
        answer=Changes,
        run=poll_changes,
    ),
)
