"""How fast a load is: the same graph through omnigraph, bare Lance and ladybug, and small mutations beside an upsert.

Every figure comes from a process of its own, so that peak memory is that of one load and nothing is warm that a fresh
process would not have warm. Bare Lance writes the finished Arrow tables and checks nothing; ladybug copies the same
Parquet files. It never fails because of a figure: that depends on the machine, which is printed with it.

Usage: python bench/load.py [--size S|M|XS] [--rounds N] [--data DIR]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import mutations
from bench.generate import EDGES, SCHEMA_PATH, SIZES, Dataset, generate
from bench.query_engines import CYPHER_TABLES
from tests.session import Session

from omnigraph.engine.load import load
from omnigraph.engine.open_graph import init_graph
from omnigraph.store.location import Storage
from omnigraph.values import MAIN, BranchName

MIB = 1 << 20
Answer = dict[str, float]


def load_jsonl(dataset: Dataset, work: Path) -> Answer:
    return _load(dataset, work, [str(dataset.jsonl)])


def load_parquet(dataset: Dataset, work: Path) -> Answer:
    return _load(dataset, work, [str(path) for path in dataset.parquet])


def write_lance(dataset: Dataset, work: Path) -> Answer:
    tables = {path.stem: _stored(path.stem, pq.read_table(path)) for path in dataset.parquet}
    with _timed() as elapsed:
        for name, rows in tables.items():
            lance.write_dataset(rows, str(work / name), enable_stable_row_ids=True)
    return {"seconds": elapsed()}


def copy_ladybug(dataset: Dataset, work: Path) -> Answer:
    import ladybug  # noqa: PLC0415 - only this child needs it, and it may be absent

    with _timed() as elapsed:
        database = ladybug.Database(str(work / "ladybug"))
        connection = ladybug.Connection(database)
        for path in dataset.parquet:
            connection.execute(f"CREATE {CYPHER_TABLES[path.stem]}")
            connection.execute(f'COPY {path.stem} FROM "{path}"')
        connection.close()
        database.close()
    return {"seconds": elapsed()}


def mutate(dataset: Dataset, work: Path) -> Answer:
    """Small writes on a loaded graph with full durability, beside a bare table of the same persons."""
    _load(dataset, work, [str(path) for path in dataset.parquet])
    persons = next(path for path in dataset.parquet if path.stem == "Person")
    with Session.open(Storage.open(str(work / "graph"))) as session:
        return mutations.measure(session, _stored("Person", pq.read_table(persons)), work)


CHILDREN: dict[str, Callable[[Dataset, Path], Answer]] = {
    "omnigraph JSONL": load_jsonl,
    "omnigraph Parquet": load_parquet,
    "bare Lance": write_lance,
    "ladybug COPY": copy_ladybug,
    "mutate": mutate,
}
LOADS = ("omnigraph JSONL", "omnigraph Parquet", "bare Lance", "ladybug COPY")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=sorted(SIZES), default="S")
    parser.add_argument("--rounds", type=int, default=1, help="take the fastest of so many runs of each load")
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep the generated files here")
    parser.add_argument("--child", choices=sorted(CHILDREN), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        _run_child(arguments.child, generate(arguments.size, arguments.data))
        return
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as scratch:
        data = (arguments.data or Path(scratch)) / arguments.size
        started_s = time.perf_counter()
        dataset = generate(arguments.size, data)
        made_s = time.perf_counter() - started_s
        console = Console(width=110)
        console.print(
            f"size {arguments.size}: {dataset.size.records:,} records, generated in {made_s:.1f} s;"
            f" {platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}"
        )
        console.print(_loads(arguments.size, data, arguments.rounds, dataset.size.records))
        console.print(mutations.show(_ask("mutate", arguments.size, data)))


def _loads(size: str, data: Path, rounds: int, records: int) -> Table:
    found = {name: _best(name, size, data, rounds) for name in LOADS}
    table = Table("load", "seconds", "records/s", "peak MiB", "x bare Lance", "x ladybug")
    for name, answer in found.items():
        if answer is None:
            table.add_row(name, "not installed")
            continue
        ratios = [_ratio(answer, found[peer]) for peer in ("bare Lance", "ladybug COPY")]
        speed = f"{records / answer['seconds']:,.0f}"
        table.add_row(name, f"{answer['seconds']:.2f}", speed, f"{answer['peak_bytes'] / MIB:,.0f}", *ratios)
    return table


def _best(name: str, size: str, data: Path, rounds: int) -> Answer | None:
    if name == "ladybug COPY" and importlib.util.find_spec("ladybug") is None:
        return None
    return min((_ask(name, size, data) for _ in range(rounds)), key=lambda answer: answer["seconds"])


def _ask(name: str, size: str, data: Path) -> Answer:
    command = [sys.executable, __file__, "--child", name, "--size", size, "--data", str(data)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own file
    if ended.returncode != 0:
        sys.exit(f"{name} failed\n{ended.stderr}")
    answer: Answer = json.loads(ended.stdout)
    return answer


def _run_child(name: str, dataset: Dataset) -> None:
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as work:
        answer = CHILDREN[name](dataset, Path(work))
    answer["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(answer))


def _load(dataset: Dataset, work: Path, sources: list[str]) -> Answer:
    storage = Storage.open(str(work / "graph"))
    init_graph(storage, SCHEMA_PATH.read_bytes())
    with Session.open(storage) as session:
        branch_writer = session.store.branch_writer(BranchName(MAIN))
        catalog = session.catalog()
        with _timed() as elapsed:
            result = load(branch_writer, catalog, sources, "append")
    assert result.total == dataset.size.records
    return {"seconds": elapsed()}


def _stored(name: str, rows: pa.Table) -> pa.Table:
    """Return rows as the graph stores them: with ids, and ends under their own names."""
    if name in EDGES:
        numbers = pc.utf8_lpad(pc.cast(pa.array(range(rows.num_rows)), pa.string()), 26, "0")
        rows = rows.rename_columns({"from": "src", "to": "dst"}).add_column(0, "id", numbers)
    else:
        rows = rows.add_column(0, "id", rows["slug"])
    if "posted" in rows.column_names:
        at = rows.column_names.index("posted")
        milliseconds = rows["posted"].cast(pa.int64())
        rows = rows.set_column(at, "posted", pa.chunked_array([part.view(pa.date64()) for part in milliseconds.chunks]))
    return rows


def _ratio(answer: Answer, peer: Answer | None) -> str:
    return "" if peer is None else f"{answer['seconds'] / peer['seconds']:.2f}"


@contextmanager
def _timed() -> Iterator[Callable[[], float]]:
    """Yield what tells, after the block, how long it took."""
    started_s = time.perf_counter()
    spent: list[float] = []
    yield lambda: spent[0]
    spent.append(time.perf_counter() - started_s)


if __name__ == "__main__":
    main()
