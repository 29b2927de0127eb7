"""How fast the data source reads: two columns of a large type to an aggregate, beside a scan of the same to Arrow.

The session of Spark is started and warm and the frame is there; the time holds planning the job, reading and
aggregating. Run by itself, it also prints where the time goes: the same job over a source without rows, over one that
has the same batches in memory, and over a Parquet file that Spark reads without Python.

Usage: python bench/spark_reads.py [--size S|M|XS] [--rounds N] [--data DIR]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.spark_alone import alone, timed
from tests.session import Session

from omnigraph import spark as plane

TARGET = 6.0
COLUMNS = ("src", "dst")


def measure_read(graph: Session, spark, rounds: int = 3) -> dict[str, float]:
    """Return the best seconds of both ways, and their ratio, which has a target."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark is loaded when it is used

    plane.register(spark)
    options = {"graph": graph.store.storage.root, "type": "Knows", "columns": ",".join(COLUMNS)}

    def by_spark() -> tuple[str, str]:
        (row,) = frames.pop().agg(*map(F.max, COLUMNS)).collect()
        return row[0], row[1]

    def by_lance() -> pa.Table:
        return graph.snapshot().table("edge:Knows").read(COLUMNS)

    # A frame remembers how it was planned, so every round has one of its own.
    frames = [spark.read.format("omnigraph").options(**options).load() for _ in range(rounds + 1)]
    if by_spark() != tuple(pc.max(column).as_py() for column in by_lance().columns):
        msg = "the two ways disagree"
        raise ValueError(msg)
    seconds = {name: min(timed(way) for _ in range(rounds)) for name, way in (("spark", by_spark), ("lance", by_lance))}
    return {**seconds, "ratio": seconds["spark"] / seconds["lance"]}


def measure_parts(graph: Session, spark, work: Path, rounds: int = 3) -> dict[str, float]:
    """Return the best seconds of the same aggregate over other sources, which tell what is not ours."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark is loaded when it is used

    path = str(work / "columns.parquet")
    pq.write_table(graph.snapshot().table("edge:Knows").read(COLUMNS), path)
    spark.dataSource.register(_held_source())

    def seconds(frame: Callable[[], Any]) -> float:
        frames = [frame() for _ in range(rounds + 1)]
        runs = [timed(lambda: frames.pop().agg(*map(F.max, COLUMNS)).collect()) for _ in range(rounds + 1)]
        return min(runs[1:])

    def held(share: int) -> Callable[[], Any]:
        return lambda: spark.read.format("held").options(path=path, share=share).load()

    return {
        "no rows": seconds(held(0)),
        "in memory": seconds(held(1)),
        "parquet": seconds(lambda: spark.read.parquet(path)),
    }


def _held_source() -> type:
    """Return a source whose workers read a file once and keep it; it travels by value, for they cannot import it."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition  # noqa: PLC0415 - see above

    parts = 4

    class HeldReader(DataSourceReader):
        def __init__(self, path: str, share: int) -> None:
            self.path, self.share = path, share

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(parts)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            import sys  # noqa: PLC0415 - it runs elsewhere

            import pyarrow.parquet as files  # noqa: PLC0415 - it runs elsewhere

            if not hasattr(sys, "held_table"):
                sys.held_table = files.read_table(self.path)
            rows = sys.held_table.num_rows // parts * self.share
            yield from sys.held_table.slice(partition.value * rows, rows).to_batches(max_chunksize=65_536)

    class HeldSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "held"

        def schema(self) -> str:
            return ", ".join(f"{name} string not null" for name in COLUMNS)

        def reader(self, schema: object) -> HeldReader:
            del schema
            return HeldReader(self.options["path"], int(self.options["share"]))

    return HeldSource


def main() -> None:
    with alone(__doc__, "S") as given:
        found = measure_read(given.graph, given.spark, given.rounds)
        parts = measure_parts(given.graph, given.spark, given.work, given.rounds)
    for name, amount in found.items():
        print(f"{name:8} {amount:8.3f}")
    print(f"target   {TARGET:8.3f}\n\nthe same aggregate over")
    for name, amount in parts.items():
        print(f"{name:9} {amount:8.3f}  {amount / found['spark']:6.2f} of ours")


if __name__ == "__main__":
    main()
