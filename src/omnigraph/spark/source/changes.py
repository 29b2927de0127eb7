"""The change feed as a stream: the feed's cursor is the offset, a micro-batch is a range of commits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.session import GraphSession
from omnigraph.history.diff.change import ChangeFilter
from omnigraph.history.diff.images import iter_images
from omnigraph.history.feed.blocks import Deltas
from omnigraph.history.feed.chain import Chain, reporting_gaps
from omnigraph.runtime import Counters
from omnigraph.spark.source.change_rows import ChangeRow, change_batches, change_columns
from omnigraph.spark.source.feed_range import BASELINE, BEGAN, CommitRange, FeedRanges
from omnigraph.spark.source.options import SourceOptions
from omnigraph.spark.source.pinned import group_fragments
from omnigraph.spark.source.pinning import find_type
from omnigraph.spark.source.reporting import reporting
from omnigraph.spark.source.sessions import reading_session
from omnigraph.spark.source.types import check_columns, spark_schema, to_wire, wire_schema
from omnigraph.spark.states import StateTable
from omnigraph.store.portable import fragment_sizes
from omnigraph.txn.manifest.rows import Commit
from omnigraph.values import BranchName, CommitId, Ulid

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

    def _session(self) -> GraphSession:
        return reading_session(self._options.storage)

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
        store, counters = self._session().store, Counters()
        commit = store.past.show(CommitId(Ulid.parse(commit_id)), BranchName.parse(self._options.branch), counters)
        snapshot = store.snapshot_of(commit, counters)
        wanted = None if self._owner is None else self._owner.table_key
        for table_key in sorted(snapshot.state.tables, key=lambda key: (key.startswith("edge:"), key)):
            if wanted in {None, table_key}:
                with snapshot.reading():
                    sizes = fragment_sizes(snapshot.table(table_key, counters))
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
        chain = Chain(self._session().store, Deltas(), Counters())
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
    session = reading_session(options.storage)
    return find_type(session.catalog(options.branch), options.type_name)
