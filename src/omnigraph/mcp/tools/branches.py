"""Tools about branches: listing and creating them, comparing states, and merging."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec

from omnigraph.errors import ContinuationError
from omnigraph.history.feed.tokens import DiffPlace, PageLimits, decode_token
from omnigraph.history.merge import MergeOutcome
from omnigraph.history.merge.conflicts import conflicts_error
from omnigraph.mcp.answers import DEFAULT_BYTES, MaxBytes, take_items
from omnigraph.mcp.tool import Answer, Arguments, Question, Step, Tool, ToolCall
from omnigraph.mcp.tools.schema import AsOf
from omnigraph.mcp.workspace import IdempotencyKey, agreed_heads, upon_agreed
from omnigraph.operations.history import (
    CreateBranchRequest,
    DiffPageRequest,
    DiffRequest,
    ListBranchesRequest,
    MergeRequest,
    PreviewMergeRequest,
)
from omnigraph.policy import Action
from omnigraph.values import BranchName
from omnigraph.values.damage import DamagedRecord, damaged_json

_MOST_CONFLICTS = 50
_MOST_CHANGES = 1000
_MOST_LISTED = 500

StateName = Annotated[str, msgspec.Meta(description="A state: a branch, main~3, a commit id, tag:NAME or @TIME.")]
SourceBranch = Annotated[str, msgspec.Meta(description="The branch to merge from; it stays as it is.")]
TargetBranch = Annotated[str, msgspec.Meta(description="The branch to merge into.")]
Way = Annotated[
    Literal["ours", "theirs", "properties"] | None,
    msgspec.Meta(
        description=(
            "How to resolve rows that both sides changed: ours keeps those of the target, theirs "
            "takes those of the source, properties decides by property. By default they are "
            "conflicts."
        )
    ),
]


class BranchList(Arguments, kw_only=True, frozen=True):
    """Arguments of ``branch_list``."""

    text: Annotated[str, msgspec.Meta(description="Only branches whose name contains this text.")] = ""


class ListedBranch(Answer, kw_only=True, frozen=True):
    """A branch, and how it stands to the one that it came from."""

    name: str
    commit: str
    is_protected: bool
    parent: str | None = None
    ahead: int | None = None
    behind: int | None = None
    last_actor: str | None = None


class ListedBranches(Answer, kw_only=True, frozen=True):
    """The branches, main first, then by name."""

    found: int
    branches: list[ListedBranch]
    damaged: list[dict[str, Any]] | None = None


class BranchCreate(Arguments, kw_only=True, frozen=True):
    """Arguments of ``branch_create``."""

    name: Annotated[str, msgspec.Meta(description="The name, such as agents/planner/fix-titles.")]
    source: Annotated[
        str | None,
        msgspec.Meta(description="The branch to start from; the branch of the server by default, usually main."),
    ] = None
    as_of: AsOf = None


class CreatedBranch(Answer, kw_only=True, frozen=True):
    """A branch that was created."""

    branch: str
    commit: str


class Diff(Arguments, kw_only=True, frozen=True):
    """Arguments of ``diff``."""

    before: StateName
    after: StateName
    types: Annotated[tuple[str, ...], msgspec.Meta(description="Only these types.")] = ()
    ops: tuple[Literal["insert", "update", "delete"], ...] = ()
    ids: Annotated[tuple[str, ...], msgspec.Meta(description="Only entities with these ids.")] = ()
    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST_CHANGES, description="Maximum number of changes.")] = 100
    max_bytes: MaxBytes = DEFAULT_BYTES
    continuation: Annotated[
        str | None, msgspec.Meta(description="The continuation of the previous answer; send the same other arguments.")
    ] = None


class Difference(Answer, kw_only=True, frozen=True):
    """A page of changes; the first one has the counts by type."""

    before: str
    after: str
    changes: list[Any]
    has_more: bool
    summary: dict[str, Any] | None = None
    continuation: str | None = None


class MergePreview(Arguments, kw_only=True, frozen=True):
    """Arguments of ``merge_preview``."""

    source: SourceBranch
    target: TargetBranch = "main"
    resolve: Way = None


class PreviewedMerge(Answer, kw_only=True, frozen=True):
    """Expected result of a merge of the current branches."""

    source: str
    target: str
    outcome: str
    source_commit: str
    target_commit: str
    types: list[Any]
    conflict_count: int
    conflicts: list[Any]
    schema_steps: tuple[Any, ...] = ()
    needs_consent: bool = False
    next: tuple[Step, ...] = ()


class Merge(Arguments, kw_only=True, frozen=True):
    """Arguments of ``merge``."""

    source: SourceBranch
    target: TargetBranch = "main"
    resolve: Way = None
    message: Annotated[str | None, msgspec.Meta(description="The commit message.")] = None
    expected_head: Annotated[str | None, msgspec.Meta(description="Merge only if the target is at this commit.")] = None
    idempotency_key: IdempotencyKey = None


class Merged(Answer, kw_only=True, frozen=True):
    """Result of a merge. ``commit`` is null if the target had everything already."""

    source: str
    target: str
    outcome: str
    commit: str | None
    types: list[Any]


def list_branches(call: ToolCall, given: BranchList) -> ListedBranches:
    """List branches."""
    every = [status for status in call.execute(ListBranchesRequest()) if given.text in str(status.name)]
    found = [status for status in every if not isinstance(status, DamagedRecord)]
    listed = [
        ListedBranch(
            name=str(status.name),
            commit=str(status.head.id),
            is_protected=str(status.name) in call.graph.protected,
            parent=status.parent,
            ahead=status.ahead,
            behind=status.behind,
            last_actor=status.last_actor,
        )
        for status in found[:_MOST_LISTED]
    ]
    return ListedBranches(found=len(found), branches=listed, damaged=damaged_json(every).get("damaged"))


def create_branch(call: ToolCall, given: BranchCreate) -> CreatedBranch:
    """Create a branch; raises what the operation does."""
    request = CreateBranchRequest(name=given.name, source=call.branch_of(given.source), at=given.as_of)
    made = call.execute(request)
    return CreatedBranch(branch=str(made.name), commit=str(made.head.id))


def compare(call: ToolCall, given: Diff) -> Difference:
    """Compare two states, a page of their changes.

    Raises:
        ContinuationError: the continuation is none of this tool.
        OmnigraphError: there is no such state, or it cannot be compared.
    """
    filters: dict[str, Any] = {"types": given.types, "ops": given.ops, "ids": given.ids}
    before, after = given.before, given.after
    summary = None
    if given.continuation is None:
        found = call.execute(DiffRequest(before=before, after=after, branch=call.graph.branch, **filters))
        # What is counted is what is shown, whatever is written meanwhile.
        before, after = str(found.before.state.head.commit), str(found.after.state.head.commit)
        summary = found.stats().to_json()
    else:
        place = decode_token(given.continuation)
        if not isinstance(place, DiffPlace):
            raise ContinuationError("invalid continuation: it belongs to another tool")
        before, after = place.before, place.after
    request = DiffPageRequest(
        before=before,
        after=after,
        branch=call.graph.branch,
        page_token=given.continuation,
        limits=PageLimits(changes=given.limit),
        **filters,
    )
    page = _fitting(call, request, given.max_bytes)
    return Difference(
        before=before,
        after=after,
        changes=page["changes"],
        has_more="next_page_token" in page,
        summary=summary,
        continuation=page.get("next_page_token"),
    )


def _fitting(call: ToolCall, request: DiffPageRequest, size: int) -> dict[str, Any]:
    """Return the longest page that fits. A token stands behind a whole page, so that a shorter one is asked for."""
    while True:
        page = call.execute(request).to_json()
        kept, fits = take_items(page["changes"], size=size, what="change")
        if fits:
            return page
        request = replace(request, limits=PageLimits(changes=len(kept)))


def preview_merge(call: ToolCall, given: MergePreview) -> PreviewedMerge:
    """Say what a merge would do."""
    request = PreviewMergeRequest(
        source=given.source, target=given.target, resolve=given.resolve, max_conflicts=_MOST_CONFLICTS
    )
    found = call.execute(request)
    told = found.to_json()
    is_clean = not found.conflicts
    arguments = {"source": given.source, "target": given.target, "expected_head": str(found.target_head)}
    arguments |= {} if given.resolve is None else {"resolve": given.resolve}
    merging = Step(tool="merge", arguments=arguments, why="do it")
    return PreviewedMerge(
        source=str(found.source),
        target=str(found.target),
        outcome=found.outcome.value,
        source_commit=str(found.source_head),
        target_commit=str(found.target_head),
        types=told["tables"],
        conflict_count=found.conflicts.total,
        conflicts=told["conflicts"],
        schema_steps=told["schema_steps"],
        needs_consent=str(found.target) in call.graph.protected,
        next=(merging,) if is_clean and not call.graph.is_read_only else (),
    )


def ask_about_merge(call: ToolCall, given: Merge) -> Question | None:
    """Return what a person is asked about a merge into a protected branch; nothing if it brings nothing.

    Raises:
        PolicyDeniedError: the caller may not merge there, whoever agrees.
        MergeConflictsError: it cannot be merged as it is.
    """
    target = str(BranchName.parse(given.target))
    if target not in call.graph.protected:
        return None
    call.graph.require(Action.BRANCH_MERGE, branch=given.source, target=target)
    found = call.execute(PreviewMergeRequest(source=given.source, target=target, resolve=given.resolve))
    if found.conflicts:
        raise conflicts_error(found.conflicts, "merge")
    heads = {"source": str(found.source_head), "target": str(found.target_head)}
    if found.outcome is MergeOutcome.ALREADY_UP_TO_DATE:
        return Question(text=None, heads=heads)
    changes = "\n".join(str(table) for table in found.tables)
    actor = "an agent" if call.graph.actor is None else f"'{call.graph.actor}'"
    text = f"Merge branch '{found.source}' into '{target}' for {actor}?\n{changes}".rstrip()
    return Question(text=text, heads=heads)


def merge(call: ToolCall, given: Merge) -> Merged:
    """Merge a branch.

    Raises:
        ConsentError: the target is protected, and nobody agreed.
        ConsentStaleError: a branch has moved since a person agreed.
        OmnigraphError: whatever the merge raises.
    """
    names = ("source", "target")
    agreed = agreed_heads(call, given.target, call.graph.protected, given.expected_head, names)
    request = MergeRequest(
        source=given.source,
        target=given.target,
        resolve=given.resolve,
        max_conflicts=_MOST_CONFLICTS,
        message=given.message,
        expected_head=given.expected_head if agreed is None else agreed["target"],
        expected_source_head=None if agreed is None else agreed["source"],
    )
    with upon_agreed(call):
        done = call.execute(request)
    return Merged(
        source=given.source,
        target=given.target,
        outcome=done.outcome.value,
        commit=None if done.commit is None else str(done.commit.id),
        types=[table.to_json() for table in done.tables],
    )


TOOLS = (
    Tool(
        name="branch_list",
        title="List branches",
        description="List the branches, with the parent of each and the numbers of commits ahead and behind.",
        arguments=BranchList,
        answer=ListedBranches,
        run=list_branches,
    ),
    Tool(
        name="branch_create",
        title="Create a branch",
        description="Create a branch at the newest state of another one, or at an earlier state. Nothing is copied.",
        arguments=BranchCreate,
        answer=CreatedBranch,
        run=create_branch,
        writes=True,
    ),
    Tool(
        name="diff",
        title="Compare two states",
        description="Show the differences between two states: counts by type, then the changes page by page.",
        arguments=Diff,
        answer=Difference,
        run=compare,
    ),
    Tool(
        name="merge_preview",
        title="Preview a merge",
        description="Show the changes and the conflicts of a merge. Nothing is written.",
        arguments=MergePreview,
        answer=PreviewedMerge,
        run=preview_merge,
    ),
    Tool(
        name="merge",
        title="Merge a branch",
        description=(
            "Merge the changes of a branch into another one, as one commit. A merge into a "
            "protected branch needs the consent of a person."
        ),
        arguments=Merge,
        answer=Merged,
        run=merge,
        writes=True,
        is_destructive=True,
        question=ask_about_merge,
    ),
)
