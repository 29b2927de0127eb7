"""Random sequences of staged changes, folds, index builds, compactions and forks against a plain dictionary."""

import os
import tempfile

import msgspec
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.query import MatchQuery

from omnigraph.runtime import Runtime
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.location import Storage
from omnigraph.store.staging import (
    IndexBuild,
    StagedCommit,
    stage_change,
    stage_compaction,
    stage_create,
    stage_indexes,
    stage_overwrite,
    stage_undo,
)
from omnigraph.store.tables.pinned import Search
from omnigraph.store.tables.store import TableStore

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("n", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("vec", pa.list_(pa.float32(), 2)),
    ]
)
BUILDS = (
    IndexBuild(column="id", kind="btree", name="id_idx"),
    IndexBuild(column="n", kind="btree", name="n_idx"),
    IndexBuild(column="text", kind="fulltext", name="text_idx"),
    IndexBuild(column="vec", kind="vector", name="vec_idx"),
)
KEYS = [f"k'{number}" for number in range(12)]

keys = st.lists(st.sampled_from(KEYS), max_size=4, unique=True)
steps = st.one_of(
    st.tuples(st.just("change"), keys, keys, st.sampled_from([2, 3, 16])),
    st.tuples(st.just("change"), keys, keys, st.sampled_from([2, 3, 16])),
    st.tuples(st.sampled_from(["overwrite", "undone change"]), keys),
    st.tuples(st.sampled_from(["index", "compact", "fork", "cold"])),
)


def vector(key, turn):
    return [float(turn), float(KEYS.index(key))]


class Machine:
    """A table and its model, changed in step."""

    def __init__(self, root):
        self.runtime = Runtime.system()
        self.storage = Storage.open(root)
        self.model = {}
        self.turn = 0
        self.restart()
        self.pin = self.commit(stage_create(self.datasets, "t", SCHEMA, None, **self.origin))

    def restart(self):
        self.datasets = DatasetStore(self.storage, self.runtime)
        self.tables = TableStore(self.datasets, self.datasets.control)

    @property
    def origin(self):
        return {"operation_id": "op", "runtime": self.runtime}

    @property
    def table(self):
        return self.tables.open(self.pin)

    def rows(self, ids):
        columns = {
            "id": ids,
            "n": [self.turn] * len(ids),
            "text": [f"word{self.turn}"] * len(ids),
            "vec": [vector(key, self.turn) for key in ids],
        }
        return pa.table(columns, schema=SCHEMA)

    def commit(self, staged):
        copy = msgspec.json.decode(msgspec.json.encode(staged, enc_hook=str), type=StagedCommit)
        landed = self.tables.commit(copy)
        assert self.tables.commit(copy) == landed == staged.after
        return landed

    def step(self, kind, *arguments):
        self.turn += 1
        match kind:
            case "change":
                self.change(*arguments)
            case "overwrite":
                self.pin = self.commit(stage_overwrite(self.table, self.rows(arguments[0]), **self.origin))
                self.model = dict.fromkeys(arguments[0], self.turn)
            case "undone change":
                pinned, model = self.table, dict(self.model)
                self.change(arguments[0], KEYS[:3], 2)
                self.pin = self.commit(stage_undo(pinned, self.table, **self.origin))
                self.model = model
            case "index":
                staged = stage_indexes(self.table, BUILDS, **self.origin)
                self.pin = self.commit(staged.commit) if staged.commit else self.pin
            case "compact":
                staged = stage_compaction(self.table, **self.origin)
                self.pin = self.commit(staged) if staged else self.pin
            case "fork":
                self.pin = self.tables.fork(self.pin, f"b{self.turn}")
            case _:
                self.restart()

    def change(self, upserts, deletes, tail_limit):
        staged = stage_change(
            self.table, upserts=self.rows(upserts), deletes=deletes, tail_limit=tail_limit, **self.origin
        )
        before = self.row_ids()
        self.pin = self.commit(staged)
        for key in set(deletes) - set(upserts):
            self.model.pop(key, None)
        self.model |= dict.fromkeys(upserts, self.turn)
        assert staged.row_count == len(self.model)
        after = self.row_ids()
        assert all(after[key] == row_id for key, row_id in before.items() if key in after)

    def row_ids(self):
        read = self.table.read(["id"], with_row_meta=True)
        return dict(zip(read["id"].to_pylist(), read["_rowid"].to_pylist(), strict=True))

    def check(self):
        table = self.table
        read = table.read(["id", "n"])
        assert sorted(read["id"].to_pylist()) == sorted(self.model)
        assert dict(zip(read["id"].to_pylist(), read["n"].to_pylist(), strict=True)) == self.model
        assert table.row_count == len(self.model)
        found = table.lookup(KEYS, ["n"])
        assert sorted(found["id"].to_pylist()) == sorted(self.model)
        assert dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True)) == self.model
        assert dict(zip(found["id"].to_pylist(), found["_rowid"].to_pylist(), strict=True)) == self.row_ids()
        for turn in set(self.model.values()) | {self.turn}:
            expected = sorted(key for key, value in self.model.items() if value == turn)
            query = Search(full_text=MatchQuery(f"word{turn}", "text"))
            assert sorted(table.read(["id"], search=query)["id"].to_pylist()) == expected
            assert sorted(table.read(["id"], f"n = {turn}")["id"].to_pylist()) == expected
        for key, turn in self.model.items():
            query = Search(nearest={"column": "vec", "q": vector(key, turn), "k": len(KEYS)})
            near = table.read(["id"], search=query)
            assert sorted(near["id"].to_pylist()) == sorted(self.model)
            assert (near["id"][0].as_py(), near["_distance"][0].as_py()) == (key, 0.0)
        table.handle.validate()


@settings(max_examples=400 if LONG else 12, deadline=None)
@given(st.lists(steps, min_size=1, max_size=14))
def test_staged_changes_agree_with_a_dictionary(plan):
    with tempfile.TemporaryDirectory() as root:
        machine = Machine(root)
        for kind, *arguments in plan:
            machine.step(kind, *arguments)
            machine.check()
