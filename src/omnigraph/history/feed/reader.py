"""``ChangeReader``: the changes of single commits, and the feed of a branch.

It keeps no state of any consumer: what an answer left open stands in its token or cursor, which any process may use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from omnigraph.errors import (
    BadValue,
    ChangeCursorError,
    ChangeFeedGapError,
    ChangeSchemaBoundaryError,
    UsageError,
    ValueFormatError,
)
from omnigraph.history.diff.change import NO_FILTER, ChangeFilter, EntityChange
from omnigraph.history.feed.batch import ChangeBlock, FeedBatch, FeedPlace
from omnigraph.history.feed.blocks import Chain, Step, reporting_gaps
from omnigraph.history.feed.deltas import Deltas
from omnigraph.history.feed.diff_pages import DiffPage, diff_page
from omnigraph.history.feed.tokens import (
    CommitPage,
    FeedCursor,
    FeedPage,
    FeedScope,
    PageBudget,
    PageLimits,
    Position,
    Token,
    decode_token,
    encode_token,
    graph_scope,
    reject,
)
from omnigraph.records import record
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import MAIN, BranchName, CommitId, Ulid, check_instance, check_text
from omnigraph.values.counts import counted
from omnigraph.values.printable import Printable

_AFTER = "after:"
_STARTS = "now | beginning | after:<commit id> | <token>"
_SHORTEST_TOKEN = 64


@record
class CommitChanges(Printable):
    """One page of a commit's changes; the token is there while there are more."""

    block: ChangeBlock
    next_page_token: str | None

    def lines(self) -> Iterator[str]:
        """Yield the commit, then its changes."""
        yield from self.block.lines()
        if self.next_page_token is not None:
            yield "more changes follow"

    def to_json(self) -> dict[str, Any]:
        """Return the page as JSON values."""
        token = {} if self.next_page_token is None else {"next_page_token": self.next_page_token}
        return {**self.block.to_json(), **token}


@record
class ChangeFeedPage(Printable):
    """One answer of a feed, oldest commit first.

    Either it ends inside a commit and has a token, or it ends behind one and has a cursor. ``is_caught_up`` says that
    nothing was left at the moment of asking.
    """

    blocks: tuple[ChangeBlock, ...]
    next_page_token: str | None = None
    cursor: str | None = None
    is_caught_up: bool = False

    def lines(self) -> Iterator[str]:
        """Yield how much the page holds, then each commit with its changes."""
        state = "caught up" if self.is_caught_up else "more follows"
        yield f"{counted(len(self.blocks), 'commit')}, {state}"
        for block in self.blocks:
            yield from block.lines()

    def to_json(self) -> dict[str, Any]:
        """Return the page as JSON values."""
        blocks = [block.to_json() for block in self.blocks]
        if self.next_page_token is not None:
            return {"blocks": blocks, "next_page_token": self.next_page_token}
        return {"blocks": blocks, "cursor": self.cursor, "caught_up": self.is_caught_up}


@record
class _Place:
    """Where a poll goes on: behind ``last`` (None is the first commit of all), no further than ``cut``."""

    last: CommitId | None
    cut: CommitId
    current: CommitId | None = None
    position: Position | None = None


@record
class _Polled:
    """A page, with where it began, of which feed, and the newest state."""

    page: ChangeFeedPage
    place: _Place
    scope: FeedScope
    head: GraphSnapshot


class ChangeReader:
    """Reads the history of an open graph as changes of entities. Threads may share it.

    Args:
        store: the open graph.
        deltas: where differences of tables are kept for the pages that follow.
    """

    def __init__(self, store: GraphStore, deltas: Deltas | None = None) -> None:
        self._store = store
        self._deltas = deltas or Deltas()

    def commit_changes(
        self,
        commit_id: str,
        *,
        wanted: ChangeFilter = NO_FILTER,
        page_token: str | None = None,
        limits: PageLimits | None = None,
    ) -> CommitChanges:
        """Return what a commit changed relative to its first parent, one page of it.

        Raises:
            CommitMissingError: there is no such commit.
            CommitHasNoParentError: it is the first of the graph.
            ChangeSchemaBoundaryError: rows before and after it cannot be read in one schema.
            ChangeFeedGapError: the history it needs was reclaimed.
            ChangeCursorError: the token is none of this request.
        """
        check_instance("limits", limits, PageLimits)
        chain = Chain(self._store, self._deltas)
        step = chain.find(CommitId(Ulid.parse(commit_id)))
        graph = graph_scope(self._store.snapshot(BranchName(MAIN)).state.graph_id)
        position = None if page_token is None else _page_position(page_token, graph, step.commit.id, wanted)
        with reporting_gaps(step.commit.id, None):
            block = chain.block(step)
            changes, has_more = PageBudget(limits or PageLimits()).fill(block.changes(wanted, position))
        token = None
        if has_more:
            following = _following(changes, position)
            token = encode_token(
                CommitPage(graph=graph, commit=str(step.commit.id), filter=wanted.digest, position=following)
            )
        return CommitChanges(block=ChangeBlock(cause=block.cause, changes=tuple(changes)), next_page_token=token)

    def diff_page(
        self,
        before: GraphSnapshot,
        after: GraphSnapshot,
        *,
        wanted: ChangeFilter = NO_FILTER,
        page_token: str | None = None,
        limits: PageLimits | None = None,
    ) -> DiffPage:
        """Return the next changes between two states; takes and raises what :func:`diff_page` does."""
        check_instance("limits", limits, PageLimits)
        return diff_page(before, after, self._deltas, wanted=wanted, page_token=page_token, limits=limits)

    def poll(
        self,
        branch: str = MAIN,
        *,
        start: str | None = None,
        cursor: str | None = None,
        page_token: str | None = None,
        wanted: ChangeFilter = NO_FILTER,
        limits: PageLimits | None = None,
    ) -> ChangeFeedPage:
        """Return the next commits of a branch with what they changed.

        Args:
            branch: whose first-parent line is read.
            start: ``now``, ``beginning`` or ``after:<commit>``.
            cursor: go on behind what an earlier answer ended with.
            page_token: go on inside the commit that an earlier answer ended in.
            wanted: which changes; commits without one are shown all the same.
            limits: how much an answer carries.

        Raises:
            UsageError: not exactly one place to start at, or none that is known.
            ChangeCursorError: the cursor, token or commit does not belong to this branch and filter.
            ChangeFeedGapError: the next commit needs history that was reclaimed.
            ChangeSchemaBoundaryError: rows before and after the next commit cannot be read in one schema.
            BranchMissingError: there is no such branch.
        """
        return self._poll(branch, start, cursor, page_token, wanted, limits, keep_whole=False).page

    def feed(
        self, branch: str, start: str, *, wanted: ChangeFilter = NO_FILTER, limits: PageLimits | None = None
    ) -> FeedBatch:
        """Return the next changes of a branch behind ``start``: a place as :meth:`poll` knows it, or any token.

        The token of the batch is valid wherever the batch ends, inside a commit too. A commit is cut only where it does
        not fit a batch of its own: applying whole commits holds no more than one of them then.

        Raises:
            OmnigraphError: whatever :meth:`poll` does.
        """
        check_text("start", start)
        names = {"now", "beginning"}
        if start in names or start.startswith(_AFTER):
            found = self._poll(branch, start, None, None, wanted, limits, keep_whole=True)
        elif isinstance(_token(start), FeedCursor):
            found = self._poll(branch, None, start, None, wanted, limits, keep_whole=True)
        else:
            found = self._poll(branch, None, None, start, wanted, limits, keep_whole=True)
        page, place = found.page, found.place
        begin = FeedPlace(
            sequence=_sequence(self._store, found.head, place.last),
            part=0 if place.position is None else place.position.index,
        )
        end = FeedPlace(sequence=begin.sequence + len(page.blocks), part=0)
        token = page.cursor
        if page.next_page_token is not None:
            token, last = page.next_page_token, decode_token(page.next_page_token)
            part = last.position.index if isinstance(last, FeedPage) else 0
            end = FeedPlace(sequence=begin.sequence + len(page.blocks) - 1, part=part)
        return FeedBatch(
            source=found.scope.source,
            begin=begin if page.blocks else end,
            end=end,
            blocks=page.blocks,
            token=str(token),
            is_caught_up=page.is_caught_up,
        )

    def _poll(
        self,
        branch: str,
        start: str | None,
        cursor: str | None,
        page_token: str | None,
        wanted: ChangeFilter,
        limits: PageLimits | None,
        *,
        keep_whole: bool,
    ) -> _Polled:
        check_instance("limits", limits, PageLimits)
        if start is not None:
            check_text("start", start)
        limits = limits or PageLimits()
        head = self._store.snapshot(BranchName.parse(branch))
        state = head.state
        scope = FeedScope.of(state.graph_id, str(state.head.branch), state.head.incarnation, wanted.digest)
        place = _place(scope, head, start, cursor, page_token)
        if place.last == place.cut:
            page = _ending(scope, (), place.cut, is_caught_up=place.cut == state.head.commit)
            return _Polled(page=page, place=place, scope=scope, head=head)
        chain = Chain(self._store, self._deltas)
        steps = chain.steps_after(head, place.last, place.cut, limits.commits)
        if steps is None or (place.current is not None and [step.commit.id for step in steps[:1]] != [place.current]):
            reject("its commit is not in the history of the branch")
        page = self._walk(chain, steps, place, scope, wanted, limits, cursor, state.head.commit, keep_whole=keep_whole)
        return _Polled(page=page, place=place, scope=scope, head=head)

    def _walk(
        self,
        chain: Chain,
        steps: Sequence[Step],
        place: _Place,
        scope: FeedScope,
        wanted: ChangeFilter,
        limits: PageLimits,
        cursor: str | None,
        head: CommitId,
        *,
        keep_whole: bool,
    ) -> ChangeFeedPage:
        budget, blocks = PageBudget(limits), list[ChangeBlock]()
        last = place.cut if not steps else steps[0].parent.id
        for number, step in enumerate(steps):
            if budget.is_spent:
                break
            position = place.position if number == 0 else None
            try:
                with reporting_gaps(step.commit.id, cursor):
                    if blocks and chain.changes_schema(step):
                        # Rows of one page are of one schema, so that a replica can change its own schema between.
                        break
                    block = chain.block(step)
                    changes, has_more = budget.fill(block.changes(wanted, position))
            except (ChangeFeedGapError, ChangeSchemaBoundaryError):
                if number == 0:
                    raise
                # The next poll begins with this commit and reports it.
                break
            if has_more and (not changes or (blocks and keep_whole)):
                break
            schema = None if position is not None else chain.schema_step(step, wanted)
            blocks.append(ChangeBlock(cause=block.cause, changes=tuple(changes), schema=schema))
            if has_more:
                token = FeedPage(
                    graph=scope.graph,
                    branch=scope.branch,
                    incarnation=scope.incarnation,
                    filter=scope.filter,
                    cut=str(place.cut),
                    last=str(last),
                    current=str(step.commit.id),
                    position=_following(changes, position),
                )
                return ChangeFeedPage(blocks=tuple(blocks), next_page_token=encode_token(token))
            last = step.commit.id
        return _ending(scope, tuple(blocks), last, is_caught_up=last == place.cut == head)


def feed_cursor(head: GraphSnapshot, wanted: ChangeFilter) -> str:
    """Return the cursor of a feed that goes on behind a state."""
    state = head.state
    scope = FeedScope.of(state.graph_id, str(state.head.branch), state.head.incarnation, wanted.digest)
    return _cursor(scope, state.head.commit)


def _ending(scope: FeedScope, blocks: tuple[ChangeBlock, ...], last: CommitId, *, is_caught_up: bool) -> ChangeFeedPage:
    return ChangeFeedPage(blocks=blocks, cursor=_cursor(scope, last), is_caught_up=is_caught_up)


def _cursor(scope: FeedScope, last: CommitId) -> str:
    token = FeedCursor(
        graph=scope.graph,
        branch=scope.branch,
        incarnation=scope.incarnation,
        filter=scope.filter,
        last=str(last),
    )
    return encode_token(token)


def _place(
    scope: FeedScope, head: GraphSnapshot, start: str | None, cursor: str | None, page_token: str | None
) -> _Place:
    if sum(item is not None for item in (start, cursor, page_token)) != 1:
        details = BadValue(what="feed", value="start, cursor, page_token", expected="exactly one of them")
        raise UsageError("a feed needs exactly one start position", details=details)
    newest = head.state.head.commit
    if cursor is not None:
        token = decode_token(cursor)
        if not isinstance(token, FeedCursor):
            reject("it is not a cursor", cursor)
        scope.check(token)
        return _Place(last=_commit_id(token.last), cut=newest)
    if page_token is not None:
        page = decode_token(page_token)
        if not isinstance(page, FeedPage):
            reject("it is not a page token of a feed", page_token)
        scope.check(page)
        return _Place(
            last=_commit_id(page.last),
            cut=_commit_id(page.cut),
            current=_commit_id(page.current),
            position=page.position,
        )
    if start is None or start == "now":  # None only for the type checker: one of the three was given
        return _Place(last=newest, cut=newest)
    if start == "beginning":
        return _Place(last=None, cut=newest)
    if start.startswith(_AFTER):
        return _Place(last=_commit_id(start.removeprefix(_AFTER)), cut=newest)
    details = BadValue(what="start", value=start[:80], expected=_STARTS)
    raise UsageError(f"invalid feed start {start!r}", details=details)


def _token(text: str) -> Token:
    try:
        return decode_token(text)
    except ChangeCursorError as error:
        # Short words are more likely a mistake for one of the names than a damaged token.
        if len(text) > _SHORTEST_TOKEN:
            raise
        details = BadValue(what="start", value=text[:80], expected=_STARTS)
        raise UsageError(f"invalid feed start {text!r}", details=details) from error


def _sequence(store: GraphStore, head: GraphSnapshot, last: CommitId | None) -> int:
    """Return the place of a commit in the history of a branch; it was found there a moment ago."""
    found = 0 if last is None else store.refs.line_of(head).position_of(last)
    return 0 if found is None else found


def _page_position(text: str, graph: str, commit_id: CommitId, wanted: ChangeFilter) -> Position:
    token = decode_token(text)
    if not isinstance(token, CommitPage):
        reject("it is not a page token of a commit", text)
    for name, expected in (("graph", graph), ("commit", str(commit_id)), ("filter", wanted.digest)):
        if getattr(token, name) != expected:
            reject(f"it belongs to another {name}", text)
    return token.position


def _following(changes: Sequence[EntityChange], position: Position | None) -> Position:
    delivered = 0 if position is None else position.index
    return Position.after(changes[-1], delivered + len(changes))


def _commit_id(text: str) -> CommitId:
    try:
        return CommitId(Ulid.parse(text))
    except ValueFormatError:
        reject("it does not name a commit", text)
