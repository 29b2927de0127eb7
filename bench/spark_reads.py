"""How fast the data source reads: two columns of a large type to an aggregate, beside a scan of the same to Arrow.

The session of Spark is started and warm and the frame is there; the time holds planning the job, reading and
aggregating.

Usage: python bench/spark_reads.py [--size S|M|XS] [--rounds N] [--data DIR]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.generate import SCHEMA_PATH, SIZES, generate

from omnigraph import spark as plane
from omnigraph.engine.session import GraphSession, init_graph
from omnigraph.runtime import Counters
from omnigraph.store.location import Storage

TARGET = 6.0
COLUMNS = ("src", "dst")


def measure_read(graph: GraphSession, spark, rounds: int = 3) -> dict[str, float]:
    """Return the best seconds of both ways, and their ratio, which has a target."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark is loaded when it is used

    plane.register(spark)
    options = {"graph": graph.store.storage.root, "type": "Knows", "columns": ",".join(COLUMNS)}

    def by_spark() -> tuple[str, str]:
        (row,) = frames.pop().agg(*map(F.max, COLUMNS)).collect()
        return row[0], row[1]

    def by_lance() -> pa.Table:
        return graph.snapshot().table("edge:Knows", Counters()).read(COLUMNS, counters=Counters())

    # A frame remembers how it was planned, so every round has one of its own.
    frames = [spark.read.format("omnigraph").options(**options).load() for _ in range(rounds + 1)]
    if by_spark() != tuple(pc.max(column).as_py() for column in by_lance().columns):
        msg = "the two ways disagree"
        raise ValueError(msg)
    seconds = {
        name: min(_timed(way) for _ in range(rounds)) for name, way in (("spark", by_spark), ("lance", by_lance))
    }
    return {**seconds, "ratio": seconds["spark"] / seconds["lance"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=sorted(SIZES), default="S")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep the generated files here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        dataset = generate(arguments.size, arguments.data or Path(scratch, "data"))
        storage = Storage.open(str(Path(scratch, "graph")))
        init_graph(storage, SCHEMA_PATH.read_text())
        spark = plane.session(master="local[2]")
        try:
            with GraphSession.open(storage) as graph:
                graph.load([str(path) for path in dataset.parquet])
                found = measure_read(graph, spark, arguments.rounds)
        finally:
            plane.stop(spark)
    for name, amount in found.items():
        print(f"{name:8} {amount:8.3f}")
    print(f"target   {TARGET:8.3f}")


def _timed(way: Callable[[], object]) -> float:
    started = time.perf_counter()
    way()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
