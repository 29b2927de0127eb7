"""``Branch``: a graph seen through one of its branches, and what can be done to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from omnigraph.errors import MAX_CONFLICTS
from omnigraph.graph.arguments.values import moment_text
from omnigraph.graph.deciding import execute_decided
from omnigraph.graph.state import Snapshot, State, expected_commit, reference_of
from omnigraph.graph.writing import WriteVerbs
from omnigraph.operations.history import (
    AppliedFeedsRequest,
    ApplyChangesRequest,
    BaselineRequest,
    CommitChangesRequest,
    CreateTagRequest,
    DeleteBranchRequest,
    FeedRequest,
    GetCommitRequest,
    LogRequest,
    MergeRequest,
    PreviewMergeRequest,
    RevertRequest,
)
from omnigraph.operations.maintenance import BuildIndexesRequest, OptimizeRequest, RepairRequest, StatusRequest
from omnigraph.operations.reads import ResolveRefRequest
from omnigraph.txn.manifest.rows import Commit
from omnigraph.values import check_instance, check_text

if TYPE_CHECKING:
    from omnigraph.engine.maintenance.optimize import OptimizeResult
    from omnigraph.engine.maintenance.repair import RepairResult
    from omnigraph.engine.maintenance.status import GraphStatus
    from omnigraph.graph.deciding import Resolve
    from omnigraph.graph.diff import Baseline, Log
    from omnigraph.graph.feed import Feed
    from omnigraph.history.feed.apply import AppliedFeed, ApplyResult
    from omnigraph.history.feed.batch import FeedBatch
    from omnigraph.history.feed.reader import CommitChanges
    from omnigraph.history.feed.tokens import PageLimits
    from omnigraph.history.merge import MergePreview, MergeResult, Resolution, RevertResult
    from omnigraph.txn.branches.tags import Tag


class BranchVerbs(WriteVerbs):
    """Everything that is about one branch; a graph is its branch ``main`` too."""

    def at(self, ref: str | datetime | Commit | State) -> Snapshot:
        """Return one state for good, whatever is written later.

        Args:
            ref: ``~3`` (three commits ago), ``@2026-01-31T10:00:00Z``, both of this branch; a branch, ``review~1``, a
                commit, ``tag:v1``, or a datetime.

        Raises:
            ValueFormatError: the text is no reference.
            BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
        """
        found = self._backend.execute(ResolveRefRequest(ref=reference_of(ref), branch=self._branch))
        return Snapshot(self._backend, found.commit, found.seen_from(self._branch))

    def log(
        self,
        *,
        limit: int = 20,
        after: str | None = None,
        actor: str | None = None,
        operation: str | None = None,
        type_name: str | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        full: bool = False,
    ) -> Log:
        """Return commits, newest first.

        Args:
            limit: how many at most.
            after: the id of a commit to go on behind; :meth:`Log.next_page` does that for you.
            actor: only those that this actor asked for.
            operation: only those of this kind, such as ``branch_merge``.
            type_name: only those that changed this type, ``Person`` or ``node:Person``.
            since: only those published at this moment or later.
            until: only those published at this moment or earlier.
            full: also those that merges brought, each behind its merge; :meth:`Log.draw` shows how they follow.

        Raises:
            ValueFormatError: a moment, the limit or ``after`` makes no sense.
        """
        from omnigraph.graph.diff import Log  # noqa: PLC0415 - a query needs none of it

        request = LogRequest(
            branch=self._branch,
            limit=limit,
            after=after,
            actor=actor,
            kind=operation,
            type_name=type_name,
            since=moment_text(since),
            until=moment_text(until),
            full=full,
        )
        return Log(self._backend, request, self._backend.execute(request))

    def get_commit(self, commit_id: str) -> Commit:
        """Return a commit of this branch, or of any other.

        Raises:
            CommitMissingError: no live branch's history has such a commit.
        """
        return self._backend.execute(GetCommitRequest(commit_id=commit_id, branch=self._branch))

    def feed(
        self,
        start: str,
        *,
        follow: bool = False,
        interval_s: float = 1.0,
        kinds: Iterable[str] = (),
        types: Iterable[str] = (),
        ops: Iterable[str] = (),
        limits: PageLimits | None = None,
    ) -> Feed:
        """Return the changes of the branch behind ``start``, to be iterated over: batches, oldest commit first.

        Rows are shown in the schema that their commit made. A large commit spans several batches, and the token of each
        of them is a place to go on from.

        Args:
            start: ``now``, ``beginning``, ``after:<commit>``, the token of a batch or the cursor of a baseline.
            follow: wait for further commits instead of ending when the feed is caught up.
            interval_s: how long to wait before looking for further commits.
            kinds: only ``node`` or ``edge``.
            types: only types that have one of these names at the commit.
            ops: only ``insert``, ``update`` or ``delete``.
            limits: how much a batch carries.

        Raises:
            UsageError: the place to start at is unknown, or an argument is invalid.
            ChangeCursorError: while iterating: the token or commit does not belong to this branch and filter.
            ChangeFeedGapError, ChangeSchemaBoundaryError: while iterating: the next commit cannot be told row by row.
        """
        from omnigraph.graph.feed import Feed  # noqa: PLC0415 - a query needs none of it
        from omnigraph.history.diff.change import ChangeFilter  # noqa: PLC0415 - see above
        from omnigraph.history.feed.tokens import PageLimits  # noqa: PLC0415 - see above

        # The feed asks again and again, so that mistakes are looked for once, here.
        check_text("start", start)
        check_instance("limits", limits, PageLimits)
        wanted = ChangeFilter.of(kinds=kinds, type_names=types, ops=ops)
        request = FeedRequest(
            start=start,
            branch=self._branch,
            kinds=tuple(sorted(wanted.kinds)),
            types=tuple(sorted(wanted.type_names)),
            ops=tuple(sorted(wanted.ops)),
            limits=limits,
        )
        feed = Feed(self._backend, request, follow=follow, interval_s=interval_s)
        feed.pin()
        return feed

    def apply(
        self,
        changes: Feed | FeedBatch | Mapping[str, Any] | Iterable[FeedBatch | Mapping[str, Any]],
        *,
        actor: str | None = None,
        message: str | None = None,
        expected_head: str | Commit | None = None,
    ) -> ApplyResult:
        """Take over the changes of another graph's feed, deletes and edges included, each exactly once.

        How far the feed is applied is stored with the commit that has its rows. A feed goes on from there, wherever it
        was started; of batches, what the branch has already is left out, and a gap is refused. A commit of the feed
        that spans batches is applied as one commit; a batch by itself, and the last of several, is applied as it is.

        Args:
            changes: a feed, a batch, or batches that follow each other; batches may be in their JSON form.
            actor: who asks for it.
            message: what the commits say.
            expected_head: the commit that this branch must be at before the first of them.

        Raises:
            FeedBreakError: the batch begins behind what was applied of its feed.
            FeedSchemaError: the schema of the branch cannot take the rows; the hint says which one to apply.
            ConstraintViolationError: the graph would break a rule of its schema.
            UsageError: these are no batches of one feed.
            ChangeFeedGapError, ChangeSchemaBoundaryError: the feed cannot go on.
            PreconditionFailedError: this branch is not at ``expected_head``.
            ReadOnlyError: the graph is open for reading only.
        """
        from omnigraph.graph.feed import Feed  # noqa: PLC0415 - a query needs none of it
        from omnigraph.history.feed.apply import ApplyResult  # noqa: PLC0415 - see above
        from omnigraph.history.feed.batch import FeedBatch, whole_commits  # noqa: PLC0415 - see above

        request = ApplyChangesRequest(
            batches=(), branch=self._branch, actor=actor, message=message, expected_head=expected_commit(expected_head)
        )
        if isinstance(changes, Feed):
            return self._apply_feed(changes, request)
        batches = [changes] if isinstance(changes, FeedBatch | Mapping) else changes
        found = ApplyResult(source="", token="")
        for group in whole_commits(batch.to_json() if isinstance(batch, FeedBatch) else batch for batch in batches):
            found += self._backend.execute(replace(request, batches=group))
            request = replace(request, expected_head=None)
        return found

    def _apply_feed(self, feed: Feed, request: ApplyChangesRequest) -> ApplyResult:
        from omnigraph.history.feed.apply import ApplyResult  # noqa: PLC0415 - a query needs none of it

        source = feed.identify()
        known = {one.source: one for one in self.applied_feeds()}.get(source)
        if known is not None:
            feed.seek(known.token)
        found = ApplyResult(source=source, token=feed.token)
        for group in feed.groups():
            found += self._backend.execute(replace(request, batches=[batch.to_json() for batch in group]))
            request = replace(request, expected_head=None)
        return found

    def applied_feeds(self) -> tuple[AppliedFeed, ...]:
        """Return how far feeds of other graphs were applied to this branch: each with its token."""
        return self._backend.execute(AppliedFeedsRequest(branch=self._branch))

    def baseline(self, *, kinds: Iterable[str] = (), types: Iterable[str] = (), ops: Iterable[str] = ()) -> Baseline:
        """Return every entity of the newest state, and the cursor with which :meth:`feed` goes on from it.

        Args:
            kinds: only ``node`` or ``edge``.
            types: only types of these names.
            ops: what the feed that goes on will show: only ``insert``, ``update`` or ``delete``.

        Raises:
            TypeMissingError: there is no such type.
            UsageError: a kind or an operation is none.
        """
        from omnigraph.graph.diff import Baseline  # noqa: PLC0415 - a query needs none of it

        return Baseline(self._backend.execute(BaselineRequest(branch=self._branch, kinds=kinds, types=types, ops=ops)))

    def commit_changes(
        self,
        commit: str | Commit,
        *,
        page_token: str | None = None,
        kinds: Iterable[str] = (),
        types: Iterable[str] = (),
        ops: Iterable[str] = (),
        limits: PageLimits | None = None,
    ) -> CommitChanges:
        """Return what one commit changed relative to its first parent, one page of it.

        Args:
            commit: the commit.
            page_token: ``next_page_token`` of the page before, with the same filters.
            kinds: only ``node`` or ``edge``.
            types: only types of these names.
            ops: only ``insert``, ``update`` or ``delete``.
            limits: how much a page carries.

        Raises:
            CommitMissingError, CommitHasNoParentError: there is no such commit, or it is the first of all.
            ChangeFeedGapError, ChangeSchemaBoundaryError: it cannot be told row by row.
            ChangeCursorError: the token does not belong to this commit and filter.
            TypeMissingError, UsageError: there is no such type, kind or operation.
        """
        request = CommitChangesRequest(
            commit_id=reference_of(commit), page_token=page_token, kinds=kinds, types=types, ops=ops, limits=limits
        )
        return self._backend.execute(request)

    def create_tag(
        self,
        name: str,
        at: str | datetime | Commit | State | None = None,
        *,
        actor: str | None = None,
        message: str | None = None,
    ) -> Tag:
        """Name a state, the newest of this branch unless ``at`` says otherwise; it is kept from being reclaimed.

        Raises:
            TagExistsError: the name is taken.
            BranchMissingError, CommitMissingError, TagMissingError, HistoryGoneError: there is no such state.
        """
        state = self._branch if at is None else self.at(at).reference
        return self._backend.execute(CreateTagRequest(name=name, at=state, actor=actor, message=message))

    def merge(
        self,
        source: str | State,
        *,
        resolve: Resolve = None,
        rest: Resolution | None = None,
        actor: str | None = None,
        message: str | None = None,
        expected_head: str | Commit | None = None,
        expected_source_head: str | Commit | None = None,
    ) -> MergeResult:
        """Bring everything that the branch ``source`` changed into this one, as one commit or not at all.

        Args:
            source: the branch to merge from; it stays as it is.
            resolve: how to decide rows that both sides changed. ``ours``, ``theirs`` or ``properties`` decides all of
                them. A mapping decides single ones: by ``(type, id)`` an entity, by ``(type, id, property)`` a property
                of it, as ``ours``, ``theirs``, ``base``, or a value; ``{"value": …}`` is a value whatever it is. A
                function gets each row of the conflicts and returns such a decision, or None. None leaves all of them
                undecided, which is a conflict.
            rest: ``ours``, ``theirs`` or ``properties`` for what a mapping or a function does not decide.
            actor: who asks for it.
            message: what the commit says.
            expected_head: the commit that this branch must be at.
            expected_source_head: the commit that the source must be at, and that is merged.

        Raises:
            MergeConflictsError: something cannot be decided, or the merged graph would break a rule; its ``conflicts``
                are a table of what.
            MergeDecisionError: a decision is about nothing that is in conflict, or does not fit.
            BranchMissingError, MergeBaseMissingError, UsageError: there is no such branch to merge from.
            ReadSetChangedError, ExpectedVersionMismatchError, SchemaMovedError: somebody moved what it relies on.
            PreconditionFailedError: a branch is not at the commit that is expected of it.
            FileAccessError: temporary files for a large difference have no room.
        """
        request = MergeRequest(
            source=reference_of(source),
            target=self._branch,
            actor=actor,
            message=message,
            expected_head=expected_commit(expected_head),
            expected_source_head=expected_commit(expected_source_head),
        )
        return execute_decided(self._backend, request, resolve, rest)

    def preview_merge(
        self,
        source: str | State,
        *,
        resolve: Resolve = None,
        rest: Resolution | None = None,
        max_conflicts: int = MAX_CONFLICTS,
    ) -> MergePreview:
        """Return what :meth:`merge` would do with the branches as they are; nothing is written.

        Its ``conflicts`` are a table: ``conflicts.to_arrow()``, ``to_pandas()``, ``to_polars()`` and ``rows()``. They
        hold the first ``max_conflicts``; ``conflicts.total`` says how many there are.

        Raises:
            MergeDecisionError: a decision is about nothing that is in conflict, or does not fit.
            BranchMissingError, MergeBaseMissingError, UsageError: there is no such branch to merge from.
        """
        request = PreviewMergeRequest(source=reference_of(source), target=self._branch, max_conflicts=max_conflicts)
        return execute_decided(self._backend, request, resolve, rest)

    def revert(
        self,
        commit: str | Commit,
        *,
        resolve: Resolve = None,
        rest: Resolution | None = None,
        actor: str | None = None,
        message: str | None = None,
        expected_head: str | Commit | None = None,
    ) -> RevertResult:
        """Undo what one commit of this branch changed, as a commit of its own.

        Rows that later commits changed again are conflicts; ``ours`` keeps them, ``theirs`` brings back what was.
        ``resolve`` and ``rest`` are those of :meth:`merge`.

        Raises:
            CommitMissingError: the branch's history has no such commit.
            RevertRefusedError: the commit is the first one, or it is not recorded which rows it wrote.
            MergeConflictsError: later commits touched the same rows, or the graph would break a rule of its schema.
            HistoryGoneError: the state before the commit was reclaimed.
            PreconditionFailedError: this branch is not at ``expected_head``.
        """
        request = RevertRequest(
            commit=reference_of(commit),
            branch=self._branch,
            actor=actor,
            message=message,
            expected_head=expected_commit(expected_head),
        )
        return execute_decided(self._backend, request, resolve, rest)

    def optimize(
        self, types: Sequence[str] | None = None, *, actor: str | None = None, message: str | None = None
    ) -> OptimizeResult:
        """Compact the tables of the branch and bring their indexes and projections up to date, beside all writers.

        Raises:
            TypeMissingError: there is no such type.
            ReadOnlyError: the graph is open for reading only.
        """
        return self._backend.execute(OptimizeRequest(branch=self._branch, types=types, actor=actor, message=message))

    def build_indexes(
        self, types: Sequence[str] | None = None, *, actor: str | None = None, message: str | None = None
    ) -> OptimizeResult:
        """Build or extend the indexes that the schema declares, as one commit; :meth:`optimize` compacts, too.

        Raises:
            TypeMissingError: there is no such type.
            ReadOnlyError: the graph is open for reading only.
        """
        request = BuildIndexesRequest(branch=self._branch, types=types, actor=actor, message=message)
        return self._backend.execute(request)

    def status(self, *, storage: bool = False) -> GraphStatus:
        """Say how the graph fares: rows, fragments, indexes, writes under way, and what to do about it.

        Args:
            storage: look at every stored file, too: versions and bytes. That takes longer the more states are kept.
        """
        return self._backend.execute(StatusRequest(branch=self._branch, storage=storage))

    def repair(
        self, *, confirm: bool = False, force: bool = False, discard: bool = False, message: str | None = None
    ) -> RepairResult:
        """Show what something other than omnigraph has done to the tables of the branch, and settle it if asked to.

        Args:
            confirm: adopt compactions, which change no row; otherwise only look.
            force: adopt every other change too.
            discard: undo every change instead.
            message: what the commit says.

        Raises:
            UsageError: ``force`` or ``discard`` without ``confirm``, or both.
            ClaimBusyError: a write is under way, or waits to be recovered.
            ReadOnlyError: the graph is open for reading only.
        """
        request = RepairRequest(branch=self._branch, confirm=confirm, force=force, discard=discard, message=message)
        return self._backend.execute(request)


class Branch(BranchVerbs):
    """A branch of an open graph. It holds no state: every call sees the newest one."""

    @property
    def name(self) -> str:
        """The name."""
        return self._branch

    def delete(self, *, actor: str | None = None) -> None:
        """Delete the branch and its own commits for good.

        Raises:
            UsageError: it is main.
            BranchInUseError: a branch or a tag depends on it.
        """
        self._backend.execute(DeleteBranchRequest(name=self._branch, actor=actor))

    def __repr__(self) -> str:
        return f"<Branch {self._branch} of {self._backend.uri!r}>"
