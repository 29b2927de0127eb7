"""Two node tables and an edge table on disk, changed step by step, beside the same content as plain dictionaries."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from omnigraph.engine.query.topology import TopologyCache
from omnigraph.runtime import Runtime
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.location import Storage
from omnigraph.store.staging import (
    IndexBuild,
    stage_change,
    stage_compaction,
    stage_create,
    stage_indexes,
    stage_overwrite,
)
from omnigraph.store.tables.store import TableStore

NODES = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])
EDGES = pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("id", "src", "dst")])


@dataclass
class Graph:
    """The newest versions of three tables, and what they hold."""

    folder: Path

    def __post_init__(self):
        self.runtime = Runtime.system()
        self.datasets = DatasetStore(Storage.open(self.folder), self.runtime)
        self.tables = TableStore(self.datasets, self.datasets.control)
        self.pins = {}
        self.rows = {"a": {}, "b": {}, "e": {}}
        for name in ("a", "b", "e"):
            staged = stage_create(self.datasets, f"{name}/1", self.schema(name), None, **self.origin)
            self.pins[name] = self.tables.commit(staged)

    @property
    def origin(self):
        return {"operation_id": str(self.runtime.ids.ulid()), "runtime": self.runtime}

    def another_process(self):
        """The same tables without anything in memory."""
        other = Graph.__new__(Graph)
        other.folder, other.runtime = self.folder, self.runtime
        other.datasets = DatasetStore(Storage.open(self.folder), self.runtime)
        other.tables = TableStore(other.datasets, other.datasets.control)
        other.pins, other.rows = dict(self.pins), {name: dict(rows) for name, rows in self.rows.items()}
        return other

    def schema(self, name):
        return EDGES if name == "e" else NODES

    def table(self, name):
        return self.tables.open(self.pins[name])

    def change(self, name, upserts=None, deletes=()):
        """Upsert rows, given as id to value or to a pair of ends, and delete others."""
        upserts = upserts or {}
        rows = self._table(name, upserts) if upserts else None
        options = {"upserts": rows, "deletes": list(deletes), **self.origin}
        self._commit(name, stage_change(self.table(name), **options))
        for gone in deletes:
            self.rows[name].pop(gone, None)
        self.rows[name].update(upserts)

    def compact(self, name):
        staged = stage_compaction(self.table(name), **self.origin)
        if staged is not None:
            self._commit(name, staged)

    def replace(self, name, rows):
        self._commit(name, stage_overwrite(self.table(name), self._table(name, rows), **self.origin))
        self.rows[name] = dict(rows)

    def index(self, name, column="id"):
        builds = [IndexBuild(name=f"{column}_idx", column=column, kind="btree")]
        staged = stage_indexes(self.table(name), builds, **self.origin)
        if staged.commit is not None:
            self._commit(name, staged.commit)

    def fork(self, name, branch):
        self.pins[name] = self.tables.fork(self.pins[name], branch)

    def adjacency(self, cache, direction, *, targets="a"):
        return cache.adjacency(self.table("e"), self.table("a"), self.table(targets), direction)

    def ids(self, cache, name):
        """The ids of a table by code."""
        return cache.image(self.table(name)).column("id").to_pylist()

    def walked(self, cache, direction, *, targets="a"):
        """What an adjacency says, in ids: sorted triples of node, target and edge."""
        adjacency = self.adjacency(cache, direction, targets=targets)
        near, far = ("a", targets) if direction != "in" else (targets, "a")
        near, far, edges = self.ids(cache, near), self.ids(cache, far), self.ids(cache, "e")
        nodes = np.repeat(np.arange(adjacency.node_count), np.diff(adjacency.offsets))
        assert adjacency.node_count == len(near)
        entries = zip(nodes.tolist(), adjacency.targets.tolist(), adjacency.edges.tolist(), strict=True)
        return sorted((near[node], far[target], edges[edge]) for node, target, edge in entries)

    def expected(self, direction, *, targets="a"):
        """The same from the dictionaries."""
        found = []
        for edge, (source, target) in self.rows["e"].items():
            if source not in self.rows["a"] or target not in self.rows[targets]:
                continue
            if direction != "in":
                found.append((source, target, edge))
            if direction == "in" or (direction == "both" and source != target):
                found.append((target, source, edge))
        return sorted(found)

    def rebuilt(self, direction, *, targets="a"):
        """The adjacency as a cache that knows nothing makes it."""
        return self.another_process().adjacency(TopologyCache(), direction, targets=targets)

    def _table(self, name, rows):
        if name != "e":
            return pa.table({"id": list(rows), "n": list(rows.values())}, schema=NODES)
        sources, targets = [ends[0] for ends in rows.values()], [ends[1] for ends in rows.values()]
        return pa.table({"id": list(rows), "src": sources, "dst": targets}, schema=EDGES)

    def _commit(self, name, staged):
        self.pins[name] = self.tables.commit(staged)


def assert_same(left, right):
    """Two adjacencies hold the same arrays."""
    assert (left.node_count, left.target_count, left.edge_count) == (
        right.node_count,
        right.target_count,
        right.edge_count,
    )
    for name in ("offsets", "targets", "edges"):
        mine, theirs = getattr(left, name), getattr(right, name)
        assert mine.dtype == theirs.dtype
        assert mine.tolist() == theirs.tolist()
