"""How fast the data plane on Spark is, each row beside something it is measured against in the same run.

One session (2 cores, local master, already started) serves all rows but the last two, which are processes of their
own. It never fails because of a figure: that depends on the machine, which is printed with it.

Usage: python bench/spark.py [--size S|M|XS] [--rounds N] [--data DIR] [--only WORD]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.generate import SCHEMA_PATH, SIZES, Dataset, generate
from bench.spark_alone import timed
from tests.session import Session

from omnigraph import spark as plane
from omnigraph.engine.open_graph import init_graph
from omnigraph.store.location import Storage

MIB = 1 << 20
FRAGMENTS = 2_000
MERGED_ROWS = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What one row of the table says: two amounts, their ratio, and what it should be at most."""

    work: str
    peer: str
    ours: float
    theirs: float | None
    target: float
    unit: str = "s"

    @property
    def ratio(self) -> float:
        """What is compared with the target."""
        return self.ours if self.theirs is None else self.ours / self.theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a measurement works with; ``graph`` holds the whole dataset and may be read only."""

    dataset: Dataset
    spark: Any
    work: Path
    rounds: int
    graph: Session

    @property
    def files(self) -> list[str]:
        """The Parquet files, nodes first."""
        return [str(path) for path in self.dataset.parquet]

    def fresh(self) -> Session:
        """Return an empty graph."""
        folder = Path(tempfile.mkdtemp(dir=self.work))
        storage = Storage.open(str(folder / "graph"))
        init_graph(storage, SCHEMA_PATH.read_bytes())
        return Session.open(storage)

    def best(self, run: Callable[[], float]) -> float:
        """Return the fastest of some runs."""
        return min(run() for _ in range(self.rounds))


def load_parquet(ground: Ground) -> Figure:
    def ours() -> float:
        with ground.fresh() as graph:
            return timed(lambda: plane.load(graph, ground.files, "append", spark=ground.spark))

    return Figure(
        work="load from Parquet, all rules on",
        peer="Spark writes the same frames as Parquet",
        ours=ground.best(ours),
        theirs=ground.best(lambda: _write_parquet(ground)),
        target=2.0,
    )


def load_frames(ground: Ground) -> Figure:
    spark = ground.spark
    frames = {Path(path).stem: path for path in ground.files}

    def ours() -> float:
        with ground.fresh() as graph:
            return timed(
                lambda: plane.load_frames(
                    graph, {name: spark.read.parquet(path) for name, path in frames.items()}, "append", spark=spark
                )
            )

    return Figure(
        work="load of frames, all rules on",
        peer="Spark writes the same frames as Parquet",
        ours=ground.best(ours),
        theirs=ground.best(lambda: _write_parquet(ground)),
        target=0.8,
    )


def merge_by_sink(ground: Ground) -> Figure:
    """Half a million people, every second of them stored with another name."""
    folder = Path(tempfile.mkdtemp(dir=ground.work))
    numbers = np.arange(MERGED_ROWS)
    slugs = np.char.add("merged-", numbers.astype(str))
    stored, given = folder / "stored" / "Person.parquet", folder / "given" / "Person.parquet"
    for path, kept, name in ((stored, numbers % 2 == 0, "before"), (given, numbers >= 0, "after")):
        path.parent.mkdir()
        columns = {
            "slug": slugs[kept],
            "name": np.full(kept.sum(), name),
            "joined": np.full(kept.sum(), "2024-02-29", dtype="datetime64[D]"),
        }
        pq.write_table(pa.table(columns), path)

    def ours() -> float:
        with ground.fresh() as graph:
            plane.load(graph, [str(stored)], "append", spark=ground.spark)
            rows = ground.spark.read.parquet(str(given))
            sink = rows.write.format("omnigraph").option("graph", graph.store.storage.root).option("type", "Person")
            return timed(lambda: sink.option("mode", "merge").mode("append").save())

    def theirs() -> float:
        with ground.fresh() as graph:
            plane.load(graph, [str(stored)], "append", spark=ground.spark)
            return timed(lambda: graph.load([str(given)], "merge"))

    return Figure(
        work=f"merge of {MERGED_ROWS:,} rows by df.write",
        peer="embedded load of the same",
        ours=ground.best(ours),
        theirs=ground.best(theirs),
        target=1.5,
    )


def load_jsonl(ground: Ground) -> Figure:
    source = [str(ground.dataset.jsonl)]

    def ours() -> float:
        with ground.fresh() as graph:
            return timed(lambda: plane.load(graph, source, "append", spark=ground.spark))

    def theirs() -> float:
        with ground.fresh() as graph:
            return timed(lambda: graph.load(source, "append"))

    return Figure(
        work="load from JSONL, all rules on",
        peer="embedded load of the same",
        ours=ground.best(ours),
        theirs=ground.best(theirs),
        target=2.0,
    )


def merge_few(ground: Ground) -> Figure:
    """One row in a hundred changes; edges have made-up ids there, so that only nodes can be merged."""
    folder = Path(tempfile.mkdtemp(dir=ground.work))
    changed = []
    for path in ground.dataset.parquet[:3]:
        rows = pq.read_table(path)
        some = rows.take(pa.array(range(0, rows.num_rows, 100)))
        name = "title" if "title" in some.column_names else "name"
        at = some.column_names.index(name)
        texts = pc.binary_join_element_wise(some[name], "changed", " ")
        pq.write_table(some.set_column(at, name, texts), folder / path.name)
        changed.append(str(folder / path.name))

    def ours() -> float:
        with ground.fresh() as graph:
            plane.load(graph, ground.files, "append", spark=ground.spark)
            return timed(lambda: plane.load(graph, changed, "merge", spark=ground.spark))

    def theirs() -> float:
        with ground.fresh() as graph:
            plane.load(graph, ground.files, "append", spark=ground.spark)
            return timed(lambda: plane.load(graph, ground.files, "overwrite", spark=ground.spark))

    return Figure(
        work="merge of 1 % changed nodes", peer="overwrite of everything", ours=ours(), theirs=theirs(), target=0.5
    )


def read_two_columns(ground: Ground) -> Figure | None:
    found = _measured("bench.spark_reads", "measure_read", ground)
    if found is None:
        return None
    return Figure(
        work="read of Knows, two columns, to an aggregate",
        peer="lance scan to Arrow",
        ours=found["spark"],
        theirs=found["lance"],
        target=6.0,
    )


def export_all(ground: Ground) -> Figure | None:
    work = Path(tempfile.mkdtemp(dir=ground.work))
    found = _measured("bench.spark_exports", "measure_export", ground, work)
    if found is None:
        return None
    return Figure(
        work="export to Parquet",
        peer="pyarrow writes the same",
        ours=found["spark"],
        theirs=found["pyarrow"],
        target=2.0,
    )


def two_hops(ground: Ground) -> Figure | None:
    found = _measured("bench.spark_queries", "measure_two_hops", ground)
    if found is None:
        return None
    return Figure(
        work="two-hop count as a query",
        peer="hand-written joins, best hint",
        ours=found["query"],
        theirs=found["query"] / found["ratio"],
        target=1.3,
    )


def driver_memory(ground: Ground) -> Figure:
    answer = _child("driver", str(ground.dataset.parquet[3]), str(ground.work))
    return Figure(
        work=f"driver memory at {answer['fragments']:,.0f} fragments",
        peer="-",
        ours=answer["peak_bytes"] / MIB,
        theirs=None,
        target=500.0,
        unit="MiB",
    )


def cold_command(ground: Ground) -> Figure:
    folder = Path(tempfile.mkdtemp(dir=ground.work))
    storage = Storage.open(str(folder / "graph"))
    init_graph(storage, SCHEMA_PATH.read_bytes())
    tiny = folder / "tiny.jsonl"
    tiny.write_text('{"type":"Organisation","data":{"slug":"org-1","name":"one"}}\n')
    given = ["--data", str(tiny), "--mode", "merge", "--engine", "spark"]
    command = [sys.executable, "-m", "omnigraph", "load", storage.root, *given]

    def ours() -> float:
        return timed(lambda: subprocess.run(command, check=True, capture_output=True))  # noqa: S603 - our own command

    return Figure(
        work="command-line load of one record, cold",
        peer="default session and first job",
        ours=ground.best(ours),
        theirs=ground.best(lambda: _child("plain")["seconds"]),
        target=0.6,
    )


def _write_parquet(ground: Ground) -> float:
    out = Path(tempfile.mkdtemp(dir=ground.work))

    def write() -> None:
        for path in ground.files:
            ground.spark.read.parquet(path).write.parquet(str(out / Path(path).stem))

    return timed(write)


ROWS: dict[str, Callable[[Ground], Figure | None]] = {
    "parquet": load_parquet,
    "frames": load_frames,
    "sink": merge_by_sink,
    "jsonl": load_jsonl,
    "merge": merge_few,
    "read": read_two_columns,
    "export": export_all,
    "hops": two_hops,
    "driver": driver_memory,
    "cold": cold_command,
}


def _child_driver(knows: str, work: str) -> dict[str, float]:
    """Load one type in thousands of fragments, with the tasks in processes of their own."""
    folder = Path(tempfile.mkdtemp(dir=work))
    storage = Storage.open(str(folder / "graph"))
    init_graph(storage, SCHEMA_PATH.read_bytes())
    persons = str(Path(knows).with_name("Person.parquet"))
    rows = pq.read_metadata(knows).num_rows
    settings = plane.SparkLoadSettings(fragment_rows=max(rows // FRAGMENTS, 1))
    spark = plane.session(master="local[2]")
    with Session.open(storage) as graph:
        plane.load(graph, [persons], "append", spark=spark)
        result = plane.load(graph, [knows], "append", spark=spark, settings=settings)
    plane.stop(spark)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"fragments": result.fragments, "peak_bytes": peak_bytes}


def _child_plain() -> dict[str, float]:
    """Start a session as Spark starts it by itself, and run a first job with a Python worker."""
    started = time.perf_counter()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession  # noqa: PLC0415 - its import is part of what is timed

    spark = SparkSession.builder.master("local[2]").getOrCreate()
    spark.range(10).mapInArrow(_same, "id long").count()
    seconds = time.perf_counter() - started
    spark.stop()
    return {"seconds": seconds}


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


CHILDREN: dict[str, Callable[..., dict[str, float]]] = {"driver": _child_driver, "plain": _child_plain}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=sorted(SIZES), default="M")
    parser.add_argument("--rounds", type=int, default=2, help="take the fastest of so many runs")
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep the generated files here")
    parser.add_argument("--only", choices=sorted(ROWS), action="append", help="measure only these rows")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        name, *rest = arguments.child
        print(json.dumps(CHILDREN[name](*rest)))
        return
    console = Console(width=120)
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as scratch:
        dataset = generate(arguments.size, (arguments.data or Path(scratch)) / arguments.size)
        console.print(
            f"size {arguments.size}: {dataset.size.records:,} records;"
            f" {platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}"
        )
        console.print(_measure(dataset, Path(scratch), arguments.rounds, arguments.only or list(ROWS), console))


def _measure(dataset: Dataset, work: Path, rounds: int, chosen: list[str], console: Console) -> Table:
    table = Table("work", "compared with", "ours", "theirs", "ratio", "target")
    spark = plane.session(master="local[2]")
    try:
        storage = Storage.open(str(work / "graph"))
        init_graph(storage, SCHEMA_PATH.read_bytes())
        with Session.open(storage) as graph:
            # What is measured finds workers that have everything loaded.
            plane.load(graph, [str(path) for path in dataset.parquet], "append", spark=spark)
            ground = Ground(dataset=dataset, spark=spark, work=work, rounds=rounds, graph=graph)
            for name in chosen:
                figure = ROWS[name](ground)
                if figure is None:
                    console.print(f"{name}: not measured here")
                    continue
                theirs = "" if figure.theirs is None else f"{figure.theirs:.2f} {figure.unit}"
                ours = f"{figure.ours:.2f} {figure.unit}"
                table.add_row(figure.work, figure.peer, ours, theirs, f"{figure.ratio:.2f}", f"<= {figure.target}")
                console.print(f"{name}: {ours}, {theirs or '-'}")
    finally:
        plane.stop(spark)
        shutil.rmtree(work / "graph", ignore_errors=True)
    return table


def _measured(module: str, name: str, ground: Ground, *more: object) -> dict[str, float] | None:
    try:
        measure = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return None
    found: dict[str, float] = measure(ground.graph, ground.spark, *more, rounds=ground.rounds)
    return found


def _child(*arguments: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own file
    if ended.returncode != 0:
        sys.exit(f"{arguments[0]} failed\n{ended.stderr}")
    answer: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    main()
