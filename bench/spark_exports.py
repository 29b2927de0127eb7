"""How fast an export to Parquet is: executors of Spark and the embedded engine beside pyarrow in this process.

pyarrow has the finished tables in memory and writes each to one file with the same compression; the exports scan the
graph, write files with checksums and a manifest, and sync them. The session of Spark is started and warm.

Usage: python bench/spark_exports.py [--size S|M|XS] [--rounds N] [--data DIR]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.generate import SCHEMA_PATH, SIZES, generate

from omnigraph import spark as plane
from omnigraph.engine.export.encoders import parquet_schema
from omnigraph.engine.session import GraphSession, init_graph
from omnigraph.runtime import Counters
from omnigraph.store.location import Storage

TARGET = 2.0


def measure_export(graph: GraphSession, spark, work: Path, rounds: int = 3) -> dict[str, float]:
    """Return the best seconds of each writer and the ratio that has a target."""
    tables = _tables(graph)
    seconds = {
        "pyarrow": _best(lambda to: _write(tables, to), work, rounds),
        "embedded": _best(lambda to: graph.export(to, "parquet"), work, rounds),
        "spark": _best(lambda to: plane.export(graph, to, "parquet", spark=spark), work, rounds),
    }
    return {**seconds, "ratio": seconds["spark"] / seconds["pyarrow"]}


def _tables(graph: GraphSession) -> dict[str, pa.Table]:
    snapshot, counters, catalog = graph.snapshot(), Counters(), graph.catalog()
    owners = [*catalog.nodes.values(), *catalog.edges.values()]
    found = {}
    for owner in owners:
        schema = parquet_schema(owner)
        rows = snapshot.table(owner.table_key, counters).read(schema.names, counters=counters)
        found[owner.name] = rows.cast(schema)
    return found


def _write(tables: dict[str, pa.Table], to: Path) -> None:
    to.mkdir()
    for name, rows in tables.items():
        pq.write_table(rows, to / f"{name}.parquet", compression="zstd", compression_level=1)


def _best(write: Callable[[Path], object], work: Path, rounds: int) -> float:
    took = []
    for _ in range(rounds):
        to = work / "out"
        started = time.perf_counter()
        write(to)
        took.append(time.perf_counter() - started)
        shutil.rmtree(to)
    return min(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), default="M")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        dataset = generate(given.size, given.data or work / "data")
        storage = Storage.open(str(work / "graph"))
        init_graph(storage, SCHEMA_PATH.read_text())
        spark = plane.session()
        try:
            with GraphSession.open(storage) as graph:
                graph.load([str(path) for path in dataset.parquet], "append")
                # The first job pays for workers that start and libraries that they load.
                plane.export(graph, work / "warm", "parquet", spark=spark, types=["Organisation"])
                answer = measure_export(graph, spark, work, given.rounds)
        finally:
            plane.stop(spark)
    table = Table(title=f"export of {given.size} to Parquet", title_justify="left")
    for name in ("writer", "seconds", "times pyarrow"):
        table.add_column(name)
    for name in ("pyarrow", "embedded", "spark"):
        table.add_row(name, f"{answer[name]:.2f}", f"{answer[name] / answer['pyarrow']:.2f}")
    Console().print(table)
    Console().print(f"target: spark at most {TARGET:.0f} times pyarrow")


if __name__ == "__main__":
    main()
