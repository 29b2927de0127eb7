"""How long small writes take: one row beside a bare Lance append, and the everyday writes of the Python API.

Ways of one group take turns, so that whatever else the machine does hits all of them alike.
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import lance
import pyarrow as pa
from bench.writers import INSERT, SCHEMA, UPDATE, Place
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments
from rich.table import Table

import omnigraph
from omnigraph.store.location import Storage
from omnigraph.txn.changes import TableRegister
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.rows import AcceptedSchema
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.settings import TxnSettings
from omnigraph.values import MAIN, BranchName

WARM_UP = 10
TARGET_RATIO = 4.0
BARE = "bare Lance append"
PERSON = "node:Person"
ROWS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False, metadata={b"lance-schema:unenforced-primary-key": b"true"}),
        pa.field("value", pa.int64()),
    ]
)
THREE = """query three($slug: String, $org: String) {
    insert Person { slug: $slug }
    insert Organisation { slug: $org }
    insert WorksAt { from: $slug, to: $org }
}"""
DELETE = "query drop($slug: String) { delete Person where slug = $slug }"
# What each everyday write shall take at most on a local disk, in milliseconds.
WALL_TARGETS = {"insert 1 row": 10, "3 tables": 15, "100 rows": 14, "update 1": 14, "delete 1": 14}
_BATCH = 100

Figures = dict[str, dict[str, float]]


def one_row(place: Place, rounds: int) -> Figures:
    """Time the same insert several ways, by name of the way."""
    storage = Storage.open(place.uri, place.options)
    bare = _below(storage, "bare.lance")
    handle = [lance.write_dataset(_rows(["seed"]), bare.root, storage_options=dict(bare.options) or None)]

    def append() -> None:
        fragments = write_fragments(_rows([_fresh_id()]), handle[0], schema=ROWS)
        handle[0] = LanceDataset.commit(handle[0], LanceOperation.Append(fragments), read_version=handle[0].version)

    def append_synced() -> float:
        # Lance itself never syncs, so this is what a durable append would cost at least.
        before = _files_below(bare)
        spent_ms = _milliseconds(append)
        brought = _files_below(bare) - before
        return spent_ms + _milliseconds(lambda: _sync(brought))

    ways: dict[str, Callable[[], float]] = {BARE: lambda: _milliseconds(append)}
    if storage.is_local:
        ways[f"{BARE}, synced"] = append_synced
    with ExitStack() as opened:
        for durability in ("relaxed", "full"):
            graph = _init(_below(storage, f"one-row-{durability}"), TxnSettings(durability=durability))
            ways[f"omnigraph, {durability}"] = partial(_milliseconds, _inserter(opened.enter_context(graph)))
        spent: dict[str, list[float]] = {name: [] for name in ways}
        # A sync makes whatever is written beside it wait, so those that sync are timed apart from those that do not.
        syncing = {name for name in ways if name.endswith(("synced", "full"))}
        for group in (ways.keys() - syncing, syncing):
            for _, name in itertools.product(range(WARM_UP + rounds), sorted(group)):
                spent[name].append(ways[name]())
    return {name: _summary(times[WARM_UP:]) for name, times in spent.items()}


def everyday(place: Place, rounds: int) -> Figures:
    """Time durable writes of the Python API: wall and processor time of all threads of the process."""
    with omnigraph.init(place.uri, SCHEMA, storage_options=place.options or None) as graph:
        graph.load({"Person": [{"slug": f"old-{number}"} for number in range(WARM_UP + rounds)]})
        ways: dict[str, Callable[[int], object]] = {
            "insert 1 row": lambda n: graph.mutate(INSERT, {"slug": f"one-{n}", "age": n}),
            "3 tables": lambda n: graph.mutate(THREE, {"slug": f"three-{n}", "org": f"org-{n}"}),
            "100 rows": lambda n: graph.mutate_batch(
                INSERT, [{"slug": f"many-{n}-{row}", "age": row} for row in range(_BATCH)]
            ),
            "update 1": lambda n: graph.mutate(UPDATE, {"slug": f"old-{n}", "age": n}),
            "delete 1": lambda n: graph.mutate(DELETE, {"slug": f"old-{n}"}),
        }
        wall_ms: dict[str, list[float]] = {name: [] for name in ways}
        processor_ms: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(WARM_UP + rounds):
            for name, way in ways.items():
                processor_s = time.process_time()
                wall_ms[name].append(_milliseconds(partial(way, number)))
                processor_ms[name].append((time.process_time() - processor_s) * 1000)
    return {
        name: {
            **_summary(wall_ms[name][WARM_UP:]),
            "processor": statistics.median(processor_ms[name][WARM_UP:]),
        }
        for name in ways
    }


def one_row_table(singles: dict[str, Figures], rounds: int) -> Table:
    """Return what one row costs beside a bare append, a pair of columns per store."""
    table = Table(title=f"one-row commit, ms, median (p95) of {rounds}", title_justify="left")
    table.add_column("what")
    for name in singles:
        table.add_column(name, justify="right")
        table.add_column("x bare", justify="right")
    for what in next(iter(singles.values())):
        cells = []
        for figures in singles.values():
            if what in figures:
                ratio = figures[what]["median"] / figures[BARE]["median"]
                cells += [f"{figures[what]['median']:.1f} ({figures[what]['p95']:.1f})", f"{ratio:.1f}"]
            else:
                cells += ["", ""]
        table.add_row(what, *cells)
    table.caption = f"target: at most {TARGET_RATIO:.0f} times a bare append on a local disk"
    return table


def everyday_table(found: dict[str, Figures], rounds: int) -> Table:
    """Return what everyday writes take, with their targets on a local disk."""
    table = Table(title=f"durable writes of the Python API, ms, median (p95) of {rounds}", title_justify="left")
    table.add_column("what")
    for name in found:
        table.add_column(name, justify="right")
        table.add_column("processor", justify="right")
    table.add_column("target, local", justify="right")
    for what, target in WALL_TARGETS.items():
        cells = []
        for figures in found.values():
            cells += [
                f"{figures[what]['median']:.1f} ({figures[what]['p95']:.1f})",
                f"{figures[what]['processor']:.1f}",
            ]
        table.add_row(what, *cells, f"≤ {target}")
    return table


def _init(storage: Storage, settings: TxnSettings) -> GraphStore:
    tables = [
        TableRegister(table_key=f"node:{name}", object_id=f"{number:016x}-{number:016x}", folder="nodes", schema=ROWS)
        for number, name in enumerate(("Person", "Team"), start=1)
    ]
    schema = AcceptedSchema(source="node Person {}", compiled="{}", hash="sha256:0")
    GraphStore.init(storage, schema=schema, tables=tables, actor="bench")
    return GraphStore.open(storage, settings=settings)


def _inserter(graph: GraphStore) -> Callable[[], None]:
    branch_writer = graph.branch_writer(BranchName(MAIN))

    def insert() -> None:
        txn = branch_writer.begin(WriteKind.INSERT)
        txn.insert(PERSON, _rows([_fresh_id()]))
        branch_writer.commit(txn)

    return insert


_numbers = itertools.count()


def _fresh_id() -> str:
    return f"{os.getpid()}-{next(_numbers)}"


def _rows(ids: list[str]) -> pa.Table:
    return pa.table({"id": ids, "value": [1] * len(ids)}, schema=ROWS)


def _below(storage: Storage, name: str) -> Storage:
    return Storage.open(storage.uri(name), storage.options)


def _files_below(storage: Storage) -> set[Path]:
    return {path for path in storage.path().rglob("*") if path.is_file()}


def _sync(files: set[Path]) -> None:
    for path in (*files, *{path.parent for path in files}):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def _milliseconds(run: Callable[[], object]) -> float:
    started_ns = time.perf_counter_ns()
    run()
    return (time.perf_counter_ns() - started_ns) / 1e6


def _summary(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {"median": statistics.median(ordered), "p95": ordered[int(len(ordered) * 0.95)]}
