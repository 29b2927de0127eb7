"""The changes of one commit relative to its first parent, in the one order that pages and feeds share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from omnigraph.errors import (
    BranchMissingError,
    ChangeFeedGapError,
    CommitHasNoParentError,
    DiffRefusal,
    FeedGap,
    TableMissingError,
    VersionMissingError,
)
from omnigraph.history.diff.change import ChangeFilter, EntityChange
from omnigraph.history.diff.compare import (
    OpenPair,
    changed_pairs,
    iter_changes,
    open_pair,
    schema_boundary,
)
from omnigraph.history.diff.schemas import SchemaStep
from omnigraph.history.feed.deltas import CommitDelta, Deltas
from omnigraph.history.feed.tokens import Position, reject
from omnigraph.records import record
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.lineage import CommitLine
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.manifest.shared import OwnRows, SharedVersion
from omnigraph.txn.snapshot import GraphSnapshot
from omnigraph.values import MAIN, BranchName, CommitId
from omnigraph.values.temporal import format_datetime


@record
class Cause:
    """Who made a commit, where and when."""

    commit: Commit

    def to_json(self) -> dict[str, Any]:
        """Return the cause as JSON values; what is not known is left out."""
        commit = self.commit
        facts = {
            "graph_commit_id": str(commit.id),
            "parent_commit_id": None if commit.parent is None else str(commit.parent),
            "merged_parent_commit_id": None if commit.merged_parent is None else str(commit.merged_parent),
            "authored_branch": str(commit.branch),
            "actor_id": commit.actor,
            "authored_at": format_datetime(commit.created_at_ms),
        }
        return {name: value for name, value in facts.items() if value is not None}


class CommitBlock:
    """One commit with the changes it made.

    Args:
        step: the commit.
        before: the state before the version that made it visible.
        after: the state it made.
        deltas: where worked-out differences are shared.

    Raises:
        ChangeSchemaBoundaryError: rows before and after the commit cannot be read in one schema.
    """

    def __init__(self, step: Step, before: GraphSnapshot, after: GraphSnapshot, deltas: Deltas) -> None:
        self.cause = Cause(commit=step.commit)
        self._deltas = deltas
        self._tables = _ordered(step.commit, before, after)
        self._rows = step.rows

    def changes(self, wanted: ChangeFilter, position: Position | None = None) -> Iterator[EntityChange]:
        """Yield the changes behind a position: nodes before edges, then by type id, then by id.

        Raises:
            ChangeCursorError: the position is none of this commit.
        """
        tables = [item for item in self._tables if wanted.wants(item.pair.kind, item.pair.type)]
        start, after_id = 0, None
        if position is not None:
            start = next((at for at, item in enumerate(tables) if item.pair.type.id == position.type_id), -1)
            if start < 0:
                reject("its position is not in this commit")
            after_id = resolve_position(position, self._deltas.of(tables[start]), wanted)
        for place, opened in enumerate(tables[start:]):
            begin = after_id if place == 0 else None
            key = opened.pair.table_key
            is_own = None if self._rows is None else partial(self._rows.mask, key)
            for rows in self._deltas.of(opened).parts(begin):
                yield from iter_changes(opened.pair, rows, wanted, after_id=begin, is_own=is_own)


def no_parent(commit: Commit) -> CommitHasNoParentError:
    """Return the error for the first commit of a graph."""
    details = DiffRefusal(reason="parentless_commit", graph_commit_id=str(commit.id))
    return CommitHasNoParentError(f"commit '{commit.id}' has no parent to compare with", details=details)


def _ordered(commit: Commit, before: GraphSnapshot, after: GraphSnapshot) -> Sequence[OpenPair]:
    """Open every changed table, whatever is wanted of them: a boundary must not depend on a filter."""
    pairs = [
        # A type that comes or goes without rows has nothing to show.
        pair
        for pair in changed_pairs(before, after)
        if pair.has_only_one_side_with_rows or (pair.before is not None and pair.after is not None)
    ]
    ended = {pair.table_key for pair in pairs if pair.after is None}
    for pair in pairs:
        if pair.before is None and pair.table_key in ended:
            # Another type under the same name: a reader that knows entities by name and id could not tell them apart.
            raise schema_boundary(pair, commit.id)
    opened = [open_pair(pair, before, after, commit.id) for pair in pairs]
    return sorted(opened, key=lambda item: (item.pair.kind == "edge", item.pair.type.id))


def resolve_position(position: Position, delta: CommitDelta, wanted: ChangeFilter) -> str:
    """Return the id that a position stands for; a long one is looked for by its prefix.

    Raises:
        ChangeCursorError: there is none.
    """
    if position.id_digest is None:
        return position.id
    found = [entity_id for entity_id in delta.ids_near(position.id, wanted) if position.names(entity_id)]
    if len(found) != 1:
        reject("its position is not here")
    return str(found[0])


@record
class Step:
    """A commit and its first parent.

    Args:
        parent: the first parent.
        commit: the commit.
        base: the newest commit of the version before; what was published together has its parent in the same one.
        rows: which of the rows that the version changed are its own; all of them when None.
        sequence: its place in the history of the branch that was asked.
    """

    parent: Commit
    commit: Commit
    base: Commit
    rows: OwnRows | None = None
    sequence: int = 0

    @classmethod
    def on_line(cls, line: CommitLine, position: int) -> Step:
        """Return the commit at a position of a history, which must not be the first."""
        parent, commit = line.at(position - 1), line.at(position)
        version, first = SharedVersion.of_line(line, position)
        rows = version.rows_of(commit)
        base = parent if rows is None or not first else line.at(first - 1)
        return cls(parent=parent, commit=commit, base=base, rows=rows, sequence=position)


class Chain:
    """Reads commits and their states; the state between two commits in turn is opened once."""

    def __init__(self, store: GraphStore, deltas: Deltas) -> None:
        self._store = store
        self._deltas = deltas
        self._states: dict[CommitId, GraphSnapshot] = {}

    def find(self, commit_id: CommitId) -> Step:
        """Return a commit of any live branch, or one that a merge brought, with its parent.

        Raises:
            CommitMissingError: there is none.
            CommitHasNoParentError: it is the first of the graph.
        """
        for branch in self._store.branch_names():
            # Deleted since it was listed: then its own commits are unknown.
            with suppress(BranchMissingError):
                step = self._find_on(branch, commit_id)
                if step is not None:
                    return step
        commit = self._store.refs.show(commit_id, BranchName(MAIN))
        if commit.parent is None:
            raise no_parent(commit)
        # A merge brought it from a branch that is gone.
        version = self._store.refs.merged_version(commit.id)
        rows, parent = version.rows_of(commit), self._parent_of(commit)
        base = parent if rows is None else self._parent_of(version.commits[0])
        return Step(parent=parent, commit=commit, base=base, rows=rows)

    def _parent_of(self, commit: Commit) -> Commit:
        if commit.parent is None:
            raise no_parent(commit)
        return self._store.refs.show(commit.parent, BranchName(MAIN))

    def _find_on(self, branch: BranchName, commit_id: CommitId) -> Step | None:
        line = self._store.refs.line_of(self._store.snapshot(branch))
        position = line.position_of(commit_id)
        if position is None:
            return None
        if position == 0:
            raise no_parent(line.at(0))
        return replace(Step.on_line(line, position), sequence=0)

    def steps_after(
        self, head: GraphSnapshot, last: CommitId | None, cut: CommitId, limit: int
    ) -> Sequence[Step] | None:
        """Return the first commits behind ``last``, oldest first, none later than ``cut``.

        ``last`` None is the first commit of the graph. The answer is None when either is not on the line.
        """
        line = self._store.refs.line_of(head)
        start = 0 if last is None else line.position_of(last)
        stop = line.position_of(cut)
        if start is None or stop is None or start > stop:
            return None
        chosen = range(start, min(stop, start + limit))
        return [Step.on_line(line, place + 1) for place in chosen]

    def state_of(self, commit: Commit) -> GraphSnapshot:
        """Return the state that a commit made.

        Raises:
            VersionMissingError: it was reclaimed.
        """
        if commit.id not in self._states:
            # The two of one commit: the later one is the earlier one of the next.
            newest = list(self._states.items())[-1:]
            self._states = {**dict(newest), commit.id: self._store.snapshot_of(commit)}
        return self._states[commit.id]

    def changes_schema(self, step: Step) -> bool:
        """Whether a commit made another schema; raises what :meth:`state_of` does."""
        before, after = self.state_of(step.base), self.state_of(step.commit)
        return before.state.schema.hash != after.state.schema.hash

    def schema_step(self, step: Step, wanted: ChangeFilter) -> SchemaStep | None:
        """Return what a commit made of the schema of the types that are wanted; None if it left it as it was."""
        found = SchemaStep.between(self.state_of(step.base), self.state_of(step.commit))
        if found is None:
            return None

        def is_wanted(name: str) -> bool:
            kind, _, rest = name.partition(":")
            return wanted.wants_type("edge" if kind == "edge" else "node", rest.partition(".")[0])

        return SchemaStep(
            types={name: properties for name, properties in found.types.items() if is_wanted(name)},
            gone=tuple(filter(is_wanted, found.gone)),
        )

    def block(self, step: Step) -> CommitBlock:
        """Return what a commit changed.

        Raises:
            ChangeSchemaBoundaryError: rows before and after it cannot be read in one schema.
            VersionMissingError, TableMissingError: one of its two states was reclaimed.
        """
        before = self.state_of(step.base)
        return CommitBlock(step, before, self.state_of(step.commit), self._deltas)


@contextmanager
def reporting_gaps(commit_id: CommitId, cursor: str | None) -> Iterator[None]:
    """Tell history that was reclaimed as what it is to a reader of changes."""
    try:
        yield
    except (VersionMissingError, TableMissingError) as error:
        details = FeedGap(cursor=cursor, first_unreadable_commit_id=str(commit_id))
        raise ChangeFeedGapError(f"the history of commit '{commit_id}' was reclaimed", details=details) from error
