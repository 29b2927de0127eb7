"""A graph's storage on disk and on S3, and a small table schema to write with."""

from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
import pytest

from omnigraph.runtime import Runtime
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.location import Storage
from omnigraph.store.staging import StagedCommit, stage_change, stage_create
from omnigraph.store.tables.pins import TablePin
from omnigraph.store.tables.store import TableStore

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("n", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("vec", pa.list_(pa.float32(), 2)),
    ]
)


@dataclass
class Bench:
    """One process's view of a graph, with shortcuts that tests read well with."""

    storage: Storage
    runtime: Runtime = field(default_factory=Runtime.system)

    def __post_init__(self):
        self.datasets = DatasetStore(self.storage, self.runtime)
        self.control = self.datasets.control
        self.tables = TableStore(self.datasets, self.control)

    def another_process(self):
        """A second view that shares nothing in memory."""
        return Bench(self.storage)

    @property
    def origin(self):
        return {"operation_id": str(self.runtime.ids.ulid()), "runtime": self.runtime}

    def rows(self, *ids, n=0, vec=None):
        values = {"id": ids, "n": [n] * len(ids), "text": [f"word{n}"] * len(ids), "vec": [vec] * len(ids)}
        return pa.table({name: list(column) for name, column in values.items()}, schema=SCHEMA)

    def create(self, *ids, location="nodes/1", n=0):
        staged = stage_create(self.datasets, location, SCHEMA, self.rows(*ids, n=n) if ids else None, **self.origin)
        return self.commit(staged)

    def open(self, pin):
        return self.tables.open(pin)

    def commit(self, staged):
        """Commit after a trip through JSON, as recovery would."""
        copy = msgspec.json.decode(msgspec.json.encode(staged, enc_hook=str), type=StagedCommit)
        assert copy == staged
        return self.tables.commit(copy)

    def stage(self, pin, *, upserts=(), deletes=(), n=0, **options):
        rows = self.rows(*upserts, n=n) if upserts else None
        return stage_change(self.open(pin), upserts=rows, deletes=deletes, **self.origin, **options)

    def change(self, pin, **options):
        return self.commit(self.stage(pin, **options))

    def content(self, pin, column="n"):
        table = self.open(pin)
        read = table.read(["id", column])
        assert read.num_rows == table.row_count
        ids = read["id"].to_pylist()
        assert len(set(ids)) == len(ids)
        return dict(zip(ids, read[column].to_pylist(), strict=True))

    def row_ids(self, pin):
        read = self.open(pin).read(["id"], with_row_meta=True)
        return dict(zip(read["id"].to_pylist(), read["_rowid"].to_pylist(), strict=True))

    def at(self, version, location="nodes/1", branch=None):
        return TablePin(location=location, branch=branch, version=version)


@pytest.fixture
def local(tmp_path):
    return Bench(Storage.open(tmp_path / "graph"))


@pytest.fixture
def on_s3(clean_s3_endpoint):
    return Bench(Storage.open(clean_s3_endpoint.fresh_prefix(), clean_s3_endpoint.storage_options_without_retries))


@pytest.fixture(params=["local", "s3"])
def bench(request):
    return request.getfixturevalue("local" if request.param == "local" else "on_s3")
