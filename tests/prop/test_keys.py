"""Random histories of a table, looked up with no, partial, stale, damaged and full keys: always the rows of a scan."""

import os
import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.runtime import Runtime
from omnigraph.store.datasets import DatasetStore
from omnigraph.store.location import Storage
from omnigraph.store.projections.files import PROJECTIONS_PREFIX
from omnigraph.store.projections.keys import build_keys
from omnigraph.store.staging import (
    IndexBuild,
    stage_change,
    stage_compaction,
    stage_create,
    stage_indexes,
    stage_overwrite,
)
from omnigraph.store.tables import lookup as lookups
from omnigraph.store.tables.store import TableStore

LONG = os.environ.get("OMNIGRAPH_FUZZ") == "long"
SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])
BTREE = IndexBuild(column="id", kind="btree", name="id_idx")
IDS = ["", "a", "a\0", "ä€", "o'hara", "x" * 8, "x" * 9, *(f"k{number}" for number in range(13))]

some = st.lists(st.sampled_from(IDS), max_size=5, unique=True)
steps = st.one_of(
    st.tuples(st.just("change"), some, some, st.sampled_from([1, 2, 16])),
    st.tuples(st.just("change"), some, some, st.sampled_from([1, 2, 16])),
    st.tuples(st.just("overwrite"), some),
    st.tuples(st.just("branch"), st.integers(0, 20)),
    st.tuples(st.just("keys"), st.integers(0, 20)),
    st.tuples(st.just("keys"), st.just(20)),
    st.tuples(st.just("damage"), st.integers(0, 500)),
    st.tuples(st.sampled_from(["index", "compact", "cold", "learn"])),
)


class History:
    """A table with branches, all versions of which stay."""

    def __init__(self, root):
        self.root = Path(root)
        self.runtime = Runtime.system()
        self.turn = 0
        self.open()
        self.pins = [self.tables.commit(stage_create(self.datasets, "t", SCHEMA, None, **self.origin))]

    def open(self):
        self.datasets = DatasetStore(Storage.open(self.root), self.runtime)
        self.tables = TableStore(self.datasets, self.datasets.control)

    @property
    def origin(self):
        return {"operation_id": "op", "runtime": self.runtime}

    @property
    def table(self):
        return self.tables.open(self.pins[-1])

    def rows(self, ids):
        return pa.table({"id": ids, "n": [self.turn] * len(ids)}, schema=SCHEMA)

    def land(self, staged):
        if staged is not None:
            self.pins.append(self.tables.commit(staged))

    def step(self, kind, *arguments):
        self.turn += 1
        match kind:
            case "change":
                upserts, deletes, limit = arguments
                rows = self.rows(upserts)
                self.land(stage_change(self.table, upserts=rows, deletes=deletes, tail_limit=limit, **self.origin))
            case "overwrite":
                self.land(stage_overwrite(self.table, self.rows(arguments[0]), **self.origin))
            case "branch":
                self.pins.append(self.tables.fork(self.pins[arguments[0] % len(self.pins)], f"b{self.turn}"))
            case "keys":
                # Of the newest version, or of an old one, which makes them stale from the start.
                at = -1 if arguments[0] == 20 else arguments[0] % len(self.pins)
                build_keys(self.tables.open(self.pins[at]))
            case "damage":
                for path in sorted(self.root.joinpath(PROJECTIONS_PREFIX).rglob("*.arrays"))[:1]:
                    data = bytearray(path.read_bytes())
                    data[arguments[0] % len(data)] ^= 1
                    path.write_bytes(bytes(data))
                self.open()
            case "index":
                self.land(stage_indexes(self.table, [BTREE], **self.origin).commit)
            case "compact":
                self.land(stage_compaction(self.table, **self.origin))
            case "learn":
                ids = self.table.read(["id"])["id"]
                self.table.key_candidates("k1", lambda: ids)
            case _:
                self.open()

    def check(self, pin):
        table = self.tables.open(pin)
        stored = table.read(["id", "n"], with_row_meta=True).to_pylist()
        names = ["id", "_rowid", "_rowaddr", "n"]
        expected = {row["id"]: tuple(row[name] for name in names) for row in stored}
        for wanted, columns in ((IDS, ["n"]), (IDS, []), ([IDS[self.turn % len(IDS)]], ["n"])):
            rows = [tuple(row.values()) for row in table.lookup(wanted, columns).to_pylist()]
            chosen = [expected[key][: 3 + len(columns)] for key in wanted if key in expected]
            assert sorted(rows) == sorted(chosen)
        for key in IDS:
            candidates = table.key_candidates(key)
            if candidates is not None and key in expected:
                assert expected[key][1] in candidates.tolist()
        each, every = [table.key_candidates(key) for key in IDS], table.all_key_candidates(pa.array(IDS))
        if every is None:
            assert any(candidates is None for candidates in each)
        else:
            together = {(IDS[at], row_id) for at, row_id in zip(*(part.tolist() for part in every), strict=True)}
            assert together == {
                (key, row_id) for key, found in zip(IDS, each, strict=True) for row_id in found.tolist()
            }


@settings(max_examples=400 if LONG else 25, deadline=None)
@given(st.lists(steps, min_size=1, max_size=12), st.sampled_from([3, 10_000]), st.sampled_from([2, 20_000]))
def test_lookups_find_what_a_scan_finds(plan, ids_per_predicate, kept_rows):
    before = lookups._IDS_PER_PREDICATE, lookups._KEPT_ROWS
    lookups._IDS_PER_PREDICATE, lookups._KEPT_ROWS = ids_per_predicate, kept_rows
    try:
        with tempfile.TemporaryDirectory() as root:
            history = History(root)
            for kind, *arguments in plan:
                history.step(kind, *arguments)
                history.check(history.pins[-1])
            for pin in history.pins:
                history.check(pin)
            # What is learned of a version must not pass for what older ones have.
            history.open()
            for pin in reversed(history.pins):
                history.check(pin)
    finally:
        lookups._IDS_PER_PREDICATE, lookups._KEPT_ROWS = before
