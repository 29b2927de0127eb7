"""Requests about history: commits, changes, branches, tags, merges and reverts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.errors.history import MAX_CONFLICTS
from omnigraph.operations.request import Request, operation
from omnigraph.policy.decision import Action
from omnigraph.records import record
from omnigraph.values import MAIN

if TYPE_CHECKING:
    from omnigraph.history.diff.compare import GraphDiff
    from omnigraph.history.feed.apply import AppliedFeed, ApplyResult
    from omnigraph.history.feed.batch import FeedBatch
    from omnigraph.history.feed.diff_pages import DiffPage
    from omnigraph.history.feed.entity_history import EntityHistory
    from omnigraph.history.feed.reader import ChangeFeedPage, CommitChanges
    from omnigraph.history.feed.tokens import PageLimits
    from omnigraph.history.merge import MergePreview, MergeResult, Resolution, RevertResult
    from omnigraph.txn.branches.status import BranchStatus
    from omnigraph.txn.branches.tags import Tag
    from omnigraph.txn.manifest.rows import Commit
    from omnigraph.txn.refs import LogPage
    from omnigraph.values.damage import DamagedRecord


@operation("log", Action.READ)
@record
class LogRequest(Request["LogPage"]):
    """List commits of a branch, newest first.

    Args:
        branch: whose history.
        limit: how many at most.
        after: ``following`` of the page before, or the id of a commit to go on behind.
        actor: only those that this actor asked for.
        kind: only those of this kind of operation, such as ``mutate``.
        type_name: only those that changed this type, ``Person`` or ``node:Person``.
        since: only those published at this moment or later.
        until: only those published at this moment or earlier.
        full: also those that merges brought, each behind the merge that brought it, so that no commit comes behind one
            of its parents.
    """

    branch: str = MAIN
    limit: int = 20
    after: str | None = None
    actor: str | None = None
    kind: str | None = None
    type_name: str | None = None
    since: str | None = None
    until: str | None = None
    full: bool = False


@operation("get_commit", Action.READ)
@record
class GetCommitRequest(Request["Commit"]):
    """Find a commit in the history of ``branch``, then of every other, and then in what merges brought."""

    commit_id: str
    branch: str = MAIN


@operation("commit_changes", Action.READ)
@record
class CommitChangesRequest(Request["CommitChanges"]):
    """Show what one commit changed relative to its first parent, one page of it."""

    commit_id: str
    page_token: str | None = None
    kinds: Iterable[str] = ()
    types: Iterable[str] = ()
    ops: Iterable[str] = ()
    limits: PageLimits | None = None


@operation("feed", Action.READ)
@record
class FeedRequest(Request["FeedBatch"]):
    """Return the next changes of a branch, oldest commit first.

    Args:
        start: ``now``, ``beginning``, ``after:<commit>``, or the token of an earlier batch.
        branch: whose first-parent line is read.
        kinds: only ``node`` or ``edge``.
        types: only types of these names.
        ops: only ``insert``, ``update`` or ``delete``.
        limits: how much an answer carries.
    """

    start: str
    branch: str = MAIN
    kinds: Iterable[str] = ()
    types: Iterable[str] = ()
    ops: Iterable[str] = ()
    limits: PageLimits | None = None


@operation("poll_changes", Action.READ)
@record
class PollChangesRequest(Request["ChangeFeedPage"]):
    """Return the next commits of a branch with what they changed, oldest first.

    Args:
        branch: whose first-parent line is read.
        start: ``now``, ``beginning`` or ``after:<commit>``.
        cursor: go on behind what an earlier answer ended with.
        page_token: go on inside the commit that an earlier answer ended in.
        kinds: only ``node`` or ``edge``.
        types: only types of these names.
        ops: only ``insert``, ``update`` or ``delete``.
        limits: how much an answer carries.
    """

    branch: str = MAIN
    start: str | None = None
    cursor: str | None = None
    page_token: str | None = None
    kinds: Iterable[str] = ()
    types: Iterable[str] = ()
    ops: Iterable[str] = ()
    limits: PageLimits | None = None


@operation("apply_changes", Action.CHANGE, writes=True)
@record
class ApplyChangesRequest(Request["ApplyResult"]):
    """Write batches of another graph's feed that follow each other, as one commit and each change once.

    Args:
        batches: the batches in their JSON form.
        branch: where to write.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the branch must be at.
    """

    batches: Sequence[Mapping[str, Any]]
    branch: str = MAIN
    actor: str | None = None
    message: str | None = None
    expected_head: str | None = None


@operation("applied_feeds", Action.READ)
@record
class AppliedFeedsRequest(Request[tuple["AppliedFeed", ...]]):
    """List how far feeds of other graphs were applied to a branch, the one heard of last at the end."""

    branch: str = MAIN


@operation("baseline", Action.EXPORT)
@record
class BaselineRequest(Request[Iterator[dict[str, Any]]]):
    """Return every entity of the newest state of a branch and, last, the cursor with which a feed goes on from it."""

    branch: str = MAIN
    kinds: Iterable[str] = ()
    types: Iterable[str] = ()
    ops: Iterable[str] = ()


@operation("diff", Action.READ)
@record
class DiffRequest(Request["GraphDiff"]):
    """Compare two states.

    Args:
        before: a branch, ``main~3``, a commit, ``tag:v1`` or ``@2026-01-31``.
        after: the same.
        branch: what a reference without a branch is about.
        kinds: only ``node`` or ``edge``.
        types: only types of these names.
        ops: only ``insert``, ``update`` or ``delete``.
        ids: only entities of these ids.
    """

    before: str
    after: str
    branch: str = MAIN
    kinds: Iterable[str] = ()
    types: Iterable[str] = ()
    ops: Iterable[str] = ()
    ids: Iterable[str] = ()


@operation("diff_page", Action.READ)
@record
class DiffPageRequest(Request["DiffPage"]):
    """Compare two states page by page; a page does not work out again what came before it.

    Args:
        before: a branch, ``main~3``, a commit, ``tag:v1`` or ``@2026-01-31``.
        after: the same.
        branch: what a reference without a branch is about.
        kinds: only ``node`` or ``edge``.
        types: only types of these names.
        ops: only ``insert``, ``update`` or ``delete``.
        ids: only entities of these ids.
        page_token: go on behind the page that ended with it; ``before`` and ``after`` are the commits of that page.
        limits: how much a page carries.
    """

    before: str
    after: str
    branch: str = MAIN
    kinds: Iterable[str] = ()
    types: Iterable[str] = ()
    ops: Iterable[str] = ()
    ids: Iterable[str] = ()
    page_token: str | None = None
    limits: PageLimits | None = None


@operation("blame", Action.READ)
@record
class BlameRequest(Request["EntityHistory"]):
    """List the commits that changed an entity, newest first, and the author of each of its properties.

    ``type_name`` is ``Person`` or ``node:Person``.
    """

    type_name: str
    entity_id: str
    branch: str = MAIN
    at: str | None = None
    limit: int = 20


@operation("list_branches", Action.READ)
@record
class ListBranchesRequest(Request[tuple["BranchStatus | DamagedRecord", ...]]):
    """List the live branches and how each stands to the one it came from, main first, then by name.

    One whose ref cannot be understood is shown as damaged.
    """


@operation("create_branch", Action.BRANCH_CREATE, writes=True)
@record
class CreateBranchRequest(Request["BranchStatus"]):
    """Create a branch at the newest state of ``source``, or at what the reference ``at`` names."""

    name: str
    source: str = MAIN
    at: str | None = None
    actor: str | None = None


@operation("delete_branch", Action.BRANCH_DELETE, writes=True)
@record
class DeleteBranchRequest(Request[None]):
    """Delete a branch and its own commits for good; what was merged stays in the history of the target.

    ``expected_head`` is the commit that the branch must be at.
    """

    name: str
    actor: str | None = None
    expected_head: str | None = None


@operation("list_tags", Action.READ)
@record
class ListTagsRequest(Request[tuple["Tag | DamagedRecord", ...]]):
    """List every tag, by name; one that cannot be understood is shown as damaged."""


@operation("create_tag", Action.CHANGE, writes=True)
@record
class CreateTagRequest(Request["Tag"]):
    """Name the state that the reference ``at`` means at this moment; it is kept from being reclaimed."""

    name: str
    at: str = MAIN
    actor: str | None = None
    message: str | None = None


@operation("delete_tag", Action.CHANGE, writes=True)
@record
class DeleteTagRequest(Request["Tag"]):
    """Remove a tag and return it."""

    name: str


@operation("merge", Action.BRANCH_MERGE, writes=True)
@record
class MergeRequest(Request["MergeResult"]):
    """Bring everything that the branch ``source`` changed into ``target``, as one commit or not at all.

    Args:
        source: the branch to merge from; it stays as it is.
        target: the branch to merge into.
        resolve: how to decide rows that both sides changed: ``ours``, ``theirs`` or ``properties``; None leaves them
            undecided, which is a conflict.
        decisions: what is decided one by one: rows with ``type``, ``id``, ``property`` (none for the whole entity) and
            ``resolution``, as ``conflict_rows`` of a preview has them. ``resolve`` is for everything else.
        max_conflicts: how many conflicts a refusal tells one by one; how many there are it tells always.
        actor: who asks for it.
        message: what the commit says.
        expected_head: the commit that the target must be at.
        expected_source_head: the commit that the source must be at, and that is merged.
    """

    source: str
    target: str = MAIN
    resolve: Resolution | None = None
    decisions: Sequence[Mapping[str, Any]] = ()
    max_conflicts: int = MAX_CONFLICTS
    actor: str | None = None
    message: str | None = None
    expected_head: str | None = None
    expected_source_head: str | None = None


@operation("preview_merge", Action.READ)
@record
class PreviewMergeRequest(Request["MergePreview"]):
    """Show what a merge would do with the branches as they are; nothing is written."""

    source: str
    target: str = MAIN
    resolve: Resolution | None = None
    decisions: Sequence[Mapping[str, Any]] = ()
    max_conflicts: int = MAX_CONFLICTS


@operation("revert", Action.CHANGE, writes=True)
@record
class RevertRequest(Request["RevertResult"]):
    """Undo what one commit of a branch changed, as a commit of its own.

    Rows that later commits changed again are conflicts; ``ours`` keeps them, ``theirs`` brings back what was, and
    ``decisions`` say it one by one, as for a merge.
    """

    commit: str
    branch: str = MAIN
    resolve: Resolution | None = None
    decisions: Sequence[Mapping[str, Any]] = ()
    max_conflicts: int = MAX_CONFLICTS
    actor: str | None = None
    message: str | None = None
    expected_head: str | None = None
