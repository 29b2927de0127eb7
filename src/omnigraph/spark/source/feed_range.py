"""Ranges of a branch's history, as a stream asks for them one after the other.

An offset is the cursor of the change feed behind the last commit of a micro-batch. Where a stream began is not kept
by Spark: it asks for the first offset again when the first micro-batch has to be repeated. The offset that ends the
first micro-batch therefore also says where it began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omnigraph.engine.session import GraphSession
from omnigraph.errors import BadValue, ChangeFeedGapError, ChangeSchemaBoundaryError, UsageError, ValueFormatError
from omnigraph.history.diff.change import ChangeFilter
from omnigraph.history.feed.blocks import Deltas
from omnigraph.history.feed.chain import Chain, Step, reporting_gaps
from omnigraph.history.feed.tokens import FeedCursor, FeedScope, decode_token, encode_token, reject
from omnigraph.records import record
from omnigraph.runtime import Counters
from omnigraph.txn.snapshot import Snapshot
from omnigraph.values import BranchName, CommitId, Ulid

Offset = Mapping[str, str]

CURSOR, BEGAN = "cursor", "began"
BEGINNING, AFTER, BASELINE = "beginning", "after:", "baseline:"


@record
class CommitRange:
    """Commits behind ``last`` (None is the first of the graph) up to ``cut``; ``sequence`` is the first one's place."""

    last: str | None
    cut: str
    sequence: int


@record
class FeedRanges:
    """Finds ranges of one branch for one filter."""

    session: GraphSession
    branch: str
    wanted: ChangeFilter

    def first(self, start: str) -> Offset:
        """Return the offset that a stream begins at.

        Raises:
            UsageError: ``start`` is neither ``now``, ``beginning``, ``baseline`` nor a commit.
        """
        if start in {"now", "baseline"}:
            head = str(self.head().state.head.commit)
            return {BEGAN: f"{AFTER if start == 'now' else BASELINE}{head}"}
        if start == BEGINNING:
            return {BEGAN: BEGINNING}
        try:
            commit = Ulid.parse(start.removeprefix(AFTER))
        except ValueFormatError:
            details = BadValue(what="start", value=start[:80], expected="now | beginning | baseline | <commit id>")
            raise UsageError(f"a feed cannot start there start={start[:80]!r}", details=details) from None
        return {BEGAN: f"{AFTER}{commit}"}

    def latest(self, start: Offset, target: str | None, max_commits: int) -> Offset:
        """Return the offset that the next micro-batch ends at; ``start`` itself when there is nothing after it.

        Args:
            start: where it begins.
            target: the last commit to deliver, the head when None.
            max_commits: how many commits it takes at most.

        Raises:
            ChangeSchemaBoundaryError, ChangeFeedGapError: the next commit cannot be delivered.
            ChangeCursorError: the offset is none of this branch and filter.
        """
        head = self.head()
        began = None if CURSOR in start else start[BEGAN]
        if began is not None and began.startswith(BASELINE):
            return self._offset(head, began.removeprefix(BASELINE), began)
        last = self._last(head, start)
        steps = self.steps(head, last, target or str(head.state.head.commit), max_commits)
        reached = self._deliverable(steps)
        if reached is not None:
            return self._offset(head, str(reached.commit.id), began)
        if began is None:
            return start
        # Delivered as an empty micro-batch, so that the place is known from here on.
        first = self.session.store.past.line_of(head, Counters()).at(0).id
        return self._offset(head, str(first) if last is None else last, began)

    def between(self, start: Offset, end: Offset) -> CommitRange | None:
        """Return the commits between two offsets, or None when they are those of a baseline alone."""
        began = end.get(BEGAN) if CURSOR not in start else None
        if began is not None and began.startswith(BASELINE):
            return None
        head = self.head()
        last = self._last(head, start if began is None else {BEGAN: began})
        line = self.session.store.past.line_of(head, Counters())
        at = 0 if last is None else line.position_of(CommitId(Ulid.parse(last)))
        if at is None:
            reject("its commit is not in the history of the branch")
        return CommitRange(last=last, cut=self._cut(head, end), sequence=at + 1)

    def steps(self, head: Snapshot, last: str | None, cut: str, limit: int) -> Sequence[Step]:
        """Return commits behind ``last`` up to ``cut``, oldest first.

        Raises:
            ChangeCursorError: either is not in the history of the branch.
        """
        after = None if last is None else CommitId(Ulid.parse(last))
        found = self._chain().steps_after(head, after, CommitId(Ulid.parse(cut)), limit)
        if found is None:
            reject("its commit is not in the history of the branch")
        return found

    def head(self) -> Snapshot:
        """Return the newest state of the branch."""
        return self.session.store.snapshot(BranchName.parse(self.branch), Counters())

    def _deliverable(self, steps: Sequence[Step]) -> Step | None:
        """Return the last commit before one that changed the schema of a type, which only the next range reports."""
        chain, reached = self._chain(), None
        for step in steps:
            try:
                with reporting_gaps(step.commit.id, None):
                    before, after = chain.state_of(step.parent), chain.state_of(step.commit)
                    if before.state.schema.hash != after.state.schema.hash:
                        chain.block(step)
            except (ChangeFeedGapError, ChangeSchemaBoundaryError):
                if reached is None:
                    raise
                break
            reached = step
        return reached

    def _chain(self) -> Chain:
        return Chain(self.session.store, Deltas(), Counters())

    def _last(self, head: Snapshot, start: Offset) -> str | None:
        if CURSOR in start:
            return self._cut(head, start)
        began = start[BEGAN]
        return None if began == BEGINNING else began.removeprefix(AFTER).removeprefix(BASELINE)

    def _cut(self, head: Snapshot, offset: Offset) -> str:
        token = decode_token(offset[CURSOR])
        if not isinstance(token, FeedCursor):
            reject("it is not a cursor", offset[CURSOR])
        self._scope(head).check(token)
        return token.last

    def _offset(self, head: Snapshot, last: str, began: str | None) -> Offset:
        scope = self._scope(head)
        token = FeedCursor(
            graph=scope.graph, branch=scope.branch, incarnation=scope.incarnation, filter=scope.filter, last=last
        )
        cursor = {CURSOR: encode_token(token)}
        return cursor if began is None else {**cursor, BEGAN: began}

    def _scope(self, head: Snapshot) -> FeedScope:
        state = head.state
        return FeedScope.of(state.graph_id, str(state.head.branch), state.head.incarnation, self.wanted.digest)
