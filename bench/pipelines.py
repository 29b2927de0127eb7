"""How fast a declared pipeline is beside the Spark job that only reads its sources and writes Parquet.

One session serves all rows. The raw files are those of the generated graph under other names, with a column that says
when a row changed; edges have an id, so that later runs find them. It never fails because of a figure: that depends on
the machine, which is printed with it.

Usage: python bench/pipelines.py [--size S|M|XS] [--data DIR]
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.generate import SCHEMA_PATH, SIZES, make_tables
from bench.spark_alone import timed
from bench.spark_big import Watch

import omnigraph
from omnigraph import pipelines
from omnigraph import spark as plane

GIB = 1 << 30
NODES = {"Person": "slug", "Organisation": "slug", "Post": "slug"}
EDGES = ("Knows", "WorksAt", "Created")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What is measured with: raw files, a session, a folder that goes away."""

    raw: Path
    work: Path
    spark: Any
    records: int

    def fresh(self) -> omnigraph.Graph:
        """Return an empty graph."""
        return omnigraph.init(Path(tempfile.mkdtemp(dir=self.work)) / "graph", SCHEMA_PATH)


def write_raw(tables: Mapping[str, pa.Table], folder: Path, *, moment: int, every: int = 1) -> int:
    """Write every ``every``-th row of each table as another system has it; return how many rows that are."""
    rows = 0
    for name, table in tables.items():
        numbers = pa.array(range(0, table.num_rows, every), pa.int64())
        some = table.take(numbers)
        if moment:
            at = some.column_names.index(_text_of(name)) if name in NODES else None
            if at is not None:
                texts = pc.binary_join_element_wise(some.column(at), "changed", " ")
                some = some.set_column(at, some.column_names[at], texts)
        if name in EDGES:
            ids = pc.binary_join_element_wise(name.lower(), pc.cast(numbers, pa.string()), "-")
            some = some.append_column("edge_no", ids)
        some = some.rename_columns([f"raw_{column}" for column in some.column_names])
        some = some.append_column("changed", pa.array([moment] * some.num_rows, pa.int64()))
        (folder / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(some, folder / name / f"part-{moment}.parquet", row_group_size=131_072)
        rows += some.num_rows
    return rows


def _text_of(name: str) -> str:
    return "title" if name == "Post" else "name"


def columns_of(name: str, tables: Mapping[str, pa.Table]) -> list[str]:
    """Return the expressions that make properties of raw columns."""
    own = [f"raw_{column} AS `{column}`" for column in tables[name].column_names if column not in {"from", "to"}]
    return own if name in NODES else [*own, "raw_from AS `from`", "raw_to AS `to`", "raw_edge_no AS edge_no"]


def declare(
    tables: Mapping[str, pa.Table], raw: Path, *, expects: bool = True, bad: str | None = None
) -> pipelines.Pipeline:
    """Return the pipeline: every type from its raw file, with an expectation for each."""
    made = pipelines.Pipeline("bench", publish="direct")
    for name in tables:
        made.source(name.lower(), format="parquet", path=str(raw / name), incremental="changed")
        step = f"{name.lower()}_rows"
        expressions = columns_of(name, tables)
        # Edges of nodes that are put aside would have no end.
        rule = bad if bad is not None and name in EDGES else "true"
        rules = [] if not expects else [pipelines.quarantine("known", rule)]
        statement = f"SELECT {', '.join(expressions)} FROM {name.lower()}"  # noqa: S608 - names of our own
        if name in NODES:
            made.node(name, name=step, sql=statement, expect=rules)
        else:
            made.edge(name, name=step, sql=statement, key="edge_no", src="`from`", dst="`to`", expect=rules)
    return made


def plain_job(ground: Ground, tables: Mapping[str, pa.Table]) -> float:
    """Return the seconds of reading, projecting and writing the same rows as Parquet."""
    out = Path(tempfile.mkdtemp(dir=ground.work))

    def write() -> None:
        for name in tables:
            frame = ground.spark.read.parquet(str(ground.raw / name))
            frame.selectExpr(*columns_of(name, tables)).write.parquet(str(out / name))

    seconds = timed(write)
    shutil.rmtree(out)
    return seconds


def measure(ground: Ground, tables: Mapping[str, pa.Table], table: Table) -> None:
    """Run everything once, in the order that a pipeline lives through."""
    plain_job(ground, tables)
    plain = plain_job(ground, tables)

    def run(graph: omnigraph.Graph, made: pipelines.Pipeline) -> float:
        return timed(lambda: pipelines.run(made, graph, spark=ground.spark))

    made = declare(tables, ground.raw)
    with ground.fresh() as warm:
        run(warm, declare(tables, ground.raw, expects=False))
    with ground.fresh() as graph:
        clean = run(graph, declare(tables, ground.raw, expects=False))
        _add(table, "first run, no expectation", clean, "plain Spark job", plain, "<= 3")
    with ground.fresh() as graph, Watch() as memory:
        first = run(graph, made)
        per_core = ground.records / first / 2
        _add(table, "first run, mapping and expectations", first, "plain Spark job", plain, "<= 3")
        table.add_row("rows per second and core", f"{per_core:,.0f}", "", "", "", "")
        again = run(graph, made)
        table.add_row("second run, no change", f"{again:.2f} s", "", "", "", "<= 1 s")
        changed = write_raw(tables, ground.raw, moment=1, every=100)
        some = run(graph, made)
        _add(table, f"incremental run of {changed:,} rows (1 %)", some, "first run", first, "")
        for path in ground.raw.glob("*/part-1.parquet"):
            path.unlink()
    table.add_row("peak memory of all processes", f"{memory.peak_bytes / GIB:.2f} GB", "", "", "", "")
    with ground.fresh() as graph:
        bad = run(graph, declare(tables, ground.raw, bad="pmod(hash(*), 100) != 0"))
        _add(table, "first run, 1 % quarantined", bad, "clean run", first, "<= 1.15")


def _add(table: Table, work: str, ours: float, peer: str, theirs: float, target: str = "") -> None:
    table.add_row(work, f"{ours:.2f} s", peer, f"{theirs:.2f} s", f"{ours / theirs:.2f}", target)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", choices=sorted(SIZES), default="S")
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep the raw files here")
    given = parser.parse_args()
    console = Console(width=130)
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        work = Path(folder)
        tables = make_tables(SIZES[given.size])
        raw = (given.data or work) / f"raw-{given.size}"
        records = write_raw(tables, raw, moment=0)
        console.print(
            f"size {given.size}: {records:,} records; {platform.platform()}, {os.cpu_count()} cores,"
            f" Python {platform.python_version()}"
        )
        table = Table("work", "ours", "compared with", "theirs", "ratio", "target")
        spark = plane.session(master="local[2]")
        try:
            measure(Ground(raw=raw, work=work, spark=spark, records=records), tables, table)
        finally:
            plane.stop(spark)
        console.print(table)


if __name__ == "__main__":
    main()
