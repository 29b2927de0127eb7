"""The change feed as a stream: the feed's cursor is the offset, a micro-batch is a range of commits.

An offset is the cursor of the change feed behind the last commit of a micro-batch. Where a stream began is not kept
by Spark: it asks for the first offset again when the first micro-batch has to be repeated. The offset that ends the
first micro-batch therefore also says where it began.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.open_graph import OpenGraph
from omnigraph.errors import BadValue, ChangeFeedGapError, ChangeSchemaBoundaryError, UsageError, ValueFormatError
from omnigraph.history.diff.change import ChangeFilter, EntityChange, EntityImage, iter_images
from omnigraph.history.feed.blocks import Chain, Deltas, Step, reporting_gaps
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

_CHUNK_ROWS = 4_096
_FIXED = [
    pa.field("op", pa.string(), nullable=False),
    pa.field("kind", pa.string(), nullable=False),
    pa.field("type", pa.string(), nullable=False),
    pa.field("id", pa.string(), nullable=False),
    pa.field("commit", pa.string(), nullable=False),
    pa.field("sequence", pa.int64(), nullable=False),
    pa.field("actor", pa.string()),
    pa.field("time", pa.timestamp("us", tz="UTC"), nullable=False),
    pa.field("changed", pa.list_(pa.string())),
]


@record
class ChangeRow:
    """One change of one commit; ``sequence`` orders the commits of a branch."""

    op: str
    kind: str
    type: str
    id: str
    commit: Commit
    sequence: int
    changed: tuple[str, ...] = ()
    before: EntityImage | None = None
    after: EntityImage | None = None

    @classmethod
    def of(cls, change: EntityChange, commit: Commit, sequence: int) -> ChangeRow:
        """Return the row of a change."""
        return cls(
            op=change.op,
            kind=change.kind,
            type=change.type.name,
            id=change.id,
            commit=commit,
            sequence=sequence,
            changed=change.changed,
            before=change.before,
            after=change.after,
        )


def change_columns(owner: NodeType | EdgeType | None) -> pa.Schema:
    """Return the columns of changes: of one type with its own columns before and after, of several as JSON text."""
    image = pa.string() if owner is None else pa.struct(list(_nullable(arrow_schema(owner))))
    return pa.schema([*_FIXED, pa.field("before", image), pa.field("after", image)])


def change_batches(rows: Iterable[ChangeRow], owner: NodeType | EdgeType | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows as Arrow, a bounded number at a time."""
    schema = change_columns(owner)
    rest = iter(rows)
    while chunk := list(islice(rest, _CHUNK_ROWS)):
        columns = [
            pa.array([row.op for row in chunk], pa.string()),
            pa.array([row.kind for row in chunk], pa.string()),
            pa.array([row.type for row in chunk], pa.string()),
            pa.array([row.id for row in chunk], pa.string()),
            pa.array([str(row.commit.id) for row in chunk], pa.string()),
            pa.array([row.sequence for row in chunk], pa.int64()),
            pa.array([row.commit.actor for row in chunk], pa.string()),
            pa.array([row.commit.created_at_ms * 1000 for row in chunk], schema.field("time").type),
            pa.array([list(row.changed) for row in chunk], pa.list_(pa.string())),
            _images([row.before for row in chunk], chunk, owner),
            _images([row.after for row in chunk], chunk, owner),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _images(
    images: Sequence[EntityImage | None], rows: Sequence[ChangeRow], owner: NodeType | EdgeType | None
) -> pa.Array:
    if owner is None:
        texts = [None if image is None else msgspec.json.encode(image.to_json()).decode() for image in images]
        return pa.array(texts, pa.string())
    fields = list(_nullable(arrow_schema(owner)))
    columns = [
        pa.array([_value(image, row.id, field) for image, row in zip(images, rows, strict=True)], _plain(field.type))
        for field in fields
    ]
    arrays = [column.cast(field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array([image is None for image in images]))


def _value(image: EntityImage | None, entity_id: str, field: pa.Field) -> Any:
    if image is None:
        return None
    if field.name == "id":
        return entity_id
    if image.endpoints is not None and field.name in {"src", "dst"}:
        return image.endpoints.source if field.name == "src" else image.endpoints.target
    value = image.properties.get(field.name)
    if value is not None and pa.types.is_large_binary(field.type):
        return base64.b64decode(value.partition(":")[2])
    return value


def _nullable(schema: pa.Schema) -> Iterator[pa.Field]:
    # An entity that was not there before, or is not there after, has no values at all.
    return (pa.field(field.name, field.type) for field in schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type in which an export writes values: days and milliseconds are counted."""
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_date32(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_date64(kind) else kind


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
        names = () if self._owner is None else (self._owner.name,)
        kinds = () if self._owner is None else ("edge" if isinstance(self._owner, EdgeType) else "node",)
        self._wanted = ChangeFilter.of(kinds=kinds, type_names=names)

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
            for batch in change_batches(self._rows(partition), self._owner):
                yield to_wire(batch, self._wire)

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
        wanted = None if self._owner is None else self._owner.table_key
        for table_key in sorted(snapshot.state.tables, key=lambda key: (key.startswith("edge:"), key)):
            if wanted in {None, table_key}:
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
                for change in chain.block(step).changes(self._wanted):
                    yield ChangeRow.of(change, step.commit, commits.sequence + number)

    def _stored(self, partition: BaselinePartition) -> Iterator[ChangeRow]:
        kind, _, name = partition.table_key.partition(":")
        is_edge = kind == "edge"
        for batch in partition.table.read(partition.fragment_ids, None):
            rows = pa.Table.from_batches([batch])
            images = iter_images(rows, is_edge=is_edge)
            for entity_id, image in zip(rows.column("id").to_pylist(), images, strict=True):
                yield ChangeRow(
                    op="baseline", kind=kind, type=name, id=entity_id, commit=partition.commit, sequence=0, after=image
                )


def _owner(options: SourceOptions) -> NodeType | EdgeType | None:
    if options.type_name is None:
        return None
    session = reading_engine(options.storage)
    return find_type(session.catalog(options.branch), options.type_name)
