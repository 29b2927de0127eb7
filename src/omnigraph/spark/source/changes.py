"""The change feed as a stream: the feed's cursor is the offset, a micro-batch is a range of commits.

An offset is the cursor of the change feed behind the last commit of a micro-batch. Where a stream began is not kept
by Spark: it asks for the first offset again when the first micro-batch has to be repeated. The offset that ends the
first micro-batch therefore also says where it began.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import (
    BadValue,
    ChangeFeedGapError,
    ChangeSchemaBoundaryError,
    SparkUnsupportedError,
    UsageError,
    ValueFormatError,
)
from omnigraph.history.diff.change import ChangedType, ChangeFilter, EntityImage, iter_images
from omnigraph.history.feed.blocks import Chain, Step, reporting_gaps
from omnigraph.history.feed.deltas import Deltas
from omnigraph.history.feed.rows import ChangeRow, change_batches, change_columns
from omnigraph.history.feed.tokens import FeedCursor, FeedScope, decode_token, encode_token, reject
from omnigraph.records import record
from omnigraph.spark.keys import StateTable
from omnigraph.spark.source.options import SourceOptions
from omnigraph.spark.source.pinning import find_type, group_fragments, reading_engine
from omnigraph.spark.source.reporting import reporting
from omnigraph.spark.source.types import check_columns, spark_schema, to_wire, wire_schema
from omnigraph.store.tables.portable import fragment_sizes
from omnigraph.txn.manifest.rows import Commit
from omnigraph.txn.snapshot import GraphSnapshot
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

    session: OpenGraph
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
            raise UsageError(f"invalid feed start {start[:80]!r}", details=details) from None
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
        first = self.session.store.refs.line_of(head).at(0).id
        return self._offset(head, str(first) if last is None else last, began)

    def between(self, start: Offset, end: Offset) -> CommitRange | None:
        """Return the commits between two offsets, or None when they are those of a baseline alone."""
        began = end.get(BEGAN) if CURSOR not in start else None
        if began is not None and began.startswith(BASELINE):
            return None
        head = self.head()
        last = self._last(head, start if began is None else {BEGAN: began})
        line = self.session.store.refs.line_of(head)
        at = 0 if last is None else line.position_of(CommitId(Ulid.parse(last)))
        if at is None:
            reject("its commit is not in the history of the branch")
        return CommitRange(last=last, cut=self._cut(head, end), sequence=at + 1)

    def steps(self, head: GraphSnapshot, last: str | None, cut: str, limit: int) -> Sequence[Step]:
        """Return commits behind ``last`` up to ``cut``, oldest first.

        Raises:
            ChangeCursorError: either is not in the history of the branch.
        """
        after = None if last is None else CommitId(Ulid.parse(last))
        found = self._chain().steps_after(head, after, CommitId(Ulid.parse(cut)), limit)
        if found is None:
            reject("its commit is not in the history of the branch")
        return found

    def head(self) -> GraphSnapshot:
        """Return the newest state of the branch."""
        return self.session.store.snapshot(BranchName.parse(self.branch))

    def _deliverable(self, steps: Sequence[Step]) -> Step | None:
        """Return the last commit before one that changed the schema of a type, which only the next range reports."""
        chain, reached = self._chain(), None
        for step in steps:
            try:
                with reporting_gaps(step.commit.id, None):
                    before, after = chain.state_of(step.base), chain.state_of(step.commit)
                    if before.state.schema.hash != after.state.schema.hash:
                        chain.block(step)
            except (ChangeFeedGapError, ChangeSchemaBoundaryError):
                if reached is None:
                    raise
                break
            reached = step
        return reached

    def _chain(self) -> Chain:
        return Chain(self.session.store, Deltas())

    def _last(self, head: GraphSnapshot, start: Offset) -> str | None:
        if CURSOR in start:
            return self._cut(head, start)
        began = start[BEGAN]
        return None if began == BEGINNING else began.removeprefix(AFTER).removeprefix(BASELINE)

    def _cut(self, head: GraphSnapshot, offset: Offset) -> str:
        token = decode_token(offset[CURSOR])
        if not isinstance(token, FeedCursor):
            reject("it is not a cursor", offset[CURSOR])
        self._scope(head).check(token)
        return token.last

    def _offset(self, head: GraphSnapshot, last: str, began: str | None) -> Offset:
        scope = self._scope(head)
        token = FeedCursor(
            graph=scope.graph, branch=scope.branch, incarnation=scope.incarnation, filter=scope.filter, last=last
        )
        cursor = {CURSOR: encode_token(token)}
        return cursor if began is None else {**cursor, BEGAN: began}

    def _scope(self, head: GraphSnapshot) -> FeedScope:
        state = head.state
        return FeedScope.of(state.graph_id, str(state.head.branch), state.head.incarnation, self.wanted.digest)


_BASELINE_ROWS = 250_000
_MANY = 1 << 30


@record
class StreamColumns:
    """How the values of one commit go into the columns that a stream began with.

    Columns are found by the identity of their property: one that was renamed keeps the name that the stream has for it,
    and one that does not exist at the commit is null. Properties that the stream does not know are left out.

    Args:
        names: by the name at the commit, the name in the stream.
    """

    names: Mapping[str, str]

    @classmethod
    def of(cls, owner: NodeType | EdgeType, catalogs: Sequence[Catalog]) -> StreamColumns:
        """Return the columns of a type as the first of some schemas that has it calls them."""
        shown = {prop.id: prop.name for prop in owner.properties}
        for catalog in catalogs:
            owners: list[NodeType | EdgeType] = [*catalog.nodes.values(), *catalog.edges.values()]
            for one in owners:
                if (one.id, one.incarnation) == (owner.id, owner.incarnation):
                    return cls(names={prop.name: shown[prop.id] for prop in one.properties if prop.id in shown})
        return cls(names={})

    def show(self, row: ChangeRow) -> ChangeRow:
        """Return a row with the names of the stream."""
        return replace(
            row,
            before=self._image(row.before),
            after=self._image(row.after),
            changed=tuple(self.names.get(name, name) for name in row.changed),
        )

    def _image(self, image: EntityImage | None) -> EntityImage | None:
        if image is None:
            return None
        values = {self.names[name]: value for name, value in image.properties.items() if name in self.names}
        return replace(image, properties=values)


class CommitsPartition(InputPartition):
    """Commits in a row that one task reads."""

    def __init__(self, commits: CommitRange) -> None:
        super().__init__(commits)
        self.commits = commits


class BaselinePartition(InputPartition):
    """Fragments of one type, all of whose rows a stream begins with."""

    def __init__(self, table: StateTable, table_key: str, fragment_ids: tuple[int, ...], commit: Commit) -> None:
        super().__init__(table_key)
        self.table = table
        self.table_key = table_key
        self.fragment_ids = fragment_ids
        self.commit = commit


def change_schema(options: SourceOptions) -> StructType:
    """Return the columns of a change stream."""
    return spark_schema(change_columns(_owner(options)))


class ChangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the changes of a branch, of one type when the options name one."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._wire = wire_schema(schema)
        self._target: str | None = None
        self._owner = _owner(options)
        check_columns(schema, change_columns(self._owner))
        # By identity, so that a type that is renamed goes on, and a new one of its name does not.
        type_ids = () if self._owner is None else (_type_id(options, self._owner),)
        self._wanted = ChangeFilter(type_ids=frozenset(type_ids))

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the stream begins."""
        with reporting():
            return dict(self._ranges().first(self._options.start))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return that the number of commits is all that limits a micro-batch."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Go no further than what there is at this moment."""
        with reporting():
            self._target = str(self._ranges().head().state.head.commit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802 - Spark's
        """Return where the next micro-batch ends."""
        with reporting():
            begin = start or self._ranges().first(self._options.start)
            return dict(self._ranges().latest(begin, self._target, self._options.max_commits))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the commits of a micro-batch in a few groups, or the fragments of the baseline."""
        with reporting():
            commits = self._ranges().between(start, end)
            if commits is None:
                return list(self._baseline(end[BEGAN].removeprefix(BASELINE)))
            return [CommitsPartition(part) for part in self._parts(commits)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the changes of some commits, or the rows of some fragments as changes."""
        with reporting():
            try:
                for batch in change_batches(self._rows(partition), self._owner):
                    yield to_wire(batch, self._wire)
            except (pa.ArrowInvalid, OverflowError) as error:
                # Numbers that were widened since the stream began.
                raise SparkUnsupportedError(
                    f"a value does not fit the column that the stream began with: {error}",
                    details=BadValue(what="value", value=str(error)[:80], expected="the types at the stream's start"),
                    hint="stop the stream and start it again with the same checkpoint: it then has the newer columns",
                ) from error

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: a feed keeps no state of its readers."""

    def stop(self) -> None:
        """Do nothing: the graph stays open for the next stream of this process."""

    def _session(self) -> OpenGraph:
        return reading_engine(self._options.storage)

    def _ranges(self) -> FeedRanges:
        return FeedRanges(session=self._session(), branch=self._options.branch, wanted=self._wanted)

    def _parts(self, commits: CommitRange) -> Iterator[CommitRange]:
        ranges = self._ranges()
        steps = ranges.steps(ranges.head(), commits.last, commits.cut, _MANY)
        size = max(1, -(-len(steps) // (self._options.partitions or 2 * (os.cpu_count() or 1))))
        for at in range(0, len(steps), size):
            chosen = steps[at : at + size]
            last = commits.last if at == 0 else str(chosen[0].parent.id)
            yield CommitRange(last=last, cut=str(chosen[-1].commit.id), sequence=commits.sequence + at)

    def _baseline(self, commit_id: str) -> Iterator[InputPartition]:
        store = self._session().store
        commit = store.refs.show(CommitId(Ulid.parse(commit_id)), BranchName.parse(self._options.branch))
        snapshot = store.snapshot_of(commit)
        for table_key in sorted(snapshot.state.tables, key=lambda key: (key.startswith("edge:"), key)):
            kind, _, name = table_key.partition(":")
            owner = ChangedType.of(snapshot.state.graph_id, snapshot.entry(table_key).object_id, name)
            if self._wanted.wants("edge" if kind == "edge" else "node", owner):
                with snapshot.reading():
                    sizes = fragment_sizes(snapshot.table(table_key))
                table = StateTable.of(self._options.storage, snapshot, table_key)
                for group in group_fragments(sizes, 1, _BASELINE_ROWS):
                    yield BaselinePartition(table, table_key, group, commit)

    def _rows(self, partition: InputPartition) -> Iterator[ChangeRow]:
        if isinstance(partition, BaselinePartition):
            return self._stored(partition)
        # Spark makes up a partition of its own where there is none.
        return self._changes(partition) if isinstance(partition, CommitsPartition) else iter(())

    def _changes(self, partition: CommitsPartition) -> Iterator[ChangeRow]:
        ranges, commits = self._ranges(), partition.commits
        steps = ranges.steps(ranges.head(), commits.last, commits.cut, _MANY)
        chain = Chain(self._session().store, Deltas())
        for number, step in enumerate(steps):
            with reporting_gaps(step.commit.id, None):
                columns = self._columns(chain.state_of(step.commit), chain.state_of(step.base))
                for change in chain.block(step).changes(self._wanted):
                    row = ChangeRow.of(change, step.commit, commits.sequence + number)
                    yield row if columns is None else columns.show(row)

    def _columns(self, *states: GraphSnapshot) -> StreamColumns | None:
        if self._owner is None:
            return None
        catalogs = self._session().catalogs
        return StreamColumns.of(self._owner, [catalogs.get(state.state.schema) for state in states])

    def _stored(self, partition: BaselinePartition) -> Iterator[ChangeRow]:
        kind, _, name = partition.table_key.partition(":")
        is_edge = kind == "edge"
        columns = None
        if self._owner is not None:
            columns = self._columns(self._session().store.snapshot_of(partition.commit))
        for batch in partition.table.read(partition.fragment_ids, None):
            rows = pa.Table.from_batches([batch])
            images = iter_images(rows, is_edge=is_edge)
            for entity_id, image in zip(rows.column("id").to_pylist(), images, strict=True):
                row = ChangeRow(
                    op="baseline", kind=kind, type=name, id=entity_id, commit=partition.commit, sequence=0, after=image
                )
                yield row if columns is None else columns.show(row)


def _type_id(options: SourceOptions, owner: NodeType | EdgeType) -> str:
    state = reading_engine(options.storage).snapshot(options.branch).state
    return ChangedType.of(state.graph_id, state.tables[owner.table_key].object_id, owner.name).id


def _owner(options: SourceOptions) -> NodeType | EdgeType | None:
    if options.type_name is None:
        return None
    session = reading_engine(options.storage)
    return find_type(session.catalog(options.branch), options.type_name)
