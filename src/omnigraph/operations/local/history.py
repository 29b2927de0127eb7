"""Handlers of the requests about history: commits, changes, branches, tags, merges and reverts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from omnigraph.history.diff.change import ChangeFilter
from omnigraph.history.diff.compare import GraphDiff, diff_between
from omnigraph.history.feed.apply import AppliedFeed, apply_batches
from omnigraph.history.feed.baseline import capture_baseline
from omnigraph.history.feed.blame import blame as find_events
from omnigraph.history.feed.reader import ChangeReader
from omnigraph.history.merge import MergeResult, RevertResult, merge_branch, revert_commit
from omnigraph.history.merge import preview_merge as preview_merge_of
from omnigraph.history.merge.planning import plan_merge
from omnigraph.operations.local.writes import commit_id, for_newest_schema, unless_repeated
from omnigraph.txn.publish.kinds import OPERATIONS
from omnigraph.txn.refs import LogFilter
from omnigraph.txn.snapshot import GraphSnapshot, unknown_type
from omnigraph.values import BranchName, CommitId, TagName, Ulid, check_choice, check_text, check_whole
from omnigraph.values.temporal import parse_datetime

if TYPE_CHECKING:
    from omnigraph.engine.open_graph import OpenGraph
    from omnigraph.history.diff.change import EntityChange
    from omnigraph.history.feed.apply import ApplyResult
    from omnigraph.history.feed.batch import FeedBatch
    from omnigraph.history.feed.diff_pages import DiffPage
    from omnigraph.history.feed.entity_history import EntityHistory
    from omnigraph.history.feed.reader import ChangeFeedPage, CommitChanges
    from omnigraph.history.merge import MergePreview
    from omnigraph.history.merge.merge import Planner
    from omnigraph.operations.history import (
        AppliedFeedsRequest,
        ApplyChangesRequest,
        BaselineRequest,
        BlameRequest,
        CommitChangesRequest,
        CreateBranchRequest,
        CreateTagRequest,
        DeleteBranchRequest,
        DeleteTagRequest,
        DiffPageRequest,
        DiffRequest,
        FeedRequest,
        GetCommitRequest,
        ListBranchesRequest,
        ListTagsRequest,
        LogRequest,
        MergeRequest,
        PollChangesRequest,
        PreviewMergeRequest,
        RevertRequest,
    )
    from omnigraph.operations.request import Attachments
    from omnigraph.txn.branches.status import BranchStatus
    from omnigraph.txn.branches.tags import Tag
    from omnigraph.txn.manifest.rows import Commit
    from omnigraph.txn.refs import LogPage
    from omnigraph.values.damage import DamagedRecord

# Every token is longer than the names of places.
_TOKEN = 64
# One for each open graph: pages of one large commit share its work.
_readers: WeakKeyDictionary[OpenGraph, ChangeReader] = WeakKeyDictionary()


def log(graph: OpenGraph, request: LogRequest, attached: Attachments) -> LogPage:
    """Return commits of a branch, newest first.

    Raises:
        BranchMissingError: there is no such branch.
        ValueFormatError: a moment, the limit or ``after`` makes no sense.
    """
    del attached
    check_whole("limit", request.limit, least=1)
    for name in ("after", "actor", "kind", "type_name", "since", "until"):
        value = getattr(request, name)
        if value is not None:
            check_text("operation" if name == "kind" else name, value)
    wanted = LogFilter(
        actor=request.actor,
        operation=request.kind,
        type_name=request.type_name,
        since_ms=None if request.since is None else parse_datetime(request.since, truncate=True),
        until_ms=None if request.until is None else parse_datetime(request.until, truncate=True),
    )
    if request.kind is not None:
        check_choice("operation", request.kind, OPERATIONS)
    branch = BranchName.parse(request.branch)
    page = graph.store.refs.log(branch, wanted, request.limit, request.after, is_full=request.full)
    if request.type_name is not None and not page.commits:
        # Commits name types as they were called then, so that only a name that nothing bears is a mistake.
        _refuse_unknown_types([request.type_name], graph.store.snapshot(branch), with_kind=None)
    return page


def get_commit(graph: OpenGraph, request: GetCommitRequest, attached: Attachments) -> Commit:
    """Return a commit of the branch, or of any other.

    Raises:
        CommitMissingError: no live branch's history has such a commit.
    """
    del attached
    wanted = CommitId(Ulid.parse(request.commit_id))
    return graph.store.refs.show(wanted, BranchName.parse(request.branch))


def commit_changes(graph: OpenGraph, request: CommitChangesRequest, attached: Attachments) -> CommitChanges:
    """Return what one commit changed, one page of it.

    Raises:
        CommitMissingError, CommitHasNoParentError: there is no such commit, or it is the first of all.
        ChangeFeedGapError, ChangeSchemaBoundaryError: it cannot be told row by row.
    """
    del attached
    wanted = ChangeFilter.of(kinds=request.kinds, type_names=request.types, ops=request.ops)
    page = _reader(graph).commit_changes(
        request.commit_id, wanted=wanted, page_token=request.page_token, limits=request.limits
    )
    unknown = wanted.type_names.difference(key.partition(":")[2] for key in page.block.cause.commit.touched)
    if unknown:
        _refuse_unknown_types(unknown, graph.snapshot(at=request.commit_id))
    return page


def poll_changes(graph: OpenGraph, request: PollChangesRequest, attached: Attachments) -> ChangeFeedPage:
    """Return the next commits of a branch with what they changed, in pages that end with a cursor.

    Raises:
        UsageError: more than one place to start at, or none that is known.
        ChangeCursorError: the cursor, token or commit does not belong to this branch and filter.
        ChangeFeedGapError, ChangeSchemaBoundaryError: the next commit cannot be told row by row.
    """
    del attached
    wanted = ChangeFilter.of(kinds=request.kinds, type_names=request.types, ops=request.ops)
    page = _reader(graph).poll(
        request.branch,
        start=request.start,
        cursor=request.cursor,
        page_token=request.page_token,
        wanted=wanted,
        limits=request.limits,
    )
    if request.cursor is None and request.page_token is None:
        _refuse_unshown_types(
            graph, request.branch, wanted, (change for block in page.blocks for change in block.changes)
        )
    return page


def feed(graph: OpenGraph, request: FeedRequest, attached: Attachments) -> FeedBatch:
    """Return the next changes of a branch.

    Raises:
        UsageError: there is no such place to start at.
        ChangeCursorError: the token or commit does not belong to this branch and filter.
        ChangeFeedGapError, ChangeSchemaBoundaryError: the next commit cannot be told row by row.
    """
    del attached
    wanted = ChangeFilter.of(kinds=request.kinds, type_names=request.types, ops=request.ops)
    batch = _reader(graph).feed(request.branch, request.start, wanted=wanted, limits=request.limits)
    if len(request.start) < _TOKEN:
        _refuse_unshown_types(graph, request.branch, wanted, batch)
    return batch


def _refuse_unshown_types(graph: OpenGraph, branch: str, wanted: ChangeFilter, shown: Iterable[EntityChange]) -> None:
    """Refuse types that a feed asks for where it begins, unless it shows changes of theirs or the branch has them.

    A cursor belongs to its filter, which was looked at then.
    """
    if wanted.type_names:
        names = {change.type.name for change in shown}
        _refuse_unknown_types(wanted.type_names - names, graph.snapshot(branch))


def apply_changes(graph: OpenGraph, request: ApplyChangesRequest, attached: Attachments) -> ApplyResult:
    """Write batches of another graph's feed as one commit, each change once.

    Raises:
        OmnigraphError: whatever :func:`omnigraph.history.feed.apply.apply_batches` does.
    """
    del attached

    def run() -> ApplyResult:
        branch_writer, newest = graph.store.current(BranchName.parse(request.branch))
        schema = newest.state.schema
        return apply_batches(
            branch_writer,
            graph.catalogs.get(schema),
            request.batches,
            actor=request.actor,
            message=request.message,
            expected_head=commit_id(request.expected_head),
            schema_hash=schema.hash,
        )

    return for_newest_schema(run, lambda: True)


def applied_feeds(graph: OpenGraph, request: AppliedFeedsRequest, attached: Attachments) -> tuple[AppliedFeed, ...]:
    """Return how far feeds of other graphs were applied to a branch."""
    del attached
    marks = graph.snapshot(request.branch).state.feeds.values()
    return tuple(AppliedFeed(source=mark.source, token=mark.token) for mark in marks)


def baseline(graph: OpenGraph, request: BaselineRequest, attached: Attachments) -> Iterator[dict[str, Any]]:
    """Return the records of one pinned state and, behind the last of them, the record with the cursor.

    Raises:
        BranchMissingError: there is no such branch.
        HistoryGoneError: a cleanup reclaimed the state meanwhile.
    """
    del attached
    wanted = ChangeFilter.of(kinds=request.kinds, type_names=request.types, ops=request.ops)
    _refuse_unknown_types(wanted.type_names, graph.snapshot(request.branch))
    return capture_baseline(graph.store, request.branch, wanted=wanted)


def diff(graph: OpenGraph, request: DiffRequest, attached: Attachments) -> GraphDiff:
    """Return the difference between two states, worked out as it is asked for.

    Raises:
        BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
        UsageError: a kind or an operation is none.
        TypeMissingError: neither state has such a type.
    """
    wanted = ChangeFilter.of(kinds=request.kinds, type_names=request.types, ops=request.ops, ids=request.ids)
    compare = GraphDiff if attached.runner is None else attached.runner.compare
    found = diff_between(graph.store, request.before, request.after, wanted, branch=request.branch, compare=compare)
    _refuse_unknown_types(wanted.type_names, found.before, found.after)
    return found


def diff_page(graph: OpenGraph, request: DiffPageRequest, attached: Attachments) -> DiffPage:
    """Return the next changes between two states.

    Raises:
        BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
        UsageError: a kind or an operation is none.
        TypeMissingError: neither state has such a type.
        ChangeCursorError: the token is none of this difference and filter.
        ChangeSchemaBoundaryError: rows of a type that both states have cannot be read in one schema.
    """
    del attached
    wanted = ChangeFilter.of(kinds=request.kinds, type_names=request.types, ops=request.ops, ids=request.ids)
    found = diff_between(graph.store, request.before, request.after, wanted, branch=request.branch)
    _refuse_unknown_types(wanted.type_names, found.before, found.after)
    return _reader(graph).diff_page(
        found.before, found.after, wanted=wanted, page_token=request.page_token, limits=request.limits
    )


def blame(graph: OpenGraph, request: BlameRequest, attached: Attachments) -> EntityHistory:
    """Return which commits changed an entity, newest first, and who wrote its properties.

    Raises:
        TypeMissingError: there is no such type.
        HistoryGoneError: the state to begin at was reclaimed.
    """
    del attached
    check_text("type", request.type_name)
    check_text("entity id", request.entity_id)
    key = request.type_name
    if ":" not in key:
        catalog = graph.catalog_at(graph.snapshot(request.branch, request.at))
        key = f"{'edge' if key in catalog.edges else 'node'}:{key}"
    return find_events(graph.store, key, request.entity_id, branch=request.branch, at=request.at, limit=request.limit)


def list_branches(
    graph: OpenGraph, request: ListBranchesRequest, attached: Attachments
) -> tuple[BranchStatus | DamagedRecord, ...]:
    """Return the live branches, main first, then by name; one whose ref cannot be understood as damaged."""
    del attached
    del request
    return graph.store.branches()


def create_branch(graph: OpenGraph, request: CreateBranchRequest, attached: Attachments) -> BranchStatus:
    """Create a branch.

    Raises:
        BranchExistsError: the name, or one that overlaps with it, is taken.
        BranchMissingError, TagMissingError, CommitMissingError, HistoryGoneError: there is no such state.
        BranchClosingError: the source is about to be deleted.
    """
    del attached
    made = graph.store.create_branch(
        BranchName.parse(request.name), source=BranchName.parse(request.source), at=request.at, actor=request.actor
    )
    return graph.store.branch_status(made)


def delete_branch(graph: OpenGraph, request: DeleteBranchRequest, attached: Attachments) -> None:
    """Delete a branch and its own commits for good; harmless when that was done before.

    Raises:
        UsageError: it is main.
        BranchMissingError: there never was such a branch.
        BranchInUseError: a branch or a tag depends on it.
        PreconditionFailedError: it is not at ``expected_head``.
    """
    del attached
    expected = None if request.expected_head is None else CommitId(Ulid.parse(request.expected_head))
    graph.store.delete_branch(BranchName.parse(request.name), actor=request.actor, expected_head=expected)


def list_tags(graph: OpenGraph, request: ListTagsRequest, attached: Attachments) -> tuple[Tag | DamagedRecord, ...]:
    """Return every tag, by name; one that cannot be understood as damaged."""
    del attached
    del request
    return graph.store.tags.show()


def create_tag(graph: OpenGraph, request: CreateTagRequest, attached: Attachments) -> Tag:
    """Name a state.

    Raises:
        TagExistsError: the name is taken.
        BranchMissingError, CommitMissingError, HistoryGoneError: there is no such state.
    """
    del attached
    return graph.store.create_tag(TagName.parse(request.name), request.at, actor=request.actor, message=request.message)


def delete_tag(graph: OpenGraph, request: DeleteTagRequest, attached: Attachments) -> Tag:
    """Remove a tag and return it.

    Raises:
        TagMissingError: there is none of that name.
    """
    del attached
    return graph.store.delete_tag(TagName.parse(request.name))


def merge(graph: OpenGraph, request: MergeRequest, attached: Attachments) -> MergeResult:
    """Merge one branch into another.

    Raises:
        MergeConflictsError: something cannot be decided, or the merged graph would break a rule; carries all of it.
        MergeDecisionError: a decision is about nothing that is in conflict, or does not fit.
        BranchMissingError, MergeBaseMissingError, UsageError: there is no such branch to merge from.
        ReadSetChangedError, ExpectedVersionMismatchError, SchemaMovedError: another write moved what it relies on.
        PreconditionFailedError: the target is not at ``expected_head``, or the source not at ``expected_source_head``.
        FileAccessError: temporary files for a large difference have no room.
    """

    def run() -> MergeResult:
        return merge_branch(
            graph,
            request.source,
            request.target,
            resolve=request.resolve,
            decisions=request.decisions,
            max_conflicts=request.max_conflicts,
            actor=request.actor,
            message=request.message,
            expected_head=request.expected_head,
            expected_source_head=request.expected_source_head,
            planner=_planner(attached),
        )

    return unless_repeated(graph, request.target, run, MergeResult.repeated)


def preview_merge(graph: OpenGraph, request: PreviewMergeRequest, attached: Attachments) -> MergePreview:
    """Return what a merge would do; nothing is written.

    Raises:
        BranchMissingError, MergeBaseMissingError, UsageError: there is no such branch to merge from.
    """
    return preview_merge_of(
        graph,
        request.source,
        request.target,
        resolve=request.resolve,
        decisions=request.decisions,
        max_conflicts=request.max_conflicts,
        planner=_planner(attached),
    )


def revert(graph: OpenGraph, request: RevertRequest, attached: Attachments) -> RevertResult:
    """Undo one commit by another.

    Raises:
        CommitMissingError: the branch's history has no such commit.
        RevertRefusedError: the commit is the first one, or it is not recorded which rows it wrote.
        MergeConflictsError: later commits touched the same rows, or the graph would break a rule of its schema.
        HistoryGoneError: the state before the commit was reclaimed.
        PreconditionFailedError: the branch is not at ``expected_head``.
    """

    def run() -> RevertResult:
        return revert_commit(
            graph,
            request.commit,
            request.branch,
            resolve=request.resolve,
            decisions=request.decisions,
            max_conflicts=request.max_conflicts,
            actor=request.actor,
            message=request.message,
            expected_head=request.expected_head,
            planner=_planner(attached),
        )

    return unless_repeated(graph, request.branch, run, RevertResult.repeated)


def _planner(attached: Attachments) -> Planner:
    return plan_merge if attached.runner is None else attached.runner.plan


def _refuse_unknown_types(names: Iterable[str], *states: GraphSnapshot, with_kind: bool | None = False) -> None:
    """Refuse names that no state knows; types that were dropped are known until cleanup reclaims them.

    Args:
        names: the names of types.
        states: where they are looked for.
        with_kind: None if they may also be written ``node:Person``.

    Raises:
        TypeMissingError: nothing is called so.
    """
    tables = [table for snapshot in states for table in (*snapshot.state.tables, *_dropped(snapshot))]
    known = {key.partition(":")[2] for key in tables} | (set(tables) if with_kind is None else set())
    for name in sorted(names):
        if name not in known:
            raise unknown_type(name, tables, with_kind=with_kind)


def _dropped(snapshot: GraphSnapshot) -> Iterator[str]:
    return (stone.table_key for stone in snapshot.state.tombstones)


def _reader(graph: OpenGraph) -> ChangeReader:
    if graph not in _readers:
        _readers[graph] = ChangeReader(graph.store)
    return _readers[graph]
