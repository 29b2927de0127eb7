"""A load of many generated edges on Spark in bounded memory: time, peak memory of all processes, and an audit.

The input is written first, by a process of its own: Parquet files of persons and of whom they know. Then a session
with a small JVM loads all of it with every rule on. Memory is the proportional share (PSS) of this process and
everything it started, looked at five times a second; pages that processes share count once.

With ``--pipeline`` the same rows come by a declared pipeline with expectations, and then one per cent of the edges once
more, as an incremental run.

Usage: python bench/spark_big.py [--edges 20_000_000] [--persons 500_000] [--limit-gb 6] [--data DIR] [--pipeline]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import duckdb
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.generate import SCHEMA_PATH, SEED, Size, Stream, _knows, _slugs, make_tables
from tests.auditor import Auditor, Line
from tests.session import Session

import omnigraph
from omnigraph import pipelines
from omnigraph import spark as plane
from omnigraph.engine.load import Source
from omnigraph.engine.open_graph import init_graph
from omnigraph.store.location import Storage

GIB = 1 << 30
EDGES_PER_FILE = 1_000_000
EVERY_S = 0.2


class Watch:
    """The greatest memory that this process and all it started had at one moment."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ends.wait(EVERY_S):
            self.peak_bytes = max(self.peak_bytes, sum(map(_share, family())))


def family() -> list[int]:
    """Return the numbers of this process and of everything below it."""
    parents: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(status.parent.name)] = int(fields[1])
    found, rest = [int(Path("/proc/self").resolve().name)], 0
    while rest < len(found):
        found += [child for child, parent in parents.items() if parent == found[rest]]
        rest += 1
    return found


def _share(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


class BigAuditor(Auditor):
    """Says what is wrong with a graph whose tables are too large to be looked at row by row."""

    def __init__(self, root: str, temporary: Path, edges: Mapping[str, str]) -> None:
        super().__init__(root, edges={})
        self._ends_in = edges
        self._sets: dict[str, Any] = {}
        self._engine = duckdb.connect(
            config={
                "memory_limit": "2GB",
                "threads": 2,
                "temp_directory": str(temporary),
                "preserve_insertion_order": False,
            }
        )

    def _table(self, line: Line, row: dict[str, Any]) -> list[dict[str, Any]]:
        key = row["table_key"]
        dataset = self._dataset(row["location"], row["table_branch"], row["table_version"])
        self._sets[key] = dataset
        ids = dataset.scanner(columns=["id"]).to_reader()
        counted, distinct = self._ask("SELECT count(*), count(DISTINCT id) FROM ids", ids=ids)
        if not counted == distinct == row["row_count"]:
            self._report(f"rows table={key} manifest={row['row_count']} real={counted} distinct={distinct}")
        if line.owns(row["table_branch"]) and dataset.latest_version != row["table_version"]:
            self._report(f"the table has drifted table={key}")
        return []

    def check_ends(self) -> None:
        """Demand that both ends of every edge are there."""
        for edge_key, node_key in self._ends_in.items():
            nodes = self._sets[node_key].scanner(columns=["id"]).to_table()
            for end in ("src", "dst"):
                edges = self._sets[edge_key].scanner(columns=[end]).to_reader()
                text = f"SELECT count(*) FROM edges e ANTI JOIN nodes n ON n.id = e.{end}"  # noqa: S608 - one of two words
                (missing,) = self._ask(text, edges=edges, nodes=nodes)
                if missing:
                    self._report(f"edges without {end} table={edge_key} count={missing}")

    def _ask(self, text: str, **relations: Any) -> Any:
        for name, rows in relations.items():
            self._engine.register(name, rows)
        (answer,) = self._engine.sql(text).fetchall()
        for name in relations:
            self._engine.unregister(name)
        return answer


def write_input(folder: Path, persons: int, edges: int) -> None:
    """Write the persons, and files of edges; what is there already is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    done, mark = folder / ".done", f"{persons} {edges} {SEED}"
    if done.exists() and done.read_text() == mark:
        return
    small = make_tables(Size(persons=persons, organisations=1, posts=0, knows=0))
    pq.write_table(small["Person"], folder / "Person.parquet", row_group_size=131_072)
    slugs = _slugs("per", persons)
    for number, start in enumerate(range(0, edges, EDGES_PER_FILE)):
        count = min(EDGES_PER_FILE, edges - start)
        rows = _knows(Stream(SEED + 1 + number), slugs, count)
        pq.write_table(rows, folder / f"knows-{number:04}.parquet", row_group_size=131_072)
    done.write_text(mark)


def load_big(data: Path, work: Path, records: int) -> tuple[float, int, Mapping[str, float]]:
    """Load everything; return the seconds, the peak of memory and the seconds of each step."""
    storage = Storage.open(str(work / "graph"))
    init_graph(storage, SCHEMA_PATH.read_bytes())
    with Watch() as watch, Session.open(storage) as graph:
        spark = plane.session(master="local[2]", conf={"spark.driver.memory": "1g"})
        try:
            started = time.perf_counter()
            sources = [
                Source(path=str(data / "Person.parquet")),
                Source(path=str(data / "knows-*.parquet"), type_name="Knows"),
            ]
            result = plane.load(graph, sources, "append", spark=spark)
            seconds = time.perf_counter() - started
        finally:
            plane.stop(spark)
    if result.total != records:
        sys.exit(f"loaded {result.total} of {records} records")
    return seconds, watch.peak_bytes, result.seconds


def declare(data: Path) -> pipelines.Pipeline:
    """Return the pipeline of the generated files; a row of edges is known by its file and its place there."""
    made = pipelines.Pipeline("big")
    made.source("persons", format="parquet", path=str(data / "Person.parquet"), incremental="files")
    made.source("knows", format="parquet", path=str(data / "knows-*.parquet"), incremental="files")
    made.node("Person", name="person", input="persons", expect=[pipelines.drop("grown_up", "age IS NULL OR age >= 0")])
    made.edge(
        "Knows",
        name="knowing",
        input="knows",
        mode="append",
        expect=[pipelines.quarantine("not_alone", "`from` != `to`"), pipelines.fail("weighs", "weight >= 0")],
    )
    return made


def run_big(data: Path, work: Path, records: int) -> tuple[float, int, Mapping[str, float]]:
    """Run the pipeline, then again with some more edges; return what :func:`load_big` does."""
    storage = Storage.open(str(work / "graph"))
    init_graph(storage, SCHEMA_PATH.read_bytes())
    seconds: dict[str, float] = {}
    with Watch() as watch, omnigraph.open(work / "graph") as graph:
        spark = plane.session(master="local[2]", conf={"spark.driver.memory": "1g"})
        try:
            started = time.perf_counter()
            first = pipelines.run(declare(data), graph, spark=spark)
            seconds["first run"] = time.perf_counter() - started
            some = pq.read_table(data / "knows-0000.parquet")
            pq.write_table(some.slice(0, max(1, records // 100)), data / "knows-more.parquet", row_group_size=131_072)
            again = time.perf_counter()
            second = pipelines.run(declare(data), graph, spark=spark)
            seconds["incremental run"] = time.perf_counter() - again
        finally:
            plane.stop(spark)
            (data / "knows-more.parquet").unlink(missing_ok=True)
    taken = sum(step.rows_in for step in first.steps if step.type_name)
    if taken != records or sum(step.rows_in for step in second.steps if step.type_name) > records // 50:
        sys.exit(f"the first run took {taken} of {records} records, the second {second.to_json()['steps']}")
    return seconds["first run"], watch.peak_bytes, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--persons", type=int, default=500_000)
    parser.add_argument("--limit-gb", type=float, default=6.0)
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep the generated files here")
    parser.add_argument("--pipeline", action="store_true", help="load by a declared pipeline, and once more a few rows")
    parser.add_argument("--only-input", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="omnigraph-big-") as scratch:
        data = arguments.data or Path(scratch) / "data"
        if arguments.only_input:
            write_input(data, arguments.persons, arguments.edges)
            return
        numbers = ["--edges", str(arguments.edges), "--persons", str(arguments.persons)]
        command = [sys.executable, __file__, "--only-input", *numbers, "--data", str(data)]
        subprocess.run(command, check=True)  # noqa: S603 - our own file
        records = arguments.edges + arguments.persons
        measure = run_big if arguments.pipeline else load_big
        seconds, peak_bytes, steps = measure(data, Path(scratch), records)
        told = ", ".join(f"{step} {took:.1f} s" for step, took in steps.items())
        print(f"{records:,} records in {seconds:.1f} s ({records / seconds:,.0f}/s): {told}")
        print(f"peak memory of all processes {peak_bytes / GIB:.2f} GiB, limit {arguments.limit_gb:.2f} GiB")
        auditor = BigAuditor(str(Path(scratch) / "graph"), Path(scratch), {"edge:Knows": "node:Person"})
        auditor.run()
        auditor.check_ends()
        print("\n".join(auditor.findings) or "the auditor finds nothing")
        if auditor.findings or peak_bytes > arguments.limit_gb * GIB:
            sys.exit(1)


if __name__ == "__main__":
    main()
