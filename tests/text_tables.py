"""A stored table of texts, and several ways to search it that must agree."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.engine.query.search import TextIndex, TextIndexes
from omnigraph.engine.query.topology import TopologyCache
from omnigraph.runtime import Runtime
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.location import Storage
from omnigraph.store.projections.files import PROJECTIONS_PREFIX
from omnigraph.store.staging import stage_change, stage_columns, stage_compaction, stage_create
from omnigraph.store.tables.store import TableStore

TITLES = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("title", pa.string())])
# Small fragments are put together only where a test asks for it.
_LONG_TAIL = 1_000


def no_limit(size_bytes):
    """A check that lets everything pass."""
    assert size_bytes >= 0


def texts_of(*texts, chunk_rows=3):
    """Return texts as a column in chunks."""
    chunks = [pa.array(texts[start : start + chunk_rows], pa.string()) for start in range(0, len(texts), chunk_rows)]
    return pa.chunked_array(chunks, type=pa.string())


def answers(index, queries):
    """Return everything that an index says about some queries, by code."""
    found = {}
    for query in queries:
        codes, scores = index.scores(query)
        found[query] = (codes.tolist(), [score.hex() for score in scores.tolist()])
        assert index.matches(query).tolist() == codes.tolist()
        for edits in (0, 1, 2):
            found[query, edits] = index.fuzzy(query, edits).tolist()
    return found


class TextTable:
    """One process's view of a table with an id and a title per row; it stands at one version, which changes move."""

    def __init__(self, root, rows=None, *, location="nodes/1", pin=None, storage_options=None):
        self.root = root
        self.storage_options = storage_options
        self.location = location
        self.runtime = Runtime.system()
        self.datasets = DatasetStore(Storage.open(root, storage_options), self.runtime)
        self.tables = TableStore(self.datasets, self.datasets.control)
        self.topology = TopologyCache()
        self.pin = pin
        if pin is None:
            self.pin = self._land(stage_create, self.datasets, location, TITLES, rows_of(rows or {}))

    @classmethod
    def of(cls, root, *texts, **options):
        """Rows r000, r001 … with these texts."""
        return cls(root, {f"r{number:03}": text for number, text in enumerate(texts)}, **options)

    def another_process(self):
        """The same version, seen by somebody who has nothing of it in memory."""
        options = {"location": self.location, "pin": self.pin, "storage_options": self.storage_options}
        return TextTable(self.root, **options)

    @property
    def table(self):
        return self.tables.open(self.pin)

    @property
    def image(self):
        return self.topology.image(self.table)

    @property
    def projections(self):
        return self.datasets.projections

    @property
    def files(self):
        """The files that projections are kept in."""
        return sorted(self.datasets.control.storage.path(PROJECTIONS_PREFIX).rglob("*.arrays"))

    def put(self, rows):
        """Insert or change rows."""
        self.put_rows(rows_of(rows))

    def put_rows(self, rows):
        """Insert or change whole rows."""
        self.pin = self._land(stage_change, self.table, upserts=rows, tail_limit=_LONG_TAIL)

    def delete(self, *ids):
        self.pin = self._land(stage_change, self.table, deletes=list(ids), tail_limit=_LONG_TAIL)

    def compact(self):
        self.pin = self._land(stage_compaction, self.table) or self.pin

    def fork(self, name):
        """Go on from here on a branch."""
        self.pin = self.tables.fork(self.pin, name)

    def add_column(self, name):
        """Add a column of texts, NULL in every row."""
        schema = self.table.schema.append(pa.field(name, pa.string()))
        origins = {field.name: field.name for field in self.table.schema}
        self.pin = self._land(stage_columns, self.table, schema, origins)

    def content(self):
        """Return what the version holds, in stored order."""
        rows = self.table.read(["id", "title"])
        return dict(zip(rows["id"].to_pylist(), rows["title"].to_pylist(), strict=True))

    def fresh_index(self):
        """Return an index that is built from the rows as they are read, and from nothing else."""
        return TextIndex.build(self.table.read(["title"]).column("title"), no_limit)

    def index(self, indexes=None, prop="title"):
        """Return the index as queries get it."""
        return (indexes or TextIndexes()).get(self.image, prop, no_limit)

    def _land(self, stage, *given, **options):
        origin = {"operation_id": str(self.runtime.ids.ulid()), "runtime": self.runtime}
        staged = stage(*given, **options, **origin)
        return None if staged is None else self.tables.commit(staged)


def rows_of(texts):
    """Return rows of ids and titles."""
    return pa.table({"id": list(texts), "title": list(texts.values())}, schema=TITLES)
