"""Tasks that read tables: the nodes that pass, and edges as they are walked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_schema
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.engine.query.planner.facts import Facts
from omnigraph.engine.query.runner import PreparedRead
from omnigraph.ir.model import Direction, Predicate
from omnigraph.records import record
from omnigraph.runtime import counting
from omnigraph.spark.keys import StateTable
from omnigraph.spark.queries.layout import TYPE, Layout
from omnigraph.spark.queries.tasks.match import passing
from omnigraph.spark.queries.tasks.rows import TaskParameters
from omnigraph.spark.queries.tasks.wire import encode, to_wire
from omnigraph.spark.source.pinning import group_fragments
from omnigraph.store.location import Storage
from omnigraph.store.tables.portable import fragment_sizes

# The columns of edges as they are walked.
SOURCE, TARGET = "source", "target"


@record
class TableParts:
    """A table, cut into groups of fragments that are read by one task each."""

    stored: StateTable
    groups: tuple[tuple[int, ...], ...]
    row_count: int

    def whole(self) -> TableParts:
        """Return the table as one part."""
        return replace(self, groups=(tuple(number for group in self.groups for number in group),))

    def read(self, part: int, columns: list[str], asked: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one group, those that storage lets through."""
        return self.stored.read(self.groups[part], columns, filter=asked)


@record
class NodesTask:
    """Reads the nodes of some fragments that pass, with the columns that the read goes on with.

    Args:
        table: where they are.
        given: what the request brought.
        layout: every column that is looked at here.
        kept: the columns that come out.
        predicates: what decides.
        asked: what storage is asked; it may let through too much.
    """

    table: TableParts
    given: TaskParameters
    layout: Layout
    kept: Layout
    predicates: tuple[Predicate, ...] = ()
    asked: str | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, as they travel."""
        return self.kept.wire

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the nodes of the parts that are numbered."""
        properties = [prop for _, prop in self.layout.columns]
        for part in _parts(batches):
            for batch in self.table.read(part, properties, self.asked):
                rows = pa.Table.from_arrays(batch.select(properties).columns, schema=self.layout.schema)
                found = passing(self.given, self.layout, self.predicates, rows)
                if found.num_rows:
                    yield encode(found.select(self.kept.names))


@record
class EdgesTask:
    """Reads edges as a walk in one direction meets them: from where, to where, and the properties of a named edge.

    Undirected, an edge is met from both its ends, one to itself once. ``is_distinct`` leaves every linked pair of a
    part once. ``type_name`` is what the edges are called where they are told apart from those of other types.
    """

    table: TableParts
    direction: Direction
    kept: Layout
    is_distinct: bool = False
    type_name: str = ""

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, as they travel."""
        ends = [pa.field(SOURCE, pa.string()), pa.field(TARGET, pa.string())]
        return pa.schema([*ends, *self.kept.wire])

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the edges of the parts that are numbered."""
        if not self.is_distinct:
            yield from self._edges(batches)
            return
        pairs = pa.Table.from_batches(list(self._edges(batches)), self.schema)
        yield from pairs.group_by([SOURCE, TARGET], use_threads=False).aggregate([]).cast(self.schema).to_batches()

    def _edges(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        properties = [prop for _, prop in self.kept.columns if prop != TYPE]
        for part in _parts(batches):
            for batch in self.table.read(part, list(dict.fromkeys(["src", "dst", *properties]))):
                values = [to_wire(self._column(batch, prop, of)) for (_, prop), (_, of) in self.kept.columns.items()]
                out = pa.RecordBatch.from_arrays([batch["src"], batch["dst"], *values], schema=self.schema)
                back = pa.RecordBatch.from_arrays([batch["dst"], batch["src"], *values], schema=self.schema)
                if self.direction != "in":
                    yield out
                if self.direction == "both":
                    back = back.filter(pc.not_equal(back[SOURCE], back[TARGET]))
                if self.direction != "out":
                    yield back

    def _column(self, batch: pa.RecordBatch, prop: str, of: pa.DataType) -> pa.Array:
        if prop == TYPE:
            return pa.repeat(pa.scalar(self.type_name, pa.string()), batch.num_rows)
        return batch[prop].cast(of)


def _parts(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


# A task is worth so many rows, and reads no more than these unless a single fragment has them.
_WORTH_ROWS, _MOST_ROWS = 100_000, 1_000_000


class Tables:
    """The tables of one read.

    Args:
        storage: where the graph is.
        prepared: the read.
        parallelism: how many tasks can run at once.
    """

    def __init__(self, storage: Storage, prepared: PreparedRead, parallelism: int) -> None:
        self._storage = storage
        self._prepared = prepared
        self._parallelism = parallelism
        self._known: dict[str, TableParts] = {}
        rows = {key: entry.row_count for key, entry in prepared.snapshot.state.tables.items()}
        self.facts = Facts(catalog=prepared.context.catalog, row_counts=rows)

    def parts(self, owner: NodeType | EdgeType) -> TableParts:
        """Return a table in parts of some fragments."""
        known = self._known.get(owner.table_key)
        if known is None:
            with counting(self._prepared.context.counters):
                table = self._prepared.snapshot.table(owner.table_key)
            wanted = min(self._parallelism, -(-table.row_count // _WORTH_ROWS))
            known = TableParts(
                stored=StateTable.of(self._storage, self._prepared.snapshot, owner.table_key),
                groups=tuple(group_fragments(fragment_sizes(table), wanted, _MOST_ROWS)),
                row_count=table.row_count,
            )
            self._known[owner.table_key] = known
        return known


def has_unique_ends(edge: EdgeType) -> bool:
    """Whether no two edges of a type go from one node to another one."""
    ruled = [names for names in (edge.key, *edge.uniques) if names]
    return any(set(names) <= {"src", "dst"} for names in ruled)


def columns_of(owner: NodeType | EdgeType, variable: str, names: dict[str, str]) -> Layout:
    """Return the layout of a variable's properties, which ``names`` gives a column each."""
    schema = arrow_schema(owner)
    return Layout(
        columns={(variable, prop): (name, schema.field(prop).type) for prop, name in names.items()},
        types={variable: owner.name},
    )


@record
class NoNodesTask:
    """Makes no row of the columns of an interface that no type implements."""

    layout: Layout

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out, as they travel."""
        return self.layout.wire

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield nothing."""
        for _ in batches:
            yield from ()


def mixed_columns(owner: NodeType | EdgeType, variable: str, names: dict[str, str]) -> Layout:
    """Return the layout of a variable over several types, whose properties have the types of the first one.

    ``names`` gives the properties a column each, and one to :data:`TYPE`.
    """
    plain = {prop: name for prop, name in names.items() if prop != TYPE}
    named = {(variable, prop): (name, pa.string()) for prop, name in names.items() if prop == TYPE}
    return Layout(columns={**columns_of(owner, variable, plain).columns, **named})
