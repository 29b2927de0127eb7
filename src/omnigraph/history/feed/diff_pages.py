"""Pages of the difference between two states. A page begins where the one before ended, without what came before it.

What was worked out of a table is kept for the pages that follow. Tables that were shown are not looked at again, and a
server that has nothing kept works out the table that the page begins in, and no earlier one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omnigraph.history.diff.change import NO_FILTER, ChangeFilter, EntityChange
from omnigraph.history.diff.compare import GraphDiff, changed_pairs, iter_changes, open_pair
from omnigraph.history.feed.blocks import resolve_position
from omnigraph.history.feed.deltas import Deltas
from omnigraph.history.feed.tokens import (
    DiffPlace,
    PageBudget,
    PageLimits,
    Position,
    decode_token,
    encode_token,
    graph_scope,
    reject,
)
from omnigraph.records import record
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values.printable import Printable


@record
class DiffPage(Printable):
    """One page of a difference between two commits; the token is there while there are more changes."""

    before: str
    after: str
    changes: tuple[EntityChange, ...]
    next_page_token: str | None

    def lines(self) -> Iterator[str]:
        """Yield a line for each change."""
        yield from map(str, self.changes)
        if self.next_page_token is not None:
            yield "more changes follow"

    def to_json(self) -> dict[str, Any]:
        """Return the page as JSON values."""
        token = {} if self.next_page_token is None else {"next_page_token": self.next_page_token}
        changes = [
            change.to_json() | ({"changed": list(change.changed)} if change.changed else {}) for change in self.changes
        ]
        return {"from_graph_commit_id": self.before, "to_graph_commit_id": self.after, "changes": changes, **token}


def diff_page(
    before: GraphSnapshot,
    after: GraphSnapshot,
    deltas: Deltas,
    *,
    wanted: ChangeFilter = NO_FILTER,
    page_token: str | None = None,
    limits: PageLimits | None = None,
) -> DiffPage:
    """Return the next changes between two states, in the order of :class:`GraphDiff`.

    Args:
        before: the earlier state.
        after: the later state.
        deltas: where differences of tables are kept for the pages that follow.
        wanted: which changes.
        page_token: go on behind the page that ended with it.
        limits: how much a page carries.

    Raises:
        ChangeCursorError: the token is none of this difference and filter.
        ChangeSchemaBoundaryError: rows of a type that both states have cannot be read in one schema.
    """
    ends = str(before.state.head.commit), str(after.state.head.commit)
    graph = graph_scope(after.state.graph_id)
    position = None if page_token is None else _position(page_token, graph, ends, wanted)
    with before.reading(), after.reading():
        found = _changes(before, after, deltas, wanted, position)
        changes, has_more = PageBudget(limits or PageLimits()).fill(found)
    token = None
    if has_more:
        delivered = 0 if position is None else position.index
        following = Position.after(changes[-1], delivered + len(changes))
        token = encode_token(
            DiffPlace(graph=graph, before=ends[0], after=ends[1], filter=wanted.digest, position=following)
        )
    return DiffPage(before=ends[0], after=ends[1], changes=tuple(changes), next_page_token=token)


def _changes(
    before: GraphSnapshot, after: GraphSnapshot, deltas: Deltas, wanted: ChangeFilter, position: Position | None
) -> Iterator[EntityChange]:
    if wanted.ids:
        # These are looked up, however many others differ.
        yield from _behind(iter(GraphDiff(before, after, wanted)), position)
        return
    pairs = [open_pair(pair, before, after) for pair in changed_pairs(before, after)]
    tables = [opened for opened in pairs if wanted.wants(opened.pair.kind, opened.pair.type)]
    start, after_id = 0, None
    if position is not None:
        start = next((at for at, item in enumerate(tables) if item.pair.type.id == position.type_id), -1)
        if start < 0:
            reject("its position is not in this difference")
        after_id = resolve_position(position, deltas.of(tables[start]), wanted)
    for place, opened in enumerate(tables[start:]):
        begin = after_id if place == 0 else None
        for rows in deltas.of(opened).parts(begin):
            yield from iter_changes(opened.pair, rows, wanted, after_id=begin)


def _behind(changes: Iterator[EntityChange], position: Position | None) -> Iterator[EntityChange]:
    if position is not None:
        for change in changes:
            if change.type.id == position.type_id and position.names(change.id):
                break
        else:
            reject("its position is not in this difference")
    yield from changes


def _position(text: str, graph: str, ends: tuple[str, str], wanted: ChangeFilter) -> Position:
    token = decode_token(text)
    if not isinstance(token, DiffPlace):
        reject("it is not a page token of a difference", text)
    expected = {"graph": graph, "before": ends[0], "after": ends[1], "filter": wanted.digest}
    for name, value in expected.items():
        if getattr(token, name) != value:
            reject("it belongs to another " + ("difference" if name in {"before", "after"} else name), text)
    return token.position
