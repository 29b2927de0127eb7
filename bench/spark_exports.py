"""How fast an export to Parquet is: executors of Spark and the embedded engine beside pyarrow in this process.

pyarrow has the finished tables in memory and writes each to one file with the same compression; the exports scan the
graph, write files with checksums and a manifest, and sync them. The session of Spark is started and warm.

Usage: python bench/spark_exports.py [--size S|M|XS] [--rounds N] [--data DIR]
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.spark_alone import alone, timed
from tests.session import Session

from omnigraph import spark as plane
from omnigraph.engine.export.encoders import parquet_schema

TARGET = 2.0


def measure_export(graph: Session, spark, work: Path, rounds: int = 3) -> dict[str, float]:
    """Return the best seconds of each writer and the ratio that has a target."""
    tables = _tables(graph)
    seconds = {
        "pyarrow": _best(lambda to: _write(tables, to), work, rounds),
        "embedded": _best(lambda to: graph.export(to, "parquet"), work, rounds),
        "spark": _best(lambda to: plane.export(graph, to, "parquet", spark=spark), work, rounds),
    }
    return {**seconds, "ratio": seconds["spark"] / seconds["pyarrow"]}


def _tables(graph: Session) -> dict[str, pa.Table]:
    snapshot, catalog = graph.snapshot(), graph.catalog()
    owners = [*catalog.nodes.values(), *catalog.edges.values()]
    found = {}
    for owner in owners:
        schema = parquet_schema(owner)
        rows = snapshot.table(owner.table_key).read(schema.names)
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
        took.append(timed(partial(write, to)))
        shutil.rmtree(to)
    return min(took)


def main() -> None:
    with alone(__doc__, "M") as given:
        # The first job pays for workers that start and libraries that they load.
        plane.export(given.graph, given.work / "warm", "parquet", spark=given.spark, types=["Organisation"])
        answer = measure_export(given.graph, given.spark, given.work, given.rounds)
    table = Table(title=f"export of {given.size} to Parquet", title_justify="left")
    for name in ("writer", "seconds", "times pyarrow"):
        table.add_column(name)
    for name in ("pyarrow", "embedded", "spark"):
        table.add_row(name, f"{answer[name]:.2f}", f"{answer[name] / answer['pyarrow']:.2f}")
    Console().print(table)
    Console().print(f"target: spark at most {TARGET:.0f} times pyarrow")


if __name__ == "__main__":
    main()
