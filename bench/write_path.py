"""How fast a write is: one row beside a bare Lance append, and how many commits a second many writers get through.

Everything runs on a local disk and on the S3 endpoint of the test room, in one go, and prints the two side by side.
It never fails: a figure depends on the machine, and the machine is printed with it. The endpoint is a Python process
on the same machine, so its figures compare with each other, not with a real object store.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments
from rich.console import Console
from rich.table import Table

from omnigraph.store.location import Storage
from omnigraph.testing.s3 import S3Endpoint
from omnigraph.txn.changes import TableRegister
from omnigraph.txn.graph_store import GraphStore
from omnigraph.txn.manifest.rows import AcceptedSchema
from omnigraph.txn.publish.kinds import WriteKind
from omnigraph.txn.publish.writer import BranchWriter
from omnigraph.txn.settings import TxnSettings
from omnigraph.values import MAIN, BranchName

SINGLE_ROUNDS = 50
WARM_UP = 10
WINDOW_S = float(os.environ.get("OMNIGRAPH_BENCH_WINDOW_S", "1"))
PROCESSES = (1, 4, 8)
THREADS = 32
TARGET_RATIO = 4.0

BARE = "bare Lance append"
PERSON = "node:Person"
ROWS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False, metadata={b"lance-schema:unenforced-primary-key": b"true"}),
        pa.field("value", pa.int64()),
    ]
)
Figures = dict[str, dict[str, float]]


def main() -> None:
    console = Console(width=None if sys.stdout.isatty() else 110)
    console.print(machine(), highlight=False)
    with stores() as places, workers(max(PROCESSES)) as crew:
        singles = {name: one_row(storage) for name, storage in places.items()}
        console.print(one_row_table(singles))
        throughput: Figures = {name: contention(storage, crew) for name, storage in places.items()}
        console.print(rate_table("commits per second, keyed inserts of one row", throughput))
        groups: Figures = {name: group_commit(storage) for name, storage in places.items()}
        console.print(rate_table(f"commits per second, {THREADS} threads of one process, one branch", groups))


def machine() -> str:
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, "
        f"Python {platform.python_version()}, pylance {lance.__version__}, pyarrow {pa.__version__}, "
        f"load {os.getloadavg()[0]:.1f}"
    )


@contextmanager
def stores() -> Iterator[dict[str, Storage]]:
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder, S3Endpoint() as endpoint:
        yield {
            "local": Storage.open(Path(folder)),
            "S3 endpoint": Storage.open(endpoint.fresh_prefix(), endpoint.storage_options),
        }


def one_row(storage: Storage) -> Figures:
    """Time the same insert several ways in turn, so that whatever else the machine does hits all of them alike."""
    bare = below(storage, "bare.lance")
    handle = [lance.write_dataset(rows(["seed"]), bare.root, storage_options=dict(bare.options) or None)]

    def append() -> None:
        fragments = write_fragments(rows([fresh_id()]), handle[0], schema=ROWS)
        handle[0] = LanceDataset.commit(handle[0], LanceOperation.Append(fragments), read_version=handle[0].version)

    def append_synced() -> float:
        # Lance itself never syncs, so this is what a durable append would cost at least.
        before = files_below(bare)
        spent_ms = milliseconds(append)
        brought = files_below(bare) - before
        return spent_ms + milliseconds(lambda: sync(brought))

    ways: dict[str, Callable[[], float]] = {BARE: lambda: milliseconds(append)}
    if storage.is_local:
        ways[f"{BARE}, synced"] = append_synced
    graphs = []
    for durability in ("relaxed", "full"):
        place = init(below(storage, f"one-row-{durability}"))
        graph = GraphStore.open(place, settings=TxnSettings(durability=durability))
        graphs.append(graph)
        ways[f"omnigraph, {durability}"] = partial(milliseconds, inserter(graph))
    spent: dict[str, list[float]] = {name: [] for name in ways}
    # A sync makes whatever is written beside it wait, so those that sync are timed apart from those that do not.
    syncing = {name for name in ways if name.endswith(("synced", "full"))}
    for group in (ways.keys() - syncing, syncing):
        for _, name in itertools.product(range(WARM_UP + SINGLE_ROUNDS), sorted(group)):
            spent[name].append(ways[name]())
    for graph in graphs:
        graph.close()
    return {name: summary(times[WARM_UP:]) for name, times in spent.items()}


def contention(storage: Storage, crew: list[Connection]) -> dict[str, float]:
    """Let processes write to one branch, then each to a branch of its own."""
    found = {}
    place = init(below(storage, "contention"))
    own = [f"writer-{number}" for number in range(len(crew))]
    with GraphStore.open(place) as graph:
        for name in own:
            graph.create_branch(BranchName(name))
    for label, branches in {"one branch": [MAIN] * len(crew), "own branches": own}.items():
        for count in PROCESSES:
            chosen = list(zip(crew[:count], branches, strict=False))
            for pipe, branch in chosen:
                pipe.send((place.root, dict(place.options), branch))
            for pipe, _ in chosen:
                pipe.recv()
            start_s = time.monotonic() + 0.05
            for pipe, _ in chosen:
                pipe.send(start_s)
            commits = sum(pipe.recv() for pipe, _ in chosen)
            found[f"{count} process{'es' if count > 1 else ''}, {label}"] = commits / WINDOW_S
    return found


def group_commit(storage: Storage) -> dict[str, float]:
    """Let threads of one process write to one branch, each publish carrying one write or all that wait."""
    found = {}
    for label, is_grouped in {"one publish each": False, "group commit": True}.items():
        place = init(below(storage, f"threads-{is_grouped}"))
        with GraphStore.open(place, group_commit=is_grouped) as graph:
            found[label] = in_threads(graph) / WINDOW_S
    return found


def in_threads(graph: GraphStore) -> int:
    insert = inserter(graph)
    insert()
    done = itertools.count()
    end_s = time.monotonic() + WINDOW_S

    def run() -> None:
        while time.monotonic() < end_s:
            insert()
            if time.monotonic() < end_s:
                next(done)

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return next(done)


@contextmanager
def workers(count: int) -> Iterator[list[Connection]]:
    """Start writer processes once; loading the libraries takes longer than a measurement."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for _ in range(count):
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs,), daemon=True)
        process.start()
        pipes.append(ours)
        processes.append(process)
    for pipe in pipes:
        pipe.recv()
    try:
        yield pipes
    finally:
        for pipe in pipes:
            pipe.send(None)
        for process in processes:
            process.join()


def serve(pipe: Connection) -> None:
    """Write to the branch that is asked for, from the given moment for one window, and tell how many commits landed."""
    pipe.send("ready")
    while (task := pipe.recv()) is not None:
        root, options, branch = task
        with GraphStore.open(Storage.open(root, options), mode="read_write") as graph:
            insert = inserter(graph, branch)
            insert()
            pipe.send("open")
            start_s = pipe.recv()
            while time.monotonic() < start_s:
                pass
            commits = 0
            while time.monotonic() < start_s + WINDOW_S:
                insert()
                commits += time.monotonic() < start_s + WINDOW_S
            pipe.send(commits)


def init(storage: Storage) -> Storage:
    tables = [
        TableRegister(table_key=f"node:{name}", object_id=f"{number:016x}-{number:016x}", folder="nodes", schema=ROWS)
        for number, name in enumerate(("Person", "Team"), start=1)
    ]
    schema = AcceptedSchema(source="node Person {}", compiled="{}", hash="sha256:0")
    GraphStore.init(storage, schema=schema, tables=tables, actor="bench")
    return storage


def inserter(graph: GraphStore, branch: str = MAIN) -> Callable[[], None]:
    branch_writer: BranchWriter = graph.branch_writer(BranchName(branch))

    def insert() -> None:
        txn = branch_writer.begin(WriteKind.INSERT)
        txn.insert(PERSON, rows([fresh_id()]))
        branch_writer.commit(txn)

    return insert


_numbers = itertools.count()


def fresh_id() -> str:
    return f"{os.getpid()}-{next(_numbers)}"


def rows(ids: list[str]) -> pa.Table:
    return pa.table({"id": ids, "value": [1] * len(ids)}, schema=ROWS)


def below(storage: Storage, name: str) -> Storage:
    return Storage.open(storage.uri(name), storage.options)


def files_below(storage: Storage) -> set[Path]:
    return {path for path in storage.path().rglob("*") if path.is_file()}


def sync(files: set[Path]) -> None:
    for path in (*files, *{path.parent for path in files}):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def milliseconds(run: Callable[[], None]) -> float:
    started = time.perf_counter_ns()
    run()
    return (time.perf_counter_ns() - started) / 1e6


def summary(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {"median": statistics.median(ordered), "p95": ordered[int(len(ordered) * 0.95)]}


def one_row_table(singles: dict[str, Figures]) -> Table:
    table = Table(title=f"one-row commit, ms, median (p95) of {SINGLE_ROUNDS}", title_justify="left")
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


def rate_table(title: str, figures: Figures) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("what")
    for name in figures:
        table.add_column(name, justify="right")
    for what in next(iter(figures.values())):
        table.add_row(what, *(f"{found[what]:,.0f}" for found in figures.values()))
    return table


if __name__ == "__main__":
    main()
