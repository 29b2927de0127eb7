"""How many pairs of records a second an entity resolution compares, beside a join of Spark with its own functions.

Records are people with a name, a town and a date, some of them twice with mistakes. The same blocks and the same names
are compared by ``resolve``, by its task alone in this process, and by a join of pairs in Spark. It never fails because
of a figure: that depends on the machine.

Usage: python bench/resolve.py [--records N] [--block N] [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import time
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from omnigraph.spark import Comparison, Resolution, resolve, session, stop
from omnigraph.spark.resolution.comparing import CompareTask, PrepareTask

PARTS = ["ba", "ko", "mi", "ra", "tel", "son", "dor", "fin", "gal", "hu", "lem", "ner", "ost", "per", "vik"]
RESOLUTION = Resolution(
    blocking=("block",),
    comparisons=(
        Comparison(column="name", method="jaro_winkler", weight=2),
        Comparison(column="name", method="token_overlap", name="words"),
        Comparison(column="town", method="normalised"),
        Comparison(column="born"),
    ),
    threshold=0.9,
)
NATIVE = """
SELECT /*+ MERGE(b) */ a.id, b.id, jaro_winkler_similarity(a.name, b.name) AS score
FROM {records} a JOIN {records} b ON a.block = b.block AND a.id < b.id
WHERE jaro_winkler_similarity(a.name, b.name) >= 0.95 AND lower(a.town) = lower(b.town) AND a.born = b.born
"""


def generate(count: int, block: int) -> pa.Table:
    """Return records; each block has about so many."""
    chance = random.Random(7)  # noqa: S311 - the same at every run
    rows = []
    while len(rows) < count:
        name = " ".join("".join(chance.choices(PARTS, k=3)).title() for _ in range(2))
        born = f"{chance.randint(1940, 2005)}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
        row = {
            "name": name,
            "town": chance.choice(PARTS),
            "born": born,
            "block": chance.randrange(max(1, count // block)),
        }
        rows.append(row)
        if chance.random() < 0.2:
            at = chance.randrange(1, len(name) - 1)
            rows.append(row | {"name": name[:at] + name[at + 1 :]})
    return pa.Table.from_pylist([{"id": f"r{at:08}", **row} for at, row in enumerate(rows[:count])])


def compare_here(table: pa.Table) -> tuple[float, int]:
    """Return the seconds that the task takes in this process for all blocks, and the pairs."""
    ordered = table.sort_by([("block", "ascending"), ("id", "ascending")])
    raw = {"key": ordered["id"], "blocks": pa.array([[""]] * len(ordered), pa.list_(pa.string()))}
    for at, one in enumerate(RESOLUTION.comparisons):
        raw[f"v{at}"] = ordered[one.column]
    started = time.perf_counter()
    ready = pa.Table.from_batches(PrepareTask(comparisons=RESOLUTION.comparisons).run(iter(pa.table(raw).to_batches())))
    ready = ready.append_column("block", ordered["block"]).drop_columns("blocks")
    ready = ready.append_column("earlier", pa.array([[]] * len(ready), pa.list_(pa.int64())))
    found = pa.Table.from_batches(CompareTask(resolution=RESOLUTION).run(iter(ready.to_batches())))
    return time.perf_counter() - started, sum(one or 0 for one in found["compared"].to_pylist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--block", type=int, default=100, help="records in a block, about")
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    table = generate(given.records, given.block)
    here, pairs = min(compare_here(table) for _ in range(given.rounds))
    spark = session(master="local[2]")
    try:
        records = spark.createDataFrame(table).localCheckpoint()
        ours, theirs, counts = [], [], None
        for _ in range(given.rounds):
            started = time.perf_counter()
            counts = resolve(spark, records, "id", RESOLUTION).counts
            ours.append(time.perf_counter() - started)
            started = time.perf_counter()
            spark.sql(NATIVE, records=records).count()
            theirs.append(time.perf_counter() - started)
    finally:
        stop(spark)
    assert counts is not None
    assert counts.compared == pairs
    shown = Table(title=f"{given.records:,} records, {pairs:,} pairs, {counts.entities:,} entities")
    for name in ("what", "seconds", "pairs per second"):
        shown.add_column(name, justify="left" if name == "what" else "right")
    rows = {
        "comparing in one process, no Spark": here,
        "resolve on local[2], from records to entities": min(ours),
        "a join of Spark that compares names alone": min(theirs),
    }
    for what, seconds in rows.items():
        shown.add_row(what, f"{seconds:.2f}", f"{pairs / seconds:,.0f}")
    console = Console()
    console.print(shown)
    console.print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")


if __name__ == "__main__":
    main()
