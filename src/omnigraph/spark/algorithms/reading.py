"""Nodes and edges as DataFrames of keys: texts that stand in the order of type and id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType
from omnigraph.engine.algorithms.catalogue import WeightRule
from omnigraph.engine.algorithms.run import weights_of
from omnigraph.engine.algorithms.seeds import Hashes, hashes_of
from omnigraph.records import record
from omnigraph.spark.keys import StateTable
from omnigraph.spark.queries.relations import FrameRelations
from omnigraph.spark.source.pinning import group_fragments
from omnigraph.store.location import Storage
from omnigraph.store.tables.pinned import KEY
from omnigraph.store.tables.portable import fragment_sizes
from omnigraph.txn.snapshot import GraphSnapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# No name of a type holds it, and it comes before every other character.
SEPARATOR = "\0"
_MOST_ROWS, _WORTH_ROWS = 1_000_000, 100_000


@record
class KeysTask:
    """Reads the keys of nodes of one type, and the properties that are asked for."""

    stored: StateTable
    groups: tuple[tuple[int, ...], ...]
    type_name: str
    properties: tuple[pa.Field, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        return pa.schema([pa.field("key", pa.string()), *self.properties])

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the nodes of the parts that are numbered."""
        for batch in batches:
            for part in batch.column(0).to_pylist():
                names = [one.name for one in self.properties]
                for rows in self.stored.read(self.groups[part], [KEY, *names]):
                    columns = [_keys(self.type_name, rows[KEY]), *(rows[name] for name in names)]
                    yield pa.record_batch(columns, schema=self.schema)


@record
class LinksTask:
    """Reads edges of one type as pairs of keys, with what they weigh."""

    stored: StateTable
    groups: tuple[tuple[int, ...], ...]
    edge: EdgeType
    weight: str | None
    rule: WeightRule | None

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        return pa.schema([("source", pa.string()), ("target", pa.string()), ("weight", pa.float64())])

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the edges of the parts that are numbered.

        Raises:
            AlgorithmInputError: one weighs what the algorithm does not take.
        """
        columns = [KEY, "src", "dst", *(() if self.weight is None else (self.weight,))]
        for batch in batches:
            for part in batch.column(0).to_pylist():
                for rows in self.stored.read(self.groups[part], columns):
                    ends = [_keys(self.edge.from_type, rows["src"]), _keys(self.edge.to_type, rows["dst"])]
                    yield pa.record_batch([*ends, self._weights(rows)], schema=self.schema)

    def _weights(self, rows: pa.RecordBatch) -> pa.Array:
        if self.weight is None or self.rule is None:
            return pa.array(np.ones(rows.num_rows))
        return pa.array(weights_of(self.edge, rows[KEY], rows[self.weight], self.weight, self.rule))


def _keys(type_name: str, ids: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar(type_name), ids, SEPARATOR)


def key_hashes(keys: Sequence[str], seed: int) -> Hashes:
    """Return the number of 64 bits that belongs to each node."""
    pairs = [key.partition(SEPARATOR) for key in keys]
    return hashes_of(((type_name, node_id) for type_name, _, node_id in pairs), seed, len(pairs))


@record
class Frames:
    """The nodes, in column ``key``, and the edges, in columns ``source``, ``target`` and ``weight``."""

    nodes: DataFrame
    edges: DataFrame


def read_frames(
    relations: FrameRelations,
    storage: Storage,
    snapshot: GraphSnapshot,
    edges: Sequence[EdgeType],
    weight: str | None,
    rule: WeightRule | None,
) -> Frames:
    """Return the nodes and edges of a state; they are read when they are used."""
    nodes, links = None, None
    for name in sorted({name for edge in edges for name in (edge.from_type, edge.to_type)}):
        one = read_nodes(relations, storage, snapshot, name)
        nodes = one if nodes is None else nodes.unionByName(one)
    for edge in edges:
        stored, groups = _cut(relations, storage, snapshot, edge.table_key)
        task = LinksTask(stored=stored, groups=groups, edge=edge, weight=weight, rule=rule)
        one = relations.read(task, len(groups)).made()
        links = one if links is None else links.unionByName(one)
    if nodes is None or links is None:
        spark = relations.spark
        nodes = spark.createDataFrame([], "key string")
        links = spark.createDataFrame([], "source string, target string, weight double")
    return Frames(nodes=nodes, edges=links)


def read_nodes(
    relations: FrameRelations,
    storage: Storage,
    snapshot: GraphSnapshot,
    type_name: str,
    properties: tuple[pa.Field, ...] = (),
) -> DataFrame:
    """Return the nodes of one type, by ``key``, with some of their properties."""
    stored, groups = _cut(relations, storage, snapshot, f"node:{type_name}")
    task = KeysTask(stored=stored, groups=groups, type_name=type_name, properties=properties)
    return relations.read(task, len(groups)).made()


def _cut(
    relations: FrameRelations, storage: Storage, snapshot: GraphSnapshot, table_key: str
) -> tuple[StateTable, tuple[tuple[int, ...], ...]]:
    """Return a table, and its fragments in groups that one task reads."""
    table = snapshot.table(table_key)
    wanted = min(relations.parallelism, -(-table.row_count // _WORTH_ROWS))
    groups = tuple(group_fragments(fragment_sizes(table), wanted, _MOST_ROWS))
    return StateTable.of(storage, snapshot, table_key), groups
